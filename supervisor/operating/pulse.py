"""Who lives, as one command can tell that looks a few times. Pure.

A supervisor decides by what it has watched for a whole lease. A command has less time, and no wall clock is to be
trusted, its own included. So it says of the owner of a row, and of a member:

    moves    its beat moved between two of our looks, less than a lease ago: it lives, whatever clocks say
    young    no such movement yet, but by the wall clocks it was renewed less than a lease ago
    old      by the wall clocks it was not: it is dead, or they are wrong, and only watching can tell
    silent   it did not move for a lease; or it is old and did not for half a lease, in which a live one would
             have, since three renewals fit into a lease

What is promised: nobody who renews at least every half lease is ever called silent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Life = Literal["moves", "young", "old", "silent"]
Mark = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Pulse:
    """The same `mark` was seen from `since_s` to `seen_s`, our own monotonic clock; `moved`: after another one."""

    mark: Mark
    since_s: float
    seen_s: float
    moved: bool = False

    @property
    def still_ms(self) -> int:
        """For how long it has certainly not moved."""
        return int((self.seen_s - self.since_s) * 1000)


def felt(before: Pulse | None, mark: Mark, now_s: float) -> Pulse:
    if before is None:
        return Pulse(mark, now_s, now_s)
    return replace(before, seen_s=now_s) if before.mark == mark else Pulse(mark, now_s, now_s, moved=True)


def life(pulse: Pulse, wall_age_ms: int, duration_ms: int) -> Life:
    if pulse.still_ms >= duration_ms:
        return "silent"
    if pulse.moved:
        return "moves"
    if wall_age_ms <= duration_ms:
        return "young"
    return "silent" if pulse.still_ms >= duration_ms / 2 else "old"


def age_ms(pulse: Pulse, wall_age_ms: int) -> int:
    """How long ago it was renewed, as well as can be told."""
    return pulse.still_ms if pulse.moved else max(wall_age_ms, pulse.still_ms)
