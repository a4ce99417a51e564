"""What a child is told when it starts: one frozen value, written by the parent into a memfd.

It is read in three parts, since what a child makes for itself costs memory in each of them, and what the fork server
reads may stay in the memory that all later children inherit: the `Scope`, alike for all children of a stream, is read
and made use of once by the fork server; the rest by the child; the environment, where secrets are, by the child, and
only if it differs from the one that it has (see `environment`).

Texts named `url`, `subscribe`, `headers`, `sink_headers`, `proxy` are templates (see `workers.template`): they are
expanded at every use, so that rotated secrets and fresh tokens just work. Durations are milliseconds, sizes bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass

from workers.process import environment

_SIZE_BYTES = 8  # of the size in front of each part, in digits


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The settings of a `[stream:NAME]` section that its children need. One url = one connection."""

    stream: str
    url: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    handler: str = ""  # "/abs/path/file.py:Class" or "package.module:Class"; empty: no code, events go to the sink
    handler_errors: int = 10  # in a row
    checkpoint: str = ""  # a JSON pointer into each message, as the next two; empty: none
    id: str = ""
    sequence: str = ""
    checkpoint_retries: int = 3  # 0: never dropped
    on_gap: str = "report"  # or "reconnect"
    sink: str = "stdout"  # a form of `sinks.choice`, or a class like that of `handler`
    sink_buffer: int = 4 * 1024 * 1024
    overflow: str = "wait"  # or "drop_oldest"
    sink_timeout_ms: int = 10_000
    sink_batch: int = 0  # events in a request; 0: as the sink likes
    sink_headers: tuple[tuple[str, str], ...] = ()  # templates
    sink_compression: str = "none"  # or "gzip"
    sink_fsync: str = "checkpoint"  # or "always", "never"
    sink_rotate_size: int = 0  # 0: never, as the next one
    sink_rotate_every_ms: int = 0
    sink_keep: int = 0  # 0: all
    tls_ca: str = ""  # files in PEM form; empty: the system's authorities, no certificate of ours
    tls_cert: str = ""
    tls_key: str = ""  # empty: in the file of `tls_cert`
    tls_min_version: str = "1.2"
    tls_stamp: str = ""  # of these files, when the configuration was read; see `tls`
    proxy: str = "none"  # or "env", or a template of a url
    compression: str = "off"  # or "deflate"
    connect_rate: float = 0.0  # attempts in a second of a supervisor, for each `connect_key`; 0: no limit
    connect_key: str = ""
    send_rate: float = 0.0  # messages in a second on one connection; 0: no limit
    idle_timeout_ms: int = 45_000  # silence of data; 0: off
    on_idle: str = "report"  # or "reconnect"
    max_age_ms: int = 0  # 0: off
    connect_timeout_ms: int = 10_000  # resolution, TCP, TLS and upgrade together
    ping_interval_ms: int = 20_000  # silence after which a ping is sent
    ping_timeout_ms: int = 10_000  # silence after a ping that means dead
    frame_timeout_ms: int = 30_000  # a frame, once begun, must be complete within this
    max_message: int = 16 * 1024 * 1024
    close_code: int = 1001
    reconnect_min_ms: int = 500
    reconnect_max_ms: int = 60_000
    stable_after_ms: int = 60_000  # a connection this old resets the backoff


@dataclass(frozen=True, slots=True)
class Scope:
    """What all children of a stream at one supervisor are told alike."""

    spec: StreamSpec
    fleet: str
    host: str
    base: str  # folder of the configuration file: relative handler and file paths resolve against it
    credentials: str = ""  # systemd's credentials directory
    python_path: tuple[str, ...] = ()
    supervisor: str = ""  # the id that a child's log lines carry

    @staticmethod
    def from_json(data: bytes) -> Scope:
        raw = json.loads(data)
        spec = raw.pop("spec")
        for name in ("url", "subscribe"):
            spec[name] = tuple(spec[name])
        for name in ("headers", "sink_headers"):
            spec[name] = tuple((header, value) for header, value in spec[name])
        raw["python_path"] = tuple(raw["python_path"])
        return Scope(spec=StreamSpec(**spec), **raw)


@dataclass(frozen=True, slots=True)
class Task:
    """One child's whole task: one shard under one epoch."""

    scope: Scope
    shard: str  # "trades/7", or "trades" where the stream is one shard
    index: str  # "7", "eu", or "" where the stream is one shard
    epoch: int
    slot: int  # of the board
    checkpoint: str | None
    environment: dict[str, str]  # what the child's os.environ becomes; empty in a task that `read_task` returns

    def packed(self) -> bytes:
        """The three parts, each behind its size."""
        scope = json.dumps(dataclasses.asdict(self.scope)).encode()
        known = "" if self.checkpoint is None else f"={self.checkpoint}"
        own = "\0".join((self.shard, self.index, str(self.epoch), str(self.slot), known)).encode()
        parts = (scope, own, environment.packed(self.environment))
        return b"".join(b"%*d%b" % (_SIZE_BYTES, len(part), part) for part in parts)


def read_scope(task_fd: int) -> bytes:
    """The first part of a packed task, for `Scope.from_json`; the next read is that of the second."""
    os.lseek(task_fd, 0, os.SEEK_SET)
    return _read_part(task_fd)


def read_task(task_fd: int, scope: Scope) -> Task:
    """The second part."""
    shard, index, epoch, slot, known = _read_part(task_fd).decode().split("\0", 4)
    return Task(scope, shard, index, int(epoch), int(slot), known[1:] if known else None, {})


def read_environment(task_fd: int) -> bytes:
    """The third part, as `environment.become` wants it."""
    return _read_part(task_fd)


def _read_part(task_fd: int) -> bytes:
    return os.read(task_fd, int(os.read(task_fd, _SIZE_BYTES)))
