"""What a complete snapshot tells: leases lost, rows to create, shards to claim, peers that drain."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import balance, claim, create, lease, rebalance
from supervisor.core.fleet import Fleet, fleet_of
from supervisor.core.model import SECOND, Apply, Log
from supervisor.core.phases import Held, Idle, Releasing, Shard, Turn, Vacant, Wanted
from supervisor.core.state import State, owned
from supervisor.core.watch import live, long_dead, next_expiry, observe, open_since_ns
from supervisor.core.wishes import parse
from supervisor.records import Lease, Snapshot
from supervisor.writes import DeleteMember

START_POLLS = 10  # of a new supervisor, in which it paces its claims of free rows
START_CLAIMS_MIN = 16
OVERDUE_MIN = 16  # rows that we take after one snapshot in the place of somebody else, if there are so many
BURIALS_MAX = 25  # rows of dead members that we delete after one snapshot
OWN_SEEN_MIN = 2  # snapshots with our own member row before we claim free rows: our peers see us as we see them


def snapshotted(state: State, turn: Turn, snapshot: Snapshot, asked_ns: int) -> State:
    """Everything that follows from one complete read of all rows."""
    known_bad = state.watch.bad.keys()
    watch = observe(state.watch, snapshot, state.me, turn.ns, state.gap_max_ns, state.poll_ns)
    seen = [
        after
        for name, shard in state.shards.items()
        if name not in snapshot.bad and (after := _see(shard, turn, snapshot.leases.get(name), asked_ns)) is not shard
    ]
    members = live(watch, snapshot, turn.ns)
    strangers = {member.id: member.fleet for member in members if member.fleet != state.rules.fleet}
    for name in strangers.keys() - state.strangers:
        reason = f"supervisor {name} of fleet {strangers[name]!r} lives in this store; give each fleet one of its own"
        turn.out.append(Log("error", "lease.conflict", reason=reason))
    state = replace(
        state.with_shards(seen),
        watch=watch,
        polls=state.polls + 1,
        own_seen=state.own_seen + (state.me in snapshot.members),
        live_members=max(1, len(members)),
        moving_members=max(1, sum(watch.members[member.id].moved for member in members)),
        strangers=frozenset(strangers),
    )
    for member in long_dead(watch, snapshot, turn.ns)[:BURIALS_MAX]:
        turn.out.append(Apply(DeleteMember(member.id, member.beat, member.nonce)))
    for name in sorted(snapshot.bad.keys() - known_bad):
        turn.out.append(Log("error", "row.rejected", shard=name, reason=snapshot.bad[name]))
    if not turn.draining:
        fleet = fleet_of(state, turn, snapshot, members)
        state = _count_homeless(replace(state, able=frozenset(fleet.peers)), turn, fleet)
        state = create.create(state, turn, fleet)
        state = rebalance.heed(state, turn, snapshot, fleet, asked_ns)
        state = rebalance.shed(state, turn, fleet)
        state = _claim(state, turn, fleet)
        if state.own_seen >= OWN_SEEN_MIN:
            state = rebalance.ask(state, turn, fleet)
    return replace(state, snapshot_ns=_next_snapshot(state, turn))


def _see(shard: Shard, turn: Turn, row: Lease | None, asked_ns: int) -> Shard:
    """One shard's row, or its absence, in a snapshot asked for at `asked_ns`."""
    if row is not None:
        shard = _remember(shard, turn, row)
    match shard.phase:
        case Held(tenure) | Vacant(tenure) | Releasing(tenure) if asked_ns > tenure.answered_ns:
            return lease.learn(shard, turn, row)
        case Idle() if row is not None and asked_ns >= shard.settled_ns and claim.is_stray(shard, turn.me, row):
            return claim.want(shard, turn, turn.ns)
        case _:
            return shard


def _remember(shard: Shard, turn: Turn, row: Lease) -> Shard:
    """What a row adds to what we know of its shard. Once somebody else had it, we need not leave it to others more, nor
    is its crash ours to tell; nor is that of a paused one."""
    other = row.owner not in (None, turn.me)
    if shard.crash and (other or row.paused) and isinstance(shard.phase, Idle | Wanted):
        shard = replace(shard, crash="")
    if row.epoch <= shard.seen and not (other and (shard.gave_up_ns or not shard.had_owner)):
        return shard
    gave_up_ns = None if other else shard.gave_up_ns
    return replace(shard, seen=max(shard.seen, row.epoch), had_owner=shard.had_owner or other, gave_up_ns=gave_up_ns)


def _count_homeless(state: State, turn: Turn, fleet: Fleet) -> State:
    if fleet.homeless > state.homeless:
        reason = (
            f"{fleet.homeless} shards have no owner and nobody has room for them; add a supervisor or raise capacity"
        )
        turn.out.append(Log("warning", "shard.homeless", reason=reason))
    elif state.homeless and not fleet.homeless:
        turn.out.append(Log("info", "shard.homeless", reason="there is room for every shard again"))
    return replace(state, homeless=fleet.homeless) if fleet.homeless != state.homeless else state


# --- claiming ---------------------------------------------------------------------------------------------


