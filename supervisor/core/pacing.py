"""When the attempts to connect of one host may begin: a gate for each `connect_key`. Pure: nanoseconds in and out.

What holds: two attempts that are granted at a gate are at least the asker's interval apart, so that a server sees at
most `connect_rate` + 1 of them in any second, whatever dies meanwhile; none is granted before the floor, which is where
the longest `Retry-After` that any child was told ends; a grant that its child did not live to use is granted again.

Not promised: that attempts follow each other when children are slow to begin theirs. A grant is not taken back when
the floor rises: the child looks at the floor itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

RETRY_AFTER_MAX_NS = 3600 * 1_000_000_000  # a child that says more is mistaken
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Gate:
    """`next_ns`: from when on the next one may be granted. `returned`: grants of the dead that lie ahead, sorted."""

    next_ns: int = 0
    floor_ns: int = 0
    returned: tuple[int, ...] = ()


def granted(gate: Gate, rate_per_s: float, now_ns: int) -> tuple[Gate, int]:
    """An attempt, and when it may begin. A rate of 0 is none."""
    earliest_ns = max(now_ns, gate.floor_ns)
    if not rate_per_s:
        return gate, earliest_ns
    usable = tuple(at_ns for at_ns in gate.returned if at_ns >= earliest_ns)
    if usable:
        return replace(gate, returned=usable[1:]), usable[0]
    at_ns = max(earliest_ns, gate.next_ns)
    return replace(gate, next_ns=at_ns + int(_SECOND_NS / rate_per_s), returned=()), at_ns


def given_back(gate: Gate, at_ns: int, now_ns: int) -> Gate:
    """The child that this was granted to is dead. What lies in the past may have been used."""
    return replace(gate, returned=tuple(sorted((*gate.returned, at_ns)))) if at_ns > now_ns else gate


def refused(gate: Gate, until_ns: int, now_ns: int) -> Gate:
    """A server asked a child not to come back before then."""
    return replace(gate, floor_ns=max(gate.floor_ns, min(until_ns, now_ns + RETRY_AFTER_MAX_NS)))
