"""The timers of a handler: what is to be called again and again, and when it is due next.

What holds: an interval is counted from the call before, so that calls which a slow handler delayed are not made up
for; a timer that is cancelled, be it by one that fires at the same moment, is not called any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

Function = Callable[[], object]

NEVER_NS = 2**63 - 1


class _Timer:
    __slots__ = ("_timers", "due_ns", "function", "interval_ns")

    def __init__(self, timers: dict[_Timer, None], due_ns: int, interval_ns: int, function: Function) -> None:
        self._timers = timers
        self.due_ns, self.interval_ns, self.function = due_ns, interval_ns, function

    def cancel(self) -> None:
        self._timers.pop(self, None)


class Timers:
    """All of one handler."""

    __slots__ = ("_timers",)

    def __init__(self) -> None:
        self._timers: dict[_Timer, None] = {}

    def every(self, seconds: float, function: Function, now_ns: int) -> _Timer:
        if seconds <= 0:
            raise ValueError(f"every got {seconds} seconds, expected more than 0")
        interval_ns = max(int(seconds * 1e9), 1)
        timer = _Timer(self._timers, now_ns + interval_ns, interval_ns, function)
        self._timers[timer] = None
        return timer

    @property
    def due_ns(self) -> int:
        """When the next one is due."""
        return min((timer.due_ns for timer in self._timers), default=NEVER_NS)

    def due(self, now_ns: int) -> Iterator[Function]:
        """What is to be called now; each is asked for when the one before was called."""
        for timer in [timer for timer in self._timers if timer.due_ns <= now_ns]:
            if timer in self._timers:
                timer.due_ns = now_ns + timer.interval_ns
                yield timer.function
