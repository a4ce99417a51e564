"""When the feed's events are due: event `seq` of every shard is a function of time alone.

Nothing is stored: an event that nobody was connected for can still be named, dated and sent again, so a gap
shows as missing numbers and a client that comes back may ask for what it missed. Only the newest `keep`
events can be asked for, as with any real feed. Instants are CLOCK_BOOTTIME nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """`rate` events a second for each shard, numbered from 1; a rate of 0 is a feed that never says anything."""

    started_ns: int
    rate: int
    keep: int = 8192

    def due(self, now_ns: int) -> int:
        """The number of the newest event at `now_ns`; 0: none yet."""
        return max(0, now_ns - self.started_ns) * self.rate // SECOND_NS

    def at_ns(self, seq: int) -> int:
        """The first instant at which `due` names `seq`. Only for a feed that says something."""
        return self.started_ns + -(-seq * SECOND_NS // self.rate)

    def first(self, wanted: int | None, now_ns: int) -> int:
        """Where a client begins: at the next event, or at `wanted` as far back as the feed remembers."""
        newest = self.due(now_ns)
        if wanted is None:
            return newest + 1
        return max(1, newest - self.keep + 1, min(wanted, newest + 1))
