"""The supervisor's log: one JSON object a line, or one line of text where a person watches a terminal.

What holds: `write` never waits and never fails. It puts a record into a bounded queue; one thread formats and
writes. When the reader of stderr stands still, the newest records are dropped, counted, and reported by
`journal.dropped` as soon as there is room again. A line is at most a few KiB long, and control characters of a text
cannot move a terminal's cursor or begin a line of their own.

Not promised: that the last lines appear when the reader stands still at the end (`close` waits a bounded time), and
nothing about secrets: a field is written as it is given, so callers keep them out.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import select
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO, cast

from pythonjsonlogger.json import JsonFormatter

from workers.terminal import text_line

# The names that `event` can have, here and in the lines that children write; a test reads the code for others.
EVENTS = frozenset(
    {
        "supervisor.started",
        "supervisor.ready",
        "supervisor.draining",
        "supervisor.stopped",
        "lease.claimed",
        "lease.lost",
        "lease.fenced",
        "lease.released",
        "lease.conflict",
        "child.started",
        "child.killed",
        "child.exited",
        "child.failed",
        "handler.failed",
        "connection.opened",
        "connection.closed",
        "connection.silent",
        "checkpoint.dropped",
        "sequence.gap",
        "sink.stalled",
        "sink.resumed",
        "events.dropped",
        "store.unreachable",
        "store.reachable",
        "row.rejected",
        "shard.homeless",
        "wish.refused",
        "config.reloaded",
        "config.rejected",
        "config.warning",
        "journal.dropped",
        "library.warning",
    }
)
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
QUEUE_MAX = 8192
TEXT_MAX_CHARS = 2000
CLOSE_TIMEOUT_S = 2.0
_FIRST = ("time", "level", "event", "supervisor", "shard", "epoch", "reason", "latency_ms")

Line = Callable[[logging.LogRecord], str]


class Journal:
    """`supervisor` stands in every line; a supervisor that takes a new id sets it. Any thread may write."""

    def __init__(self, supervisor: str, level: str, stream: TextIO, queue_max: int = QUEUE_MAX) -> None:
        self.supervisor = supervisor
        self._least = LEVELS[level]
        self._fd = stream.fileno()
        self._line: Line = _text if stream.isatty() else JsonFormatter([], json_default=str).format
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(queue_max)
        self._dropped = 0  # ever
        self._reported = 0
        self._counting = threading.Lock()
        self._handler = logging.handlers.QueueHandler(self)  # type: ignore[arg-type]  # it only calls put_nowait
        # A daemon: a reader that stands still must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def write(self, level: str, event: str, message: str = "", **fields: Any) -> None:
        """`event` is one of `EVENTS`; fields that are None are left out."""
        if LEVELS[level] < self._least:
            return
        self._put(self._record(level, event, {**fields, "message": message or None}))

    def least(self, level: str) -> None:
        """From now on only lines of this level and above."""
        self._least = LEVELS[level]

    @property
    def dropped(self) -> int:
        """How many lines were ever lost."""
        return self._dropped

    def capture(self) -> None:
        """Also write what libraries log through the standard library from WARNING on, as `library.warning`."""
        self._handler.setLevel(logging.WARNING)
        logging.getLogger().addHandler(self._handler)

    def put_nowait(self, record: logging.LogRecord) -> None:
        """A library's record, already merged into its message by the handler."""
        name = record.levelname.lower()
        level = name if name in LEVELS else "error"
        self.write(level, "library.warning", str(record.msg), library=record.name)

    def close(self) -> None:
        """Write what is queued, waiting a bounded time for a slow reader."""
        logging.getLogger().removeHandler(self._handler)
        try:
            self._queue.put(None, timeout=CLOSE_TIMEOUT_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_TIMEOUT_S)

    def _record(self, level: str, event: str, fields: dict[str, Any]) -> logging.LogRecord:
        record = logging.LogRecord("tenured", LEVELS[level], "", 0, "", None, None)
        named = {"level": level.upper(), "event": event, "supervisor": self.supervisor, **fields}
        ordered = {"time": moment_text(record.created), **{name: named.get(name) for name in _FIRST[1:]}, **named}
        # A mapping as the message becomes the fields of the line, whatever they are called.
        record.msg = {name: _bounded(value) for name, value in ordered.items() if value is not None}
        return record

    def _put(self, record: logging.LogRecord) -> None:
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._drop()

    def _drop(self) -> None:
        with self._counting:
            self._dropped += 1

    def _run(self) -> None:
        while (record := self._queue.get()) is not None:
            self._emit(record)
            dropped = self._dropped - self._reported
            if dropped and self._queue.qsize() <= self._queue.maxsize // 2:
                self._reported += dropped
                reason = "stderr was not read in time"
                self._emit(self._record("warning", "journal.dropped", {"reason": reason, "count": dropped}))

    def _emit(self, record: logging.LogRecord) -> None:
        data = memoryview((self._line(record) + "\n").encode(errors="backslashreplace"))
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # somebody made the shared open file non-blocking
                poll = select.poll()  # `select` knows no file beyond the number 1,023
                poll.register(self._fd, select.POLLOUT)
                poll.poll(1000)
            except OSError:  # nobody reads any more; the next line may find somebody
                self._drop()
                return


def moment_text(created: float) -> str:
    """Unix seconds as RFC 3339 in UTC."""
    return datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(record: logging.LogRecord) -> str:
    return text_line(cast(dict[str, Any], record.msg))


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX_CHARS:
        return value[:TEXT_MAX_CHARS] + "..."
    return value
