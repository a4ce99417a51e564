"""When the attempts to connect of one host may begin: a gate for each `connect_key`. Pure: nanoseconds in and out.

What holds: grants of a gate are so far apart that a server sees at most `connect_rate` + 1 connections in any second,
although each may be used for a while (`valid_ns`), whatever dies meanwhile; a grant that its child did not live to use
is free again, and a rate that was changed holds from the next grant on. What a server says in `Retry-After` is a floor
for its host and all children of the gate, an hour at most.

Not promised: that attempts follow each other when children are slow to begin theirs. No grant looks at a floor: who
asks knows its host, and looks itself, before it asks and before it connects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from workers.stream import floors
from workers.stream.question import valid_ns

RETRY_AFTER_MAX_NS = 3600 * 1_000_000_000  # a child that says more is mistaken
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Gate:
    """`taken`: when attempts begin that were granted, sorted: all that are to come, and the last ones before.
    `floors`: by the mark of a host, until when it is left alone."""

    taken: tuple[int, ...] = ()
    floors: Mapping[int, int] = field(default_factory=dict)


def interval_ns(rate_per_s: float) -> int:
    """Between two grants. In a second plus the time for which they hold there are no more than the rate and one."""
    return int(max(_SECOND_NS / rate_per_s, (_SECOND_NS + valid_ns(rate_per_s)) / (rate_per_s + 1)))


def granted(gate: Gate, rate_per_s: float, now_ns: int) -> tuple[Gate, int]:
    """An attempt, and when it may begin."""
    at_ns = now_ns
    apart_ns = interval_ns(rate_per_s)
    for taken_ns in gate.taken:
        if taken_ns - at_ns >= apart_ns:
            break
        at_ns = max(at_ns, taken_ns + apart_ns)
    past = [taken_ns for taken_ns in gate.taken if taken_ns <= now_ns]
    recent = [taken_ns for taken_ns in gate.taken if taken_ns > now_ns - apart_ns]
    return replace(gate, taken=tuple(sorted({*past[-1:], *recent, at_ns}))), at_ns


def given_back(gate: Gate, at_ns: int, now_ns: int) -> Gate:
    """The child that this was granted to is dead. What lies in the past may have been used."""
    if at_ns <= now_ns:
        return gate
    return replace(gate, taken=tuple(taken_ns for taken_ns in gate.taken if taken_ns != at_ns))


def refused(gate: Gate, heard: Mapping[int, int], now_ns: int) -> Gate:
    """Servers asked a child not to come back before then."""
    bounded = {mark: min(until_ns, now_ns + RETRY_AFTER_MAX_NS) for mark, until_ns in heard.items()}
    return replace(gate, floors=floors.merged(gate.floors, bounded, now_ns))
