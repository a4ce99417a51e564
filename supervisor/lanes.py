"""Lanes: threads that make blocking calls, each call with a deadline of its own, none held up by a stuck one.

A provider's timeouts do not bound a call: a stalled resolver or a body that trickles holds a thread far beyond them.
So a call that is not back by its deadline counts as unanswered, its thread counts as stuck and is replaced at once,
up to a bound. What holds:

- `done` is called on the loop exactly once in time: with the result, or with `Late` at the deadline;
- a result that comes after that is passed on too, since it may prove something: `done` is then called again;
- a call whose deadline passed before a thread took it is never made: `Late(unsent=True)`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workers.kernel import boottime_ns

STUCK_MAX_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class Late:
    """No answer within the deadline. `unsent`: the call was never made."""

    unsent: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """The call raised; what that means is the caller's to say."""

    error: Exception


Done = Callable[[Any, int], None]
"""Called with the result (or `Late`, `Raised`) and the CLOCK_BOOTTIME instant at which it was complete."""


class _Job:
    __slots__ = ("done", "finished", "late", "taken", "timer", "work")

    def __init__(self, work: Callable[[], Any], done: Done) -> None:
        self.work = work
        self.done = done
        self.taken = False
        self.late = False
        self.finished = False
        self.timer: asyncio.TimerHandle | None = None


class Lane:
    """`width` calls side by side. `submit` belongs to the loop's thread."""

    def __init__(self, name: str, width: int, loop: asyncio.AbstractEventLoop) -> None:
        self._name = name
        self._width = width
        self._loop = loop
        self._jobs: deque[_Job] = deque()
        self._turn = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._stuck = 0
        self._closed = False

    @property
    def stuck(self) -> int:
        """Threads whose call is past its deadline."""
        return self._stuck

    def submit(self, work: Callable[[], Any], timeout_s: float, done: Done) -> None:
        """Make the call on some thread; see the head of this file for what `done` gets."""
        job = _Job(work, done)
        job.timer = self._loop.call_later(timeout_s, self._expire, job)
        with self._turn:
            self._jobs.append(job)
            self._staff()
            self._turn.notify()

    def close(self) -> None:
        """No thread takes another call. Stuck ones are daemon threads and end with the process."""
        with self._turn:
            self._closed = True
            self._jobs.clear()
            self._turn.notify_all()

    def _staff(self) -> None:
        """Another thread, if calls wait and the bounds allow one. Called with the lock held."""
        most = self._width * (1 + STUCK_MAX_PER_THREAD)
        if len(self._jobs) > self._idle and self._threads - self._stuck < self._width and self._threads < most:
            self._threads += 1
            threading.Thread(target=self._work, name=f"lane-{self._name}", daemon=True).start()

    def _expire(self, job: _Job) -> None:
        with self._turn:
            if job.finished:
                return
            job.late = True
            if job.taken:
                self._stuck += 1
            else:
                self._jobs.remove(job)
            self._staff()
        job.done(Late(unsent=not job.taken), boottime_ns())

    def _work(self) -> None:
        while (job := self._take()) is not None:
            result: Any
            try:
                result = job.work()
            except Exception as error:
                result = Raised(error)
            answered_ns = boottime_ns()
            with self._turn:
                job.finished = True
                self._stuck -= job.late
                surplus = self._threads - self._stuck > self._width
                self._threads -= surplus
            try:
                self._loop.call_soon_threadsafe(self._finish, job, result, answered_ns)
            except RuntimeError:  # the loop is closed: nobody waits for answers any more
                return
            if surplus:
                return

    def _take(self) -> _Job | None:
        with self._turn:
            self._idle += 1
            while not self._jobs and not self._closed:
                self._turn.wait()
            self._idle -= 1
            if self._closed:
                return None
            job = self._jobs.popleft()
            job.taken = True
            return job

    @staticmethod
    def _finish(job: _Job, result: Any, answered_ns: int) -> None:
        if job.timer is not None:
            job.timer.cancel()
        job.done(result, answered_ns)
