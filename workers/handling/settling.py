"""Functions of a handler that wait until what it emitted before is safe, in the order in which they came.

What holds: each is numbered, the sink's side is asked to reach the newest number once all that was handed to it before
is safe, and what is up to the number that it has reached is called, once. Without a function nothing is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

Function = Callable[[], object]
WAITING_MAX = 10_000


class Settling:
    """All of one handler."""

    __slots__ = ("_added", "_called", "_functions", "_told")

    def __init__(self) -> None:
        self._functions: deque[Function] = deque()
        self._added = self._told = self._called = 0

    def add(self, function: Function) -> None:
        self._functions.append(function)
        self._added += 1

    @property
    def crowded(self) -> bool:
        """So many wait that no more should be made."""
        return len(self._functions) >= WAITING_MAX

    def wanted(self) -> int:
        """The number that is to be reached, if there is a newer one than before, else 0."""
        if self._told == self._added:
            return 0
        self._told = self._added
        return self._told

    def waits(self, settled: int) -> bool:
        """There is something to be called."""
        return self._called < settled

    def ready(self, settled: int) -> Iterator[Function]:
        """What is to be called; each is asked for when the one before was called."""
        while self._called < settled:
            self._called += 1
            yield self._functions.popleft()
