"""Gaps in the numbers of a feed's messages.

What holds: a number that is more than one above the last one of its connection is a gap. One that is not above it is
the new position and no gap: a far end that replays or starts over says so by that alone. The first number of a
connection is never a gap, nor is a message without a number.

Lines about gaps are rare however many there are: `INTERVAL_NS` apart for each connection, each with how many gaps there
were since the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

INTERVAL_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Gap:
    """`index`: of the message behind it, in its batch."""

    expected: int
    got: int
    index: int


class Position:
    """Where one connection is, from its opening to its end."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: int | None = None

    def gaps(self, numbers: Sequence[int | None]) -> list[Gap]:
        """Those in a batch, which becomes part of what was seen."""
        found = []
        last = self._last
        for index, number in enumerate(numbers):
            if number is None:
                continue
            if last is not None and number > last + 1:
                found.append(Gap(last + 1, number, index))
            last = number
        self._last = last
        return found


class Reports:
    """When a line about gaps is due, and for how many."""

    __slots__ = ("_told_ns", "_untold")

    def __init__(self) -> None:
        self._told_ns: int | None = None
        self._untold = 0

    def count(self, gaps: int, now_ns: int) -> int:
        """More gaps: 0 means no line now, else how many gaps it is about."""
        self._untold += gaps
        if self._told_ns is not None and now_ns < self._told_ns + INTERVAL_NS:
            return 0
        self._told_ns, count, self._untold = now_ns, self._untold, 0
        return count
