"""The way from the loop to the sink: bounded, in order, and nothing of it after the deadline.

What holds:

- each hand-over, and again each write of the sink, is preceded by a look at the board: at or after the deadline this
  process ends on the spot (the kernel's timer normally was first);
- a sink that may wait (`Lane`) runs in a thread of its own with a bounded queue; the loop asks `full` before it reads
  on, so that a slow consumer slows the peer down and loses nothing;
- a checkpoint is on the board only after the sink has flushed every event handed over before it. Commits are at least
  `COMMIT_INTERVAL_S` apart, since a token travels with a renewal anyway, and flushing may mean a disk;
- an error of a sink ends the child: `failure` says why.

A frozen machine can still be between the look and the write; the epoch in each event is for that.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable
from typing import Protocol

from workers.board import DEADLINE, Slot
from workers.envelope import Batch
from workers.kernel import boottime_ns
from workers.sinks.interface import Sink

FENCED = 3  # exit code of a child that saw its deadline pass
QUEUE_MAX_BYTES = 4 * 1024 * 1024
COMMIT_INTERVAL_S = 0.25
_MESSAGE_BYTES = 64  # what Python needs for a message beside its payload


def end_if_fenced(slot: Slot, now_ns: int) -> None:
    """Nothing may be delivered at or after the deadline: not even an exit handler runs."""
    if now_ns >= slot.words[DEADLINE]:
        os._exit(FENCED)


class Delivery(Protocol):
    @property
    def full(self) -> bool:
        """Do not `put` now if that can be avoided."""

    @property
    def failure(self) -> str:
        """Why nothing can be delivered any more, or empty."""

    def put(self, batch: Batch) -> None: ...

    def commit(self, token: str) -> None:
        """Write a checkpoint once all that was put before is safe."""

    def finish(self) -> None:
        """No more will be put; `finished` becomes true when everything is safe and the sink is closed."""

    @property
    def finished(self) -> bool: ...


class Direct:
    """For a sink that never waits: it is called on the loop itself."""

    full = False

    def __init__(self, sink: Sink, slot: Slot) -> None:
        self._sink = sink
        self._slot = slot
        self.failure = ""
        self.finished = False

    def put(self, batch: Batch) -> None:
        end_if_fenced(self._slot, boottime_ns())
        self._sink.write([batch])

    def commit(self, token: str) -> None:
        self._slot.write_checkpoint(token)

    def finish(self) -> None:
        self._sink.close()
        self.finished = True


class Lane:
    """For a sink that may wait: a thread, and a queue of `QUEUE_MAX_BYTES`. `wake` is called from the thread when
    there is room again, and when it ends."""

    def __init__(self, sink: Sink, slot: Slot, wake: Callable[[], None]) -> None:
        self._sink = sink
        self._slot = slot
        self._wake = wake
        self._lock = _thread.allocate_lock()
        self._wanted = _thread.allocate_lock()  # free when there is something to do for the thread
        self._wanted.acquire()
        self._queue: list[Batch] = []
        self._queued_bytes = 0
        self._token: str | None = None  # stands behind all of the queue
        self._closing = False
        self.failure = ""
        self.finished = False
        _thread.start_new_thread(self._run, ())  # not `threading`: see `fence`

    @property
    def full(self) -> bool:
        return self._queued_bytes >= QUEUE_MAX_BYTES

    def put(self, batch: Batch) -> None:
        end_if_fenced(self._slot, boottime_ns())
        with self._lock:
            self._queue.append(batch)
            self._queued_bytes += _weight(batch)
            self._rouse()

    def commit(self, token: str) -> None:
        with self._lock:
            self._token = token
            self._rouse()

    def finish(self) -> None:
        with self._lock:
            self._closing = True
            self._rouse()

    def _rouse(self) -> None:
        """Under the lock."""
        if self._wanted.locked():
            self._wanted.release()

    def _run(self) -> None:
        try:
            self._work()
            self._sink.close()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        self.finished = True
        self._wake()

    def _work(self) -> None:
        token: str | None = None
        committed_ns = 0
        while True:
            batches, newer, closing = self._next(None if token is None else COMMIT_INTERVAL_S)
            token = token if newer is None else newer
            if batches:
                self._deliver(batches)
            due_ns = committed_ns + int(COMMIT_INTERVAL_S * 1e9)
            if token is not None and (closing or boottime_ns() >= due_ns):
                self._sink.flush()
                self._slot.write_checkpoint(token)
                token, committed_ns = None, boottime_ns()
            if closing and not batches:
                self._sink.flush()
                return

    def _next(self, timeout_s: float | None) -> tuple[list[Batch], str | None, bool]:
        """All that waits: events, the newest token, whether this is the end. Their bytes count until written."""
        if not (self._queue or self._token is not None or self._closing):  # what comes after this look frees `_wanted`
            self._wanted.acquire(timeout=-1 if timeout_s is None else timeout_s)
        with self._lock:
            batches, self._queue = self._queue, []
            token, self._token = self._token, None
            return batches, token, self._closing

    def _deliver(self, batches: list[Batch]) -> None:
        end_if_fenced(self._slot, boottime_ns())
        self._sink.write(batches)
        with self._lock:
            was_full = self.full
            self._queued_bytes -= sum(map(_weight, batches))
        if was_full:
            self._wake()


def _weight(batch: Batch) -> int:
    return batch.size + _MESSAGE_BYTES * len(batch.messages)
