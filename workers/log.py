"""A child's log: one JSON object a line on stderr, in the fields that the supervisor's own log uses.

What holds: a line is written whole or not at all (at most 4 KiB, which a pipe takes in one piece), and writing
never waits. A line that does not fit at once is dropped; the next one that does says in `dropped` how many were.

A stderr that cannot be opened anew (a socket is sent to instead; a terminal of another user) is written to when
`poll` says so, which can wait if somebody else fills it in between. Callers keep secrets out.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import time
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring

from workers.spec import Task
from workers.texts import printable_json

LINE_MAX_BYTES = 4096  # PIPE_BUF: what a pipe takes in one piece
_TEXT_MAX_CHARS = 600

Value = str | int | float | bool | None
Write = Callable[[bytes], object]  # fails rather than waits


class Log:
    """`supervisor`, `shard` and `epoch` stand in every line."""

    __slots__ = ("_always", "_dropped", "_write")

    def __init__(self, write: Write, task: Task) -> None:
        self._always: dict[str, Value] = {
            "supervisor": task.scope.supervisor,
            "shard": task.shard,
            "epoch": task.epoch,
        }
        self._write = write
        self._dropped = 0

    def __call__(self, event: str, level: str = "INFO", **fields: Value) -> None:
        record: dict[str, Value] = {
            "time": _moment(time.clock_gettime_ns(time.CLOCK_REALTIME)),
            "level": level,
            "event": event,
            **self._always,
        }
        for name, value in fields.items():
            if value is not None:
                record[name] = value[:_TEXT_MAX_CHARS] if isinstance(value, str) else value
        if self._dropped:
            record["dropped"] = self._dropped
        try:
            self._write(_line(record))
        except OSError:  # full, or nobody reads it any more: the connections matter more
            self._dropped += 1
        else:
            self._dropped = 0


def _moment(unix_ns: int) -> str:
    seconds, microseconds = divmod(unix_ns // 1000, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{microseconds:06}Z"


def _line(record: dict[str, Value]) -> bytes:
    line = _json(record)
    if len(line) < LINE_MAX_BYTES:
        return line + b"\n"
    kept = ("time", "level", "event", "supervisor", "shard", "epoch", "connection", "dropped")
    return _json({name: record[name] for name in kept if name in record})[: LINE_MAX_BYTES - 1] + b"\n"


def _json(record: Mapping[str, Value]) -> bytes:
    """A flat object without null. The module `json` would touch more of a child's memory."""
    fields = []
    for name, value in record.items():
        text = encode_basestring(value) if isinstance(value, str) else str(value).lower()
        fields.append(f'"{name}": {text}')
    return printable_json(f"{{{', '.join(fields)}}}").encode()


def writer(fd: int) -> Write:
    """A write that fails rather than waits, and leaves the open file that others share as it is."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):  # never waits; and a position of our own would let others overwrite our lines
        return lambda line: os.write(fd, line)
    if stat.S_ISSOCK(mode):
        channel = socket.socket(fileno=os.dup(fd))
        return lambda line: channel.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    try:
        own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        return lambda line: _write_if_ready(fd, poll, line)
    return lambda line: os.write(own, line)


def _write_if_ready(fd: int, poll: select.poll, line: bytes) -> None:
    if not poll.poll(0):
        raise BlockingIOError("stderr is full")
    os.write(fd, line)
