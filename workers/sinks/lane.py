"""The delivery for a sink that may wait: a thread of its own behind a bounded queue.

What holds, beside what `delivery` promises:

- by default the loop asks `full` before it reads on, so that a slow consumer slows the peer down and loses nothing; a
  lane that drops loses the oldest events that wait instead, whole batches of them, and counts them;
- the sink gets what waits in slices, so that what is made of it for a write is small, and each write is progress;
- an event that was dropped is done with: the checkpoint behind it is committed in its turn, or each new child would ask
  for it again. Commits are at least `COMMIT_INTERVAL_S` apart, since a token travels with a renewal anyway, and
  flushing may mean a disk. The same holds for numbers by which the loop learns what is safe (`settle`).
"""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof

from workers.blame import said
from workers.board import Slot
from workers.process.kernel import boottime_ns
from workers.sinks.condition import Condition
from workers.sinks.delivery import end_if_fenced
from workers.sinks.envelope import Batch
from workers.sinks.interface import Sink, SinkAway, SinkFailed

SLICE_BYTES = 256 * 1024  # of one write of the sink, as `weight` counts; one batch may be larger
COMMIT_INTERVAL_S = 0.25
_BATCH_BYTES = 400  # what Python needs for a batch that waits, beside its messages
_MESSAGE_BYTES = 24  # its place in a list, and what the allocator adds


def weight(batch: Batch) -> int:
    """The memory that a batch takes while it waits: four times its text, if one character in it is no common one."""
    try:
        size = sum(map(str.__sizeof__, batch.messages))  # a sixth of the time of the general way
    except TypeError:  # there are bytes among them
        size = sum(map(getsizeof, batch.messages))
    if batch.ids:
        size += sum(map(getsizeof, batch.ids))
    return _BATCH_BYTES + _MESSAGE_BYTES * len(batch.messages) + size


@dataclass(frozen=True, slots=True)
class _Mark:
    """What is to be done once everything before it is safe: a token to commit, a number to reach."""

    token: str | None = None
    number: int = 0

    def then(self, later: _Mark) -> _Mark:
        """Both at once."""
        return _Mark(self.token if later.token is None else later.token, later.number or self.number)


_NOTHING = _Mark()


@dataclass(slots=True)
class _Waiting:
    batch: Batch
    weight: int
    mark: _Mark = _NOTHING  # behind the batch


@dataclass(frozen=True, slots=True)
class _Slice:
    """What the sink gets at once, and the marks behind it."""

    batches: list[Batch]
    weight: int
    mark: _Mark
    last: bool


