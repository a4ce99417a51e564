"""What a child is told when it starts: one frozen value, written by the parent as JSON and read by the child.

Texts named `url`, `subscribe`, `headers` are templates (see `workers.template`): they are expanded at every
connect, so that rotated secrets and fresh tokens just work. Durations are milliseconds, sizes bytes.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The settings of a `[stream:NAME]` section that its children need. One url = one connection."""

    stream: str
    url: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    handler: str = ""  # "/abs/path/file.py:Class" or "package.module:Class"; empty: no code, events go to the sink
    sink: str = "stdout"
    tls_ca: str = ""
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
class Task:
    """One child's whole task: one shard under one epoch."""

    spec: StreamSpec
    fleet: str
    shard: str  # "trades/7", or "trades" where the stream is one shard
    index: str  # "7", "eu", or "" where the stream is one shard
    epoch: int
    host: str
    slot: int  # of the board
    checkpoint: str | None
    environment: dict[str, str]  # what the child's os.environ becomes
    base: str  # folder of the configuration file: relative handler and file paths resolve against it
    credentials: str = ""  # systemd's credentials directory
    python_path: tuple[str, ...] = ()
    supervisor: str = ""  # the id that the child's log lines carry

    def to_json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @staticmethod
    def from_json(data: bytes) -> Task:
        raw = json.loads(data)
        spec = raw.pop("spec")
        for name in ("url", "subscribe"):
            spec[name] = tuple(spec[name])
        spec["headers"] = tuple((name, value) for name, value in spec["headers"])
        raw["python_path"] = tuple(raw["python_path"])
        return Task(spec=StreamSpec(**spec), **raw)
