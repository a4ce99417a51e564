"""Moving shards between live owners: who asks for one, who gives it up. Nothing is taken by force.

A member under its share asks the most loaded one for one shard at a time, by a wish in that shard's row, and only when
it has at least two less: a difference of one would only change sides. It asks for the youngest lease, the one with the
fewest beats: what has just moved has the least to lose, and a stream that has been up for long is left alone. Of two
equally young ones it takes that with the lower epoch, which probably changed hands less often.

The owner sees the wish in a snapshot and grants it or takes it back, so that each wish ends: it stops the child
gracefully and releases, and the wish that stays in the row reserves it for its target. It grants one peer at a time,
and only while the loads still differ by two; an operator's wish whenever its target can take the shard.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import claim, lease, wishes
from supervisor.core.balance import rank
from supervisor.core.fleet import Fleet
from supervisor.core.model import Apply, Log
from supervisor.core.phases import Held, Idle, Releasing, Shard, Turn, Vacant, Wanted
from supervisor.core.state import State, owned
from supervisor.records import Lease, Snapshot
from supervisor.writes import Wish

WORTH_MIN = 2  # how many shards more an owner must have than who asks


# --- the owner --------------------------------------------------------------------------------------------


def heed(state: State, turn: Turn, snapshot: Snapshot, fleet: Fleet, asked_ns: int) -> State:
    """What the wishes in our rows make us do: stop a paused shard, grant a move, or take it back."""
    for name, shard in state.shards.busy.items():
        row = snapshot.leases.get(name)
        if row is not None and row.move:
            shard = _stopping_for(shard, wishes.parse(row.move))
            state = state.with_shard(shard)
        if row is None or not _may_give(shard, row, asked_ns):
            continue
        if row.paused:
            state = state.with_shard(_give(shard, turn, "paused"))
        elif row.move:
            state, fleet = _heed_move(state, turn, fleet, shard, row, wishes.parse(row.move))
    return state


def _stopping_for(shard: Shard, move: wishes.Move) -> Shard:
    """Where an operator's wish took the place of the peer's that is being granted, nobody shall ask the shard back."""
    held = shard.phase
    if move.by_peer or not isinstance(held, Held) or held.reason != wishes.BALANCED:
        return shard
    return replace(shard, phase=replace(held, reason=wishes.MOVED))


def _may_give(shard: Shard, row: Lease, asked_ns: int) -> bool:
    """Whether the row is our lease as it is now, and not given up already."""
    phase = shard.phase
    if not isinstance(phase, Held | Vacant) or (isinstance(phase, Held) and phase.stage not in ("starting", "running")):
        return False
    tenure = phase.tenure
    return (row.owner, row.epoch) == (tenure.owner, tenure.epoch) and asked_ns > tenure.answered_ns


def _heed_move(
    state: State, turn: Turn, fleet: Fleet, shard: Shard, row: Lease, move: wishes.Move
) -> tuple[State, Fleet]:
    if move.by_peer and any(_gives(other, wishes.BALANCED) for other in state.shards.busy.values()):
        return state, fleet
    if objection := _objection(move, shard.name, fleet, state):
        turn.out.append(Apply(Wish(shard.name, row.owner, row.epoch, row.move, None)))
        turn.out.append(Log("info", "wish.refused", shard.name, row.epoch, f"move to {row.move}: {objection}"))
        return state, fleet
    state = state.with_shard(replace(_give(shard, turn, move.reason), gave_up_ns=turn.ns))
    if move.target:
        fleet = replace(fleet, loads={**fleet.loads, move.target: fleet.loads.get(move.target, 0) + 1})
    return state, fleet


def _give(shard: Shard, turn: Turn, reason: str) -> Shard:
    if isinstance(shard.phase, Vacant):
        return lease.release(shard, turn, shard.phase.tenure, reason)
    return lease.stop(shard, turn, reason)


def _gives(shard: Shard, reason: str) -> bool:
    return isinstance(shard.phase, Held | Releasing) and shard.phase.reason == reason


def _objection(move: wishes.Move, shard: str, fleet: Fleet, state: State) -> str:
    if move.target == state.me:
        return "it is here"
    if move.target is None:
        able = any(fleet.can_take(peer, shard) for peer in fleet.peers if peer != state.me)
        return "" if able else "nobody else can take it"
    if move.target not in fleet.peers:
        return "no such supervisor is live, or it drains"
    if shard not in fleet.peers[move.target].shards:
        return "it is not configured there"
    if not fleet.has_room(move.target):
        return "there is no room"
    if move.by_peer and _difference(fleet, state.me, move.target) < WORTH_MIN:
        return "the loads are even by now"
    return ""


def _difference(fleet: Fleet, owner: str, target: str) -> int:
    return fleet.loads.get(owner, 0) - fleet.loads.get(target, 0)


def shed(state: State, turn: Turn, fleet: Fleet) -> State:
    """After a reload lowered our capacity: give up what is above it, the youngest first, one at a time and only while
    somebody else has room. A shard is better served by a crowded owner than by none."""
    if owned(state) <= state.rules.capacity or any(_gives(each, wishes.CROWDED) for each in state.shards.busy.values()):
        return state
    others = [peer for peer in fleet.peers if peer != state.me]
    wanted = [
        shard
        for shard in state.shards.busy.values()
        if isinstance(shard.phase, Held)
        and shard.phase.stage in ("starting", "running")
        and any(fleet.can_take(peer, shard.name) for peer in others)
    ]
    if not wanted:
        return state
    youngest = min(wanted, key=_age)
    return state.with_shard(replace(_give(youngest, turn, wishes.CROWDED), gave_up_ns=turn.ns))


def _age(shard: Shard) -> tuple[int, int]:
    assert isinstance(shard.phase, Held)
    return shard.phase.tenure.beat_tried, shard.phase.tenure.epoch


# --- who asks ---------------------------------------------------------------------------------------------


def ask(state: State, turn: Turn, fleet: Fleet) -> State:
    """Ask for one shard, if we are under our share and ask for none by now. An owner that took a wish back sees the
    fleet otherwise than we: after a lease duration it may be of our opinion. Where children crashed until they were
    given up no other stream is asked for yet, and those never again: they run well where they are."""
    mine = owned(state)
    asking = any(isinstance(shard.phase, Wanted) and shard.phase.asking for shard in state.shards.busy.values())
    failing = any(
        shard.failed_ns is not None and turn.ns < shard.failed_ns + state.rules.crash_window_ns
        for shard in state.shards.values()
    )
    if asking or failing or turn.ns < state.ask_ns or mine >= min(fleet.share, state.rules.capacity):
        return state
    if row := _choice(state, turn, fleet, mine):
        until_ns = turn.ns + state.rules.stop_ns + 4 * state.poll_ns
        state = state.with_shard(claim.want(state.shards[row.shard], turn, until_ns, asking=True))
    return state


def _choice(state: State, turn: Turn, fleet: Fleet, mine: int) -> Lease | None:
    """The youngest lease of the most loaded owner that has one for us. What a poorer peer could have is left to it, as
    it would have to move on from us."""
    loads = _loads_to_come(fleet)
    poorer = [peer for peer in fleet.peers if loads[peer] < mine and peer != state.me and fleet.has_room(peer)]
    offers: dict[str, list[Lease]] = {}
    for row in fleet.rows:
        owner = row.owner
        if owner is None or owner == state.me or row.move or loads.get(owner, 0) - mine < WORTH_MIN:
            continue
        shard = state.shards.get(row.shard)
        if shard is None or shard.rule is None or not isinstance(shard.phase, Idle) or shard.kept == row.epoch:
            continue
        if shard.failed_ns is not None or turn.ns < shard.start_ns:
            continue
        if not any(row.shard in fleet.peers[peer].shards for peer in poorer):
            offers.setdefault(owner, []).append(row)
    if not offers:
        return None
    owner = max(offers, key=lambda owner: (loads[owner], rank(state.me, owner)))
    return min(offers[owner], key=lambda row: (row.beat, row.epoch, rank(row.shard, state.me)))


def _loads_to_come(fleet: Fleet) -> dict[str, int]:
    """The loads once all moves that are asked for by now are made."""
    loads = {peer: fleet.loads.get(peer, 0) for peer in fleet.peers}
    for row in fleet.rows:
        target = wishes.parse(row.move).target if row.move else None
        if row.owner in loads and target in loads:
            loads[row.owner] -= 1
            loads[target] += 1
    return loads
