"""Calls that may hang, each with a time limit: name resolution, and libraries whose own timeouts do not bound a call.

What holds: `call` returns within its limit. What it gave up goes on in its thread, and its result is dropped; with
`STUCK_MAX` such threads no further call begins before the oldest of them has ended.

Not promised: that what was given up does not still happen. A request may arrive late, after a newer one.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from typing import Generic, TypeVar

STUCK_MAX = 4

T = TypeVar("T")


class Overdue(Exception):
    """There was no result within the limit."""


class _Call(Generic[T]):
    __slots__ = ("_function", "done", "error", "result")

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.result: T | None = None
        self.error: BaseException | None = None
        self.done = _thread.allocate_lock()  # held until the end
        self.done.acquire()

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:  # whoever waits gets it
            self.error = error
        self.done.release()


class Limited:
    """For one caller at a time."""

    __slots__ = ("_given_up",)

    def __init__(self) -> None:
        self._given_up: list[_Call[object]] = []

    def call(self, function: Callable[[], T], limit_s: float) -> T:
        """Raises `Overdue`, or what the function raises."""
        until_s = time.monotonic() + limit_s
        self._given_up = [call for call in self._given_up if call.done.locked()]
        if len(self._given_up) >= STUCK_MAX:
            if not self._given_up[0].done.acquire(timeout=max(limit_s, 0.0)):
                raise Overdue(f"{STUCK_MAX} calls before this one still hang")
            del self._given_up[0]
        call = _Call(function)
        _thread.start_new_thread(call.run, ())  # not `threading`: see `fence`
        if not call.done.acquire(timeout=max(until_s - time.monotonic(), 0.0)):
            self._given_up.append(call)  # type: ignore[arg-type]
            raise Overdue("no answer")
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]