class Lane:
    """For a sink that may wait: a thread, and a queue of about `max_bytes`. `wake` is called from the thread when there
    is room again, when a number is reached, and when it ends."""

    def __init__(
        self,
        sink: Sink,
        slot: Slot,
        condition: Condition,
        wake: Callable[[], object],
        max_bytes: int,
        drops: bool = False,
    ) -> None:
        self._sink, self._slot = sink, slot
        self._condition = condition
        self._wake = wake
        self._max_bytes, self._drops = max_bytes, drops
        self._slice_bytes = min(SLICE_BYTES, max_bytes // 4)
        self._lock = _thread.allocate_lock()
        self._wanted = _thread.allocate_lock()  # free when there is something to do for the thread
        self._wanted.acquire()
        self._queue: deque[_Waiting] = deque()
        self._mark = _NOTHING  # stands before the queue: what was put before it was taken or dropped
        self._closing = False
        self.waiting_bytes = 0
        self._overflowed = 0  # events
        self.failure = ""
        self.away = False
        self.finished = False
        self.settled = 0
        _thread.start_new_thread(self._run, ())  # not `threading`: see `fence`

    @property
    def full(self) -> bool:
        return self.waiting_bytes >= self._max_bytes and not self._drops

    @property
    def dropped(self) -> int:
        return self._overflowed + self._condition.lost

    def put(self, batch: Batch) -> None:
        end_if_fenced(self._slot, boottime_ns())
        waiting = _Waiting(batch, weight(batch))
        with self._lock:
            self._queue.append(waiting)
            self.waiting_bytes += waiting.weight
            if self._drops:
                self._make_room()
            self._rouse()

    def _make_room(self) -> None:
        """Under the lock. The newest batch stays, however large it is."""
        while self.waiting_bytes > self._max_bytes and len(self._queue) > 1:
            oldest = self._queue.popleft()
            self.waiting_bytes -= oldest.weight
            self._overflowed += len(oldest.batch.messages)
            self._mark = self._mark.then(oldest.mark)

    def commit(self, token: str) -> None:
        with self._lock:
            if self._queue:
                last = self._queue[-1]
                more = len(token) - len(last.mark.token or "")
                last.weight += more
                self.waiting_bytes += more
            self._put_mark(_Mark(token=token))

    def settle(self, number: int) -> None:
        with self._lock:
            self._put_mark(_Mark(number=number))

    def _put_mark(self, mark: _Mark) -> None:
        """Under the lock."""
        if self._queue:
            last = self._queue[-1]
            last.mark = last.mark.then(mark)
        else:
            self._mark = self._mark.then(mark)
        self._rouse()

    def finish(self) -> None:
        with self._lock:
            self._closing = True
            self._rouse()

    def _rouse(self) -> None:
        """Under the lock."""
        if self._wanted.locked():
            self._wanted.release()

    # --- the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
            self._close()
        except SinkAway as error:
            self.failure, self.away = str(error), True
        except SinkFailed as error:
            self.failure = str(error)
        except BaseException as error:  # also of a sink that calls `sys.exit`: it would end this thread alone
            self.failure = said(error)
        self._condition.ended()
        self.finished = True
        self._wake()

    def _close(self) -> None:
        """Everything is safe by now, also where a stop does not wait for this."""
        self._condition.begun()
        try:
            self._sink.close()
        except SinkAway as error:
            reason = f"the sink was not closed, for which a stop does not wait: {error}; all events are in it"
            self._condition.log("child.failed", "WARNING", reason=reason)

    def _work(self) -> None:
        mark = _NOTHING
        committed_ns = 0
        while True:
            piece = self._next(None if mark == _NOTHING else COMMIT_INTERVAL_S)
            if piece.batches:
                self._deliver(piece)
            mark = mark.then(piece.mark)
            due_ns = committed_ns + int(COMMIT_INTERVAL_S * 1e9)
            if piece.last or (mark != _NOTHING and boottime_ns() >= due_ns):
                self._flush()
                self._reach(mark)
                mark, committed_ns = _NOTHING, boottime_ns()
            if piece.last:
                return

    def _reach(self, mark: _Mark) -> None:
        if mark.token is not None:
            self._slot.write_checkpoint(mark.token)
        if mark.number:
            self.settled = mark.number
            self._wake()

    def _next(self, timeout_s: float | None) -> _Slice:
        """Some of what waits. It counts as waiting until it is written."""
        if not (self._queue or self._mark != _NOTHING or self._closing):  # what comes after this look frees `_wanted`
            self._wanted.acquire(timeout=-1 if timeout_s is None else timeout_s)
        batches: list[Batch] = []
        size = 0
        with self._lock:
            queue, mark, self._mark = self._queue, self._mark, _NOTHING
            while queue and (not batches or size + queue[0].weight <= self._slice_bytes):
                waiting = queue.popleft()
                batches.append(waiting.batch)
                size += waiting.weight
                if waiting.mark is not _NOTHING:
                    mark = mark.then(waiting.mark)
            return _Slice(batches, size, mark, self._closing and not queue)

    def _deliver(self, piece: _Slice) -> None:
        end_if_fenced(self._slot, boottime_ns())
        self._condition.begun()
        self._sink.write(piece.batches)
        self._condition.ended()
        with self._lock:
            was_full = self.full
            self.waiting_bytes -= piece.weight
        if was_full and not self.full:
            self._wake()

    def _flush(self) -> None:
        self._condition.begun()
        self._sink.flush()
        self._condition.ended()