def _claim(state: State, turn: Turn, fleet: Fleet) -> State:
    """Want the shards that the common assignment gives us, those that nobody took for a whole poll, and those that
    move to us, from the moment at which their owner is asked to give them up."""
    room = state.rules.capacity - owned(state)
    fresh_room = _room_for_fresh(state)
    wanted: list[Shard] = []
    for row in [*_given(state, fleet), *_overdue(state, turn, fleet)]:
        shard = state.shards.get(row.shard)
        if shard is None or not _may_want(state, shard, turn, fleet):
            continue
        fresh = _is_fresh(state, row)
        if (room <= 0 and isinstance(shard.phase, Idle)) or (fresh and fresh_room <= 0):
            continue
        fresh_room -= fresh
        room -= isinstance(shard.phase, Idle)
        until_ns = turn.ns if row.shard in fleet.free else turn.ns + 2 * state.poll_ns
        wanted.append(claim.want(shard, turn, until_ns))
    return state.with_shards(wanted)


def _is_fresh(state: State, row: Lease) -> bool:
    """Whether nobody owned it since we started."""
    shard = state.shards.get(row.shard)
    return row.owner is None and not row.move and not row.forced and shard is not None and not shard.had_owner


def _given(state: State, fleet: Fleet) -> list[Lease]:
    """What the common assignment gives us, and then what moves to us."""
    taken = [row for row in fleet.wanting if _taker(fleet, row) == state.me]
    owned_ones = [row for row in fleet.wanting if row.shard not in fleet.free and row.shard not in fleet.leaving]
    moves = [row for row in owned_ones if row.owner in fleet.peers and parse(row.move or "").target == state.me]
    return [*taken, *moves]


def _taker(fleet: Fleet, row: Lease) -> str | None:
    return fleet.reserved.get(row.shard) or fleet.taken.get(row.shard)


def _overdue(state: State, turn: Turn, fleet: Fleet) -> list[Lease]:
    """What is still unowned one poll after somebody else should have taken it, our part of what we may take of it: all
    with room find it overdue too. In the order in which it would have come to us, so that few reach for the same."""
    rows = [
        row
        for row in fleet.wanting
        if row.shard in fleet.free
        and row.shard not in fleet.reserved
        and _taker(fleet, row) != state.me
        and _is_overdue(state, turn, row)
        and (shard := state.shards.get(row.shard)) is not None
        and _may_want(state, shard, turn, fleet)
    ]
    rows.sort(key=lambda row: balance.rank(row.shard, state.me), reverse=True)
    return rows[: max(OVERDUE_MIN, len(rows) // len(fleet.peers))]


def _is_overdue(state: State, turn: Turn, row: Lease) -> bool:
    """A fresh row is not, while its taker may pace itself."""
    sighting, fresh = state.watch.leases[row.shard], _is_fresh(state, row)
    return turn.ns > open_since_ns(sighting, row) + state.poll_ns and not (fresh and state.polls <= START_POLLS)


def _room_for_fresh(state: State) -> int:
    """How many never-owned rows may be claimed at this poll: a supervisor that has just started lets its peers,
    started in the same second, appear first, and leaves them their part."""
    if state.own_seen < OWN_SEEN_MIN:
        return 0
    shards = len(state.rules.shards)
    return shards if state.polls > START_POLLS else max(START_CLAIMS_MIN, shards // 8)


def _may_want(state: State, shard: Shard, turn: Turn, fleet: Fleet) -> bool:
    """Whether it is configured here, not in our hands, and not to be left alone."""
    known = shard.rule is not None and isinstance(shard.phase, Idle | Wanted)
    return known and not _must_yield(state, shard, turn, fleet)


def _must_yield(state: State, shard: Shard, turn: Turn, fleet: Fleet) -> bool:
    """Whether we leave the shard alone because its child crashed here, or because we gave it up by a move. Whoever can
    take it does so within a few polls: after a lease duration nobody will, and we are as good as anybody."""
    if turn.ns < shard.start_ns:
        return True
    yield_ns = min(state.rules.duration_ns, state.rules.crash_window_ns)
    if shard.gave_up_ns is None or turn.ns >= shard.gave_up_ns + yield_ns:
        return False
    return any(fleet.can_take(peer, shard.name) for peer in fleet.peers if peer != state.me)


def _next_snapshot(state: State, turn: Turn) -> int:
    """A poll from now, or at the next expiry that could give us something, so that a dead owner is replaced within
    its duration and one poll, not two."""
    expiry_ns = next_expiry(state.watch, state.shards.idle, turn.ns)
    poll_ns = turn.ns + state.poll_ns
    return poll_ns if expiry_ns is None else max(turn.ns + state.poll_ns // 10, min(poll_ns, expiry_ns))


# --- before the first write -------------------------------------------------------------------------------


def clear_to_join(state: State, turn: Turn, snapshot: Snapshot) -> tuple[State, bool, str]:
    """Before our first write: whether another fleet lives in this store (its member, named), or may still live."""
    watch = observe(state.watch, snapshot, state.me, turn.ns, state.gap_max_ns, state.poll_ns)
    strangers = [
        member
        for member in snapshot.members.values()
        if member.fleet != state.rules.fleet and member.id not in watch.dead
    ]
    for member in strangers:
        before, after = state.watch.members.get(member.id), watch.members[member.id]
        if before is not None and before.mark != after.mark:
            return state, False, f"supervisor {member.id} of fleet {member.fleet!r}"
    pending = any(turn.ns < watch.members[member.id].expires_ns for member in strangers)
    if pending:
        reason = "members of another fleet are in the store; waiting to see whether they live"
        if not state.watch.members:
            turn.out.append(Log("warning", "lease.conflict", reason=reason))
        next_ns = turn.ns + min(state.rules.poll_every_ns, SECOND)
        return replace(state, watch=watch, snapshot_ns=next_ns), False, ""
    empty = not (snapshot.leases or snapshot.members.keys() - watch.dead or snapshot.bad)
    return replace(state, watch=watch, empty_ns=turn.ns if empty else None), True, ""
