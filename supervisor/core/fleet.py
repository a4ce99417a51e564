"""What one snapshot shows of the fleet: who can take shards, how loaded each is, which shards look for an owner. Pure.

A shard that no live member is configured for is retired and counts nowhere, and so does a paused one. A free shard that
moves to somebody is reserved for its target for two polls, while that lives and does not drain; what a dead incarnation
of ours owned is reserved for us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.core import balance, wishes
from supervisor.core.phases import Turn, Wanted
from supervisor.core.state import State, owned
from supervisor.core.watch import Watch, claimable, open_since_ns
from supervisor.names import expand, union
from supervisor.records import Lease, Member, Snapshot

RESERVED_POLLS = 2


@dataclass(frozen=True, slots=True)
class Fleet:
    """`loads`: shards of each member, those reserved for it included, those that are free or being left not.
    `share`: the fair share. `taken`: which member takes which of the shards that look for an owner."""

    peers: Mapping[str, balance.Peer]  # live, not draining, ourselves included
    rows: tuple[Lease, ...]
    free: frozenset[str]
    leaving: frozenset[str]
    reserved: Mapping[str, str]
    loads: Mapping[str, int]
    share: int
    taken: Mapping[str, str]

    def has_room(self, member: str) -> bool:
        return self.loads.get(member, 0) < self.peers[member].capacity

    def can_take(self, member: str, shard: str) -> bool:
        return member in self.peers and shard in self.peers[member].shards and self.has_room(member)

    @property
    def wanting(self) -> list[Lease]:
        """The rows that somebody could get: they are free, are being left, or move."""
        return [row for row in self.rows if row.move or row.shard in self.free or row.shard in self.leaving]

    @property
    def homeless(self) -> int:
        """Free shards that nobody has room for."""
        return len(self.free - self.reserved.keys() - self.taken.keys())


def target_of(watch: Watch, row: Lease, able: frozenset[str], me: str, now_ns: int, poll_ns: int) -> str | None:
    """For whom alone a free row is, by now; `able`: the live members that do not drain."""
    if row.owner is not None:
        return me if row.owner in watch.dead else None
    target = wishes.parse(row.move).target if row.move else None
    if target is None or target not in able:
        return None
    sighting = watch.leases.get(row.shard)
    seen = sighting is not None and sighting.mark == row.triple
    over = seen and sighting is not None and now_ns >= open_since_ns(sighting, row) + RESERVED_POLLS * poll_ns
    return None if over else target


def fleet_of(state: State, turn: Turn, snapshot: Snapshot, members: list[Member]) -> Fleet:
    """The fleet as a complete snapshot shows it to us; what we get, hold or give up by now counts as it is here,
    whatever its row said."""
    able = [member for member in members if _can_serve(state, member)]
    own, sets = frozenset(state.rules.shards), {folded: expand(folded) for folded in {row.shards for row in able}}
    peers = {row.id: balance.Peer(row.id, row.capacity, sets[row.shards]) for row in able}
    peers[state.me] = balance.Peer(state.me, state.rules.capacity, own)
    theirs = union(sets.values())
    rows = tuple(row for name, row in snapshot.leases.items() if (name in own or name in theirs) and not row.paused)
    # What we are getting, holding or giving up by now, whatever its row said.
    in_hand = {name for name, shard in state.shards.busy.items() if not isinstance(shard.phase, Wanted)}
    others = [row for row in rows if row.shard not in in_hand]
    draining = {member.id for member in members if member.state == "draining"}
    leaving = frozenset(row.shard for row in others if row.owner in draining)
    free = frozenset(row.shard for row in others if _is_free(state, turn, row))
    reserved = _reserved(state, turn, [row for row in others if row.shard in free], frozenset(peers))
    loads = _loads(state, rows, free | leaving, reserved)
    share = balance.fair_share((peer.capacity for peer in peers.values()), len(rows))
    unowned = sorted((free | leaving) - reserved.keys())
    taken = balance.assign(unowned, tuple(peers.values()), loads, share)
    return Fleet(peers, rows, free, leaving, reserved, loads, share, taken)


def _can_serve(state: State, member: Member) -> bool:
    """Whether it is a peer that takes shards."""
    return member.state == "active" and member.fleet == state.rules.fleet and member.id != state.me


def _reserved(state: State, turn: Turn, free: list[Lease], able: frozenset[str]) -> dict[str, str]:
    """For whom alone each free row is. Of what the dead owned we keep for ourselves no more than we have room for."""
    reserved: dict[str, str] = {}
    wanted = {shard.name for shard in state.shards.busy.values() if isinstance(shard.phase, Wanted)}
    room = state.rules.capacity - owned(state) + len(wanted)
    for row in sorted(free, key=lambda row: row.shard not in wanted):
        target = target_of(state.watch, row, able, state.me, turn.ns, state.poll_ns)
        if row.owner in state.watch.dead:
            room -= 1
        if target and (row.owner is None or room >= 0):
            reserved[row.shard] = target
    return reserved


def _loads(
    state: State, rows: tuple[Lease, ...], unowned: frozenset[str], reserved: Mapping[str, str]
) -> dict[str, int]:
    loads: dict[str, int] = {}
    for row in rows:
        if row.owner and row.owner != state.me and row.shard not in unowned:
            loads[row.owner] = loads.get(row.owner, 0) + 1
    # What we only want by now is given out again, to us by the same rule as before.
    loads[state.me] = owned(state) - sum(isinstance(shard.phase, Wanted) for shard in state.shards.busy.values())
    for target in reserved.values():
        loads[target] = loads.get(target, 0) + 1
    return loads


def _is_free(state: State, turn: Turn, row: Lease) -> bool:
    shard = state.shards.get(row.shard)
    return claimable(state.watch, row, shard.seen if shard else 0, turn.ns)
