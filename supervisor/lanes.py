"""Lanes: threads that make blocking calls, each call with a deadline of its own, none held up by a stuck one.

A provider's timeouts do not bound a call: a stalled resolver or a body that trickles holds a thread far beyond them.
So a call that is not back by its deadline counts as unanswered, its thread counts as stuck and is replaced at once,
up to a bound. Calls of one key (a row, say) can take few of these threads, so that one bad row, tried again and again,
cannot use them up for all. What holds:

- `done` is called on the loop exactly once in time: with the result, or with `Late` at the deadline;
- a result that comes after that is passed on too, since it may prove something: `done` is then called again;
- a call whose deadline passed before a thread took it, or of whose key enough calls are stuck, is never made:
  `Late(unsent=True)`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workers.process.kernel import boottime_ns

STUCK_MAX_PER_THREAD = 4
STUCK_MAX_PER_KEY = 2


@dataclass(frozen=True, slots=True)
class Late:
    """No answer within the deadline. `unsent`: the call was never made."""

    unsent: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """The call raised; what that means is the caller's to say."""

    error: BaseException


Done = Callable[[Any, int], None]
"""Called with the result (or `Late`, `Raised`) and the CLOCK_BOOTTIME instant at which it was complete."""


class _Job:
    __slots__ = ("done", "finished", "key", "late", "taken", "timer", "work")

    def __init__(self, key: str, work: Callable[[], Any], done: Done) -> None:
        self.key = key
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
        self._urgent: deque[_Job] = deque()
        self._jobs: deque[_Job] = deque()
        self._turn = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._stuck: Counter[str] = Counter()
        self._closed = False

    @property
    def stuck(self) -> int:
        """Threads whose call is past its deadline."""
        return self._stuck.total()

    def submit(self, key: str, work: Callable[[], Any], timeout_s: float, done: Done, urgent: bool = False) -> None:
        """Make the call on some thread; see the head of this file for what `done` gets. What is `urgent` comes before
        all that is not."""
        job = _Job(key, work, done)
        with self._turn:
            if self._stuck[key] >= STUCK_MAX_PER_KEY:
                self._loop.call_soon(done, Late(unsent=True), boottime_ns())
                return
            job.timer = self._loop.call_later(timeout_s, self._expire, job)
            (self._urgent if urgent else self._jobs).append(job)
            self._staff()
            self._turn.notify()

    def close(self) -> None:
        """No thread takes another call, and those that wait are forgotten. Stuck threads end with the process."""
        with self._turn:
            self._closed = True
            for job in (*self._urgent, *self._jobs):
                if job.timer is not None:
                    job.timer.cancel()
            self._urgent.clear()
            self._jobs.clear()
            self._turn.notify_all()

    def _staff(self) -> None:
        """Another thread, if calls wait and the bounds allow one. Called with the lock held."""
        most = self._width * (1 + STUCK_MAX_PER_THREAD)
        if (
            len(self._urgent) + len(self._jobs) > self._idle
            and self._threads - self.stuck < self._width
            and self._threads < most
        ):
            self._threads += 1
            threading.Thread(target=self._work, name=f"lane-{self._name}", daemon=True).start()

    def _expire(self, job: _Job) -> None:
        with self._turn:
            if job.finished:
                return
            job.late = True
            if job.taken:
                self._stuck[job.key] += 1
            else:
                (self._urgent if job in self._urgent else self._jobs).remove(job)
            self._staff()
        job.done(Late(unsent=not job.taken), boottime_ns())

    def _work(self) -> None:
        while (job := self._take()) is not None:
            result: Any
            try:
                result = job.work()
            except BaseException as error:  # also those a library in another language throws: the thread must live on
                result = Raised(error)
            answered_ns = boottime_ns()
            with self._turn:
                job.finished = True
                if job.late:
                    self._stuck -= Counter((job.key,))  # which forgets keys without a stuck call
                surplus = self._threads - self.stuck > self._width
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
            while not (self._urgent or self._jobs or self._closed):
                self._turn.wait()
            self._idle -= 1
            if self._closed:
                return None
            job = (self._urgent or self._jobs).popleft()
            job.taken = True
            return job

    @staticmethod
    def _finish(job: _Job, result: Any, answered_ns: int) -> None:
        if job.timer is not None:
            job.timer.cancel()
        job.done(result, answered_ns)
