"""What a gap in the numbers of a feed leads to: it is counted and told, and with `on_gap = reconnect` the connection
is closed.

What holds: where the far end is told a checkpoint, a batch with such a gap is cut in front of it, so that the next
connection asks for what is missing; elsewhere all that came is delivered. A gap that is there again after the
reconnect that it led to is told and lived with, however many of them there are: the far end has nothing to fill it.
Once its number came after all, it may lead to another reconnect.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from workers.board import GAPS, Slot
from workers.log import Log
from workers.resuming.sequence import Gap, Position, Reports

CLOSE_CODE = 4000
_ACTED_MAX = 10_000


class Gaps:
    """Of all connections of a shard. `link` is one connection from its opening to its end, `connection` its number."""

    __slots__ = ("_acted", "_log", "_positions", "_reconnects", "_reports", "_words")

    def __init__(self, slot: Slot, log: Log, reconnects: bool) -> None:
        self._words = slot.words
        self._log = log
        self._reconnects = reconnects
        self._positions: dict[Hashable, Position] = {}
        self._reports: dict[int, Reports] = {}
        self._acted: dict[int, set[int]] = {}  # by connection: the numbers whose absence led to a reconnect

    def closed(self, link: Hashable) -> None:
        self._positions.pop(link, None)

    def seen(self, link: Hashable, connection: int, numbers: Sequence[int | None], now_ns: int) -> Gap | None:
        """The numbers of a batch. The gap because of which the connection has to be closed, if there is one."""
        found = self._positions.setdefault(link, Position()).gaps(numbers)
        if acted := self._acted.get(connection):
            acted.difference_update(number for number in numbers if number is not None)
        if not found:
            return None
        fatal = self._fatal(connection, found)
        if fatal is not None:
            found = found[: found.index(fatal) + 1]  # those behind it are in what is thrown away, or counted next time
        self._words[GAPS] += len(found)
        reports = self._reports.setdefault(connection, Reports())
        if count := reports.count(len(found), now_ns):
            last = found[-1]
            fields = {"expected": last.expected, "got": last.got, "gaps": count}
            self._log("sequence.gap", "WARNING", connection=connection, reason=in_words(last), **fields)
        return fatal

    def _fatal(self, connection: int, found: list[Gap]) -> Gap | None:
        if not self._reconnects:
            return None
        acted = self._acted.setdefault(connection, set())
        fatal = next((gap for gap in found if gap.expected not in acted), None)
        if fatal is not None:
            if len(acted) >= _ACTED_MAX:
                acted.clear()
            acted.add(fatal.expected)
        return fatal


def in_words(gap: Gap) -> str:
    missing = gap.got - gap.expected
    what = f"{gap.expected} is" if missing == 1 else f"{gap.expected} to {gap.got - 1} are"
    return f"{what} missing in the sequence of messages: {gap.got} came instead"
