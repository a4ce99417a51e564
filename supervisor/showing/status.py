"""What the rows of the store say about a fleet: supervisors, shards, and whether all of them are held. Pure.

Ages compare `renewed_at`, which another machine's clock wrote, with the clock of whoever looks: good enough to look
at, and no decision of a supervisor reads them. States of a shard, in the order in which they are looked for:

    paused     an operator wants it not to run
    held       it has an owner whose last renewal is younger than the lease
    silent     as held, in this epoch for longer than a lease, but of the connections that it wants none is open
    stale      it has an owner whose last renewal is older: lost or about to be taken over
    retired    nobody live is configured for it, nor is the configuration at hand; it counts nowhere. While nobody lives
               and there is no configuration, nobody can tell, and none is
    homeless   it has no owner, and no supervisor that is configured for it has room: all are full or draining
    free       it has no owner, and somebody who is configured for it has room

Of shards that have no row, but that a supervisor names, at most `SHARDS_MAX` are there; who names the others is told as
if its row were bad.

Whether the fleet is degraded is judged by `verdict`. The fields of these classes are the keys of `status --json`, which
docs/status.md lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from supervisor.changes import Change, changes_of, full_ids, is_given_up
from supervisor.names import SHARDS_MAX, expand, missing, union
from supervisor.records import Lease, Member, Snapshot
from supervisor.showing.holding import contacts_of, may_hold
from supervisor.showing.verdict import is_degraded, judged

STATES = ("silent", "stale", "homeless", "free", "held", "paused", "retired")  # what is wrong first
CROWDED = f"not all of its shards are listed: all supervisors together name more than {SHARDS_MAX} that have no row"


@dataclass(frozen=True, slots=True)
class SupervisorView:
    """`state`: active, draining, or stale (its row was not renewed in time). `poll_ms`: the poll interval in force.
    `drift`: it is live, and runs another configuration than most live ones. `rejected`: why its last reload was."""

    id: str
    host: str
    zone: str
    task: str
    version: str
    state: str
    shards: int
    capacity: int
    since: int
    renewed_ago_ms: int
    poll_ms: int
    config: str
    drift: bool
    rejected: str


@dataclass(frozen=True, slots=True)
class ShardView:
    """`quiet_ms`: the age of the last event when the owner last renewed, plus the time since. `starting`: it is held,
    and not renewed yet in this epoch, so that nothing is known of its connections. `holding`: under the policy `hold`
    its owner, or one that was removed by force, may be holding its connections. `trouble`: what its child said, when
    the owner last renewed, is wrong with it, or why its last child ended. `fine`: see `verdict`. `checkpoint_bytes`:
    of its token, which may be a secret and is not shown. `wait_ms`: how long it will be before its missing row may be
    made, as a child of a deleted one could still live. `history`: oldest first."""

    shard: str
    owner: str | None
    epoch: int
    state: str
    fine: bool
    starting: bool
    since: int
    open: int
    want: int
    quiet_ms: int | None
    trouble: str | None
    renewed_ago_ms: int | None
    policy: str
    holding: bool
    move: str | None
    paused: bool
    forced: bool
    checkpoint_bytes: int | None
    wait_ms: int
    history: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class FleetView:
    """`expected`: the fleet that a configuration names, if no supervisor there is of it. `at`: unix milliseconds of the
    look. `counts`: how many shards are in each state that occurs."""

    fleet: str
    expected: str
    at: int
    degraded: bool
    counts: Mapping[str, int]
    supervisors: tuple[SupervisorView, ...]
    shards: tuple[ShardView, ...]
    bad: Mapping[str, str]
    flaws: Mapping[str, str]


def view(snapshot: Snapshot, now_unix_ms: int, fleet: str = "", configured: Collection[str] = ()) -> FleetView:
    """`fleet` and `configured` come from a configuration, where the caller has one. Where members tell another fleet,
    theirs is shown, and the shards of that configuration are none of it."""
    fleets = fleets_in(snapshot, now_unix_ms)
    expected = fleet if fleets and fleet not in fleets else ""
    configured = frozenset(() if expected else configured)
    live = {member: expand(member.shards) for member in snapshot.members.values() if _is_live(member, now_unix_ms)}
    without_row, left_out = missing(live.values(), snapshot.leases)
    wanted, nobody_knows = union(set(live.values())), not live and not configured
    held = Counter(lease.owner for lease in snapshot.leases.values() if lease.owner is not None)
    able = [member for member in live if member.state == "active" and held[member.id] < member.capacity]
    roomy = union({live[member] for member in able})

    waits = _waits(snapshot, {member: live[member] for member in able}, now_unix_ms)

    def is_wanted(shard: str) -> bool:
        return nobody_knows or shard in wanted or shard in configured

    full = full_ids((*snapshot.members, *(owner for owner in held if owner is not None)))
    contacts = contacts_of(snapshot.members.values())
    shards = tuple(
        judged(_unclaimed(shard, shard in roomy or not live, waits(shard)), now_unix_ms)
        if (lease := snapshot.leases.get(shard)) is None
        else judged(
            _shard(lease, is_wanted(shard), shard in roomy or not live, full, contacts, now_unix_ms), now_unix_ms
        )
        for shard in sorted({*snapshot.leases, *without_row, *configured}, key=natural)
    )
    usual = _usual([member.digest for member in live])
    supervisors = tuple(
        _supervisor(member, held[member.id], usual, now_unix_ms)
        for member in sorted(snapshot.members.values(), key=lambda member: member.id)
    )
    bad = {**snapshot.bad, **{member.key: CROWDED for member, names in live.items() if names in left_out}}
    flaws = {name: "; ".join(lease.flaws) for name, lease in snapshot.leases.items() if lease.flaws}
    name = ", ".join(fleets) or fleet
    return fleet_of(name, expected, now_unix_ms, supervisors, shards, bad, flaws)


def fleets_in(snapshot: Snapshot, now_unix_ms: int) -> list[str]:
    """The names that live members give their fleet, which is one unless something is wrong; where none lives, those of
    the dead."""
    members = snapshot.members.values()
    live = {member.fleet for member in members if _is_live(member, now_unix_ms)}
    return sorted(live or {member.fleet for member in members})


def fleet_of(
    fleet: str,
    expected: str,
    at: int,
    supervisors: tuple[SupervisorView, ...],
    shards: tuple[ShardView, ...],
    bad: Mapping[str, str],
    flaws: Mapping[str, str],
) -> FleetView:
    """These parts as one, with what follows from them."""
    found = Counter(shard.state for shard in shards)
    degraded = is_degraded(shards, supervisors, bad)
    counts = {state: found[state] for state in STATES if found[state]}
    return FleetView(fleet, expected, at, degraded, counts, supervisors, shards, dict(bad), dict(flaws))


# --- supervisors ------------------------------------------------------------------------------------------


def _is_live(member: Member, now_unix_ms: int) -> bool:
    return now_unix_ms - member.renewed_at <= member.duration_ms


def _usual(digests: list[str]) -> str | None:
    """The configuration that more live members run than any other; None: there is no such one."""
    most = Counter(digests).most_common(2)
    return most[0][0] if len(most) == 1 or (most and most[0][1] > most[1][1]) else None


def _supervisor(member: Member, shards: int, usual: str | None, now_unix_ms: int) -> SupervisorView:
    live = _is_live(member, now_unix_ms)
    return SupervisorView(
        id=member.id,
        host=member.host,
        zone=member.zone,
        task=member.task,
        version=member.version,
        state=member.state if live else "stale",
        shards=shards,
        capacity=member.capacity,
        since=member.since,
        renewed_ago_ms=max(0, now_unix_ms - member.renewed_at),
        poll_ms=member.poll_ms,
        config=member.digest,
        drift=live and member.digest != usual,
        rejected=member.rejected,
    )


# --- shards -----------------------------------------------------------------------------------------------


def _waits(snapshot: Snapshot, able: Mapping[Member, Collection[str]], now_unix_ms: int) -> Callable[[str], int]:
    """How long a shard without a row has to wait: until one of those who may take it has seen for the longest duration
    that there is none. In a store without any row nobody waits."""
    rows: tuple[Lease | Member, ...] = (*snapshot.leases.values(), *snapshot.members.values())
    longest_ms = max(row.duration_ms for row in rows) if snapshot.leases else 0
    left = [(max(0, member.since + longest_ms - now_unix_ms), names) for member, names in able.items()]
    return lambda shard: min((wait_ms for wait_ms, names in left if shard in names), default=0)


def _unclaimed(shard: str, has_room: bool, wait_ms: int) -> ShardView:
    """A shard without a row."""
    return ShardView(
        shard=shard,
        owner=None,
        epoch=0,
        state="free" if has_room else "homeless",
        fine=False,
        starting=False,
        since=0,
        open=0,
        want=0,
        quiet_ms=None,
        trouble=None,
        renewed_ago_ms=None,
        policy="fence",
        holding=False,
        move=None,
        paused=False,
        forced=False,
        checkpoint_bytes=None,
        wait_ms=wait_ms,
        history=(),
    )


def _shard(
    lease: Lease,
    wanted: bool,
    has_room: bool,
    full: Mapping[str, str],
    contacts: Mapping[str, int],
    now_unix_ms: int,
) -> ShardView:
    ago_ms = max(0, now_unix_ms - lease.renewed_at)
    state = _state(lease, ago_ms, wanted, has_room, now_unix_ms)
    return ShardView(
        shard=lease.shard,
        owner=lease.owner,
        epoch=lease.epoch,
        state=state,
        fine=False,
        starting=state == "held" and lease.beat == 0,
        since=lease.since,
        open=lease.open,
        want=lease.want,
        quiet_ms=None if lease.quiet_ms is None else lease.quiet_ms + ago_ms,
        trouble=(lease.trouble or None) if lease.owner is not None or is_given_up(lease.history) else None,
        renewed_ago_ms=ago_ms if lease.renewed_at else None,
        policy=lease.policy,
        holding=may_hold(lease, contacts, now_unix_ms),
        move=lease.move,
        paused=lease.paused,
        forced=lease.forced,
        checkpoint_bytes=None if lease.checkpoint is None else len(lease.checkpoint.encode(errors="replace")),
        wait_ms=0,
        history=changes_of(lease.history, full),
    )


def _state(lease: Lease, ago_ms: int, wanted: bool, has_room: bool, now_unix_ms: int) -> str:
    if lease.paused:
        return "paused"
    if lease.owner is not None:
        if ago_ms > lease.duration_ms:
            return "stale"
        overdue = now_unix_ms - lease.since > lease.duration_ms
        return "silent" if overdue and lease.want and not lease.open else "held"
    if not wanted:
        return "retired"
    return "free" if has_room else "homeless"


def natural(shard: str) -> tuple[str, int, int, str, str]:
    """`trades/2` before `trades/10`, and numbers before names: of two numbers, the one with more digits is larger. They
    are not read as numbers, since Python refuses to read an endless one, and a row may bear it in its name."""
    stream, slash, index = shard.partition("/")
    if not index.isdecimal():
        return (stream, 2 if slash else 0, 0, "", index)
    digits = index.lstrip("0")
    return (stream, 1, len(digits), digits, index)
