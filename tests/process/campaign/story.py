"""What a campaign leaves behind, as values: who lived when, what was struck, who owned, who connected, what arrived.

Instants are CLOCK_BOOTTIME nanoseconds. Connections come from the feed's own record, arrivals from the supervisors'
sinks, ownership from looks at the store that pass no fault. No log line is among them.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.demo.record import FeedRecord

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Life:
    """One supervisor process. `ended_ns` None: it was alive when the story ended. `asked`: we had ended it."""

    supervisor: str
    pid: int
    started_ns: int
    ended_ns: int | None = None
    code: int | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that was struck: at one supervisor, at one shard, or, where both are empty, at the whole fleet.
    `ended_ns` None: it was on when the story ended."""

    kind: str
    began_ns: int
    ended_ns: int | None = None
    supervisor: str = ""
    shard: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Owning:
    """A shard's row as it stood from `since_ns` on. `pid`: of the owner's id, None for no owner, no row or a garbled
    one. The row changed after that instant and before it was looked at, so it is never later than the truth."""

    shard: str
    since_ns: int
    pid: int | None
    epoch: object
    text: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """One line of a sink, in the order of that sink. `at_ns`: when its child had received it."""

    supervisor: str
    shard: str
    epoch: int
    seq: int
    event: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Story:
    """All of a campaign between the instants at which every shard streamed, before the first fault and after the
    last. `troubles`: sentences about what must never be seen, whatever the faults."""

    shards: tuple[str, ...]
    lease_ns: int
    began_ns: int
    ended_ns: int
    feed: FeedRecord
    arrivals: tuple[Arrival, ...]
    lives: tuple[Life, ...]
    strikes: tuple[Strike, ...]
    ownings: tuple[Owning, ...]
    troubles: tuple[str, ...] = ()

    @property
    def lease_s(self) -> float:
        return self.lease_ns / SECOND_NS
