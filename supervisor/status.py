"""What the rows of the store say to a person: supervisors, shards, and whether all of them are held. Pure.

Ages compare `renewed_at`, which another machine's clock wrote, with the clock of whoever looks: good enough to look
at, and no decision of a supervisor reads them. States of a shard, in the order in which they are looked for:

    paused     an operator wants it not to run
    held       it has an owner whose last renewal is younger than the lease
    stale      it has an owner whose last renewal is older: lost or about to be taken over
    retired    somebody is live, but nobody live is configured for it; it counts nowhere
    homeless   it has no owner, and no supervisor that is configured for it has room: all are full or draining
    free       it has no owner, and somebody who is configured for it has room

The fleet is degraded unless each shard is held, paused or retired. A row that does not parse degrades it, too; a flaw
of one that does is only shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from supervisor.records import Lease, Member, Snapshot, expand

FINE = ("held", "paused", "retired")


@dataclass(frozen=True, slots=True)
class SupervisorView:
    """`state`: active, draining, or stale (its row was not renewed in time)."""

    id: str
    host: str
    version: str
    state: str
    shards: int
    capacity: int
    renewed_ago_ms: int
    zone: str
    task: str
    config: str


@dataclass(frozen=True, slots=True)
class ShardView:
    """`quiet_ms`: the age of the last event when the owner last renewed, plus the time since."""

    shard: str
    owner: str | None
    epoch: int
    state: str
    open: int
    want: int
    quiet_ms: int | None
    renewed_ago_ms: int | None
    policy: str
    move: str | None


@dataclass(frozen=True, slots=True)
class FleetView:
    fleet: str
    supervisors: tuple[SupervisorView, ...]
    shards: tuple[ShardView, ...]
    bad: dict[str, str]
    flaws: dict[str, str]
    degraded: bool

    def counts(self) -> dict[str, int]:
        """How many shards are in each state."""
        return dict(Counter(shard.state for shard in self.shards))


def view(snapshot: Snapshot, now_unix_ms: int, fleet: str = "", configured: Collection[str] = ()) -> FleetView:
    """`fleet` and `configured` come from a configuration, where the caller has one; else the members tell."""
    live = {member: expand(member.shards) for member in snapshot.members.values() if _is_live(member, now_unix_ms)}
    wanted = {shard for shards in live.values() for shard in shards} | set(configured)
    if not live:  # a fleet that is down altogether has retired nothing
        wanted |= set(snapshot.leases)
    held = Counter(lease.owner for lease in snapshot.leases.values() if lease.owner is not None)
    roomy = {
        shard
        for member, shards in live.items()
        if member.state == "active" and held[member.id] < member.capacity
        for shard in shards
    }
    shards = tuple(
        _shard(shard, snapshot.leases.get(shard), shard in wanted, shard in roomy or not live, now_unix_ms)
        for shard in sorted(wanted | set(snapshot.leases), key=_natural)
    )
    supervisors = tuple(
        _supervisor(member, held[member.id], now_unix_ms)
        for member in sorted(snapshot.members.values(), key=lambda member: member.id)
    )
    names = [fleet] if fleet else sorted({member.fleet for member in snapshot.members.values()})
    degraded = bool(snapshot.bad) or any(shard.state not in FINE for shard in shards)
    flaws = {name: "; ".join(lease.flaws) for name, lease in snapshot.leases.items() if lease.flaws}
    return FleetView(", ".join(names), supervisors, shards, dict(snapshot.bad), flaws, degraded)


def _is_live(member: Member, now_unix_ms: int) -> bool:
    return now_unix_ms - member.renewed_at <= member.duration_ms


def _supervisor(member: Member, shards: int, now_unix_ms: int) -> SupervisorView:
    return SupervisorView(
        id=member.id,
        host=member.host,
        version=member.version,
        state=member.state if _is_live(member, now_unix_ms) else "stale",
        shards=shards,
        capacity=member.capacity,
        renewed_ago_ms=max(0, now_unix_ms - member.renewed_at),
        zone=member.zone,
        task=member.task,
        config=member.digest,
    )


def _shard(shard: str, lease: Lease | None, wanted: bool, has_room: bool, now_unix_ms: int) -> ShardView:
    if lease is None:
        state = "free" if has_room else "homeless"
        return ShardView(shard, None, 0, state, 0, 0, None, None, "fence", None)
    ago = max(0, now_unix_ms - lease.renewed_at)
    return ShardView(
        shard=shard,
        owner=lease.owner,
        epoch=lease.epoch,
        state=_state(lease, ago, wanted, has_room),
        open=lease.open,
        want=lease.want,
        quiet_ms=None if lease.quiet_ms is None else lease.quiet_ms + ago,
        renewed_ago_ms=ago if lease.renewed_at else None,
        policy=lease.policy,
        move=lease.move,
    )


def _state(lease: Lease, ago: int, wanted: bool, has_room: bool) -> str:
    if lease.paused:
        return "paused"
    if lease.owner is not None:
        return "held" if ago <= lease.duration_ms else "stale"
    if not wanted:
        return "retired"
    return "free" if has_room else "homeless"


def _natural(shard: str) -> tuple[str, int, str, str]:
    """`trades/2` before `trades/10`: of two numbers, the one with more digits is larger. They are not read as numbers,
    since Python refuses to read an endless one, and a row may bear it in its name."""
    stream, _, index = shard.partition("/")
    digits = index.lstrip("0") if index.isdecimal() else ""
    return (stream, len(digits) if index.isdecimal() else -1, digits, index)
