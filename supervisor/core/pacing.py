"""When the attempts to connect of one host may begin: a gate for each `connect_key`. Pure: nanoseconds in and out.

What holds: an attempt is granted at least the asker's interval away from all others of its gate, so that a server sees
at most `connect_rate` + 1 of them in any second, whatever dies meanwhile; none is granted before the floor, which is
where the longest `Retry-After` that any child was told ends; a grant that its child did not live to use is free again,
and a rate that was changed holds from the next grant on.

Not promised: that attempts follow each other when children are slow to begin theirs. A grant is not taken back when
the floor rises: the child looks at the floor itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

RETRY_AFTER_MAX_NS = 3600 * 1_000_000_000  # a child that says more is mistaken
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Gate:
    """`taken`: when attempts begin that were granted, sorted: all that are to come, and the last ones before."""

    taken: tuple[int, ...] = ()
    floor_ns: int = 0


def granted(gate: Gate, rate_per_s: float, now_ns: int) -> tuple[Gate, int]:
    """An attempt, and when it may begin. A rate of 0 is none."""
    at_ns = max(now_ns, gate.floor_ns)
    if not rate_per_s:
        return gate, at_ns
    interval_ns = int(_SECOND_NS / rate_per_s)
    for taken_ns in gate.taken:
        if taken_ns - at_ns >= interval_ns:
            break
        at_ns = max(at_ns, taken_ns + interval_ns)
    past = [taken_ns for taken_ns in gate.taken if taken_ns <= now_ns]
    recent = [taken_ns for taken_ns in gate.taken if taken_ns > now_ns - interval_ns]
    return replace(gate, taken=tuple(sorted({*past[-1:], *recent, at_ns}))), at_ns


def given_back(gate: Gate, at_ns: int, now_ns: int) -> Gate:
    """The child that this was granted to is dead. What lies in the past may have been used."""
    if at_ns <= now_ns:
        return gate
    return replace(gate, taken=tuple(taken_ns for taken_ns in gate.taken if taken_ns != at_ns))


def refused(gate: Gate, until_ns: int, now_ns: int) -> Gate:
    """A server asked a child not to come back before then."""
    return replace(gate, floor_ns=max(gate.floor_ns, min(until_ns, now_ns + RETRY_AFTER_MAX_NS)))
