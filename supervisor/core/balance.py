"""Who should take which unowned shard: fair shares, a common order, and nobody left out.

Every member computes the same assignment from the same snapshot, so that claims rarely collide: each unowned shard
goes to the member that its rendezvous hash ranks highest (Thaler and Ravishankar, 1998) among those below their
share. A shard that is still unowned one poll later is taken by anyone with room. Pure arithmetic on a snapshot; a
collision costs one refused claim and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

GOLDEN = 0x9E3779B97F4A7C15  # odd, with bits all over: Knuth's multiplicative hashing
MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Peer:
    """A live member that is not draining, ourselves included."""

    id: str
    capacity: int
    shards: Container[str]


def fair_share(capacities: Iterable[int], shards: int) -> int:
    """The smallest s for which the sum of min(s, capacity) reaches the number of shards; if there is none, the
    largest capacity (everybody is full)."""
    share, remaining, ascending = 0, shards, sorted(capacities)
    for index, capacity in enumerate(ascending):
        sharing = len(ascending) - index
        if (capacity - share) * sharing >= remaining:
            return share + -(-remaining // sharing)
        remaining -= (capacity - share) * sharing
        share = capacity
    return share


def rank(shard: str, member: str) -> int:
    """A member's weight for a shard; the highest wins."""
    return _mixed(_number(shard), _number(member))


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def _mixed(shard: int, member: int) -> int:
    """One multiplication: a digest of each pair would cost a large fleet a second for each assignment."""
    return (shard ^ member) * GOLDEN & MASK


@dataclass(slots=True)
class _Alike:
    """Peers with room that are configured for the same shards: their numbers by id, those below their share apart."""

    shards: Container[str]
    below: dict[str, int]
    others: set[str]


def assign(unowned: Sequence[str], peers: Sequence[Peer], loads: Mapping[str, int], share: int) -> dict[str, str]:
    """Which member takes which unowned shard. `loads`: shards that each member has by now. A shard for which all
    are at their share goes to the least loaded one with room; one for which all are full is left out: homeless."""
    loads = {peer.id: loads.get(peer.id, 0) for peer in peers}
    groups = _grouped(peers, loads, share)
    capacities = {peer.id: peer.capacity for peer in peers}
    taken: dict[str, str] = {}
    for shard in sorted(unowned):
        able = [group for group in groups if shard in group.shards]
        number = _number(shard)
        if below := [(_mixed(number, mark), member) for group in able for member, mark in group.below.items()]:
            winner = max(below)[1]
        elif others := [(loads[member], member) for group in able for member in group.others]:
            winner = min(others)[1]
        else:
            continue
        taken[shard] = winner
        loads[winner] += 1
        if loads[winner] in (share, capacities[winner]):
            _demote(able, winner, loads[winner] < capacities[winner])
    return taken


def _grouped(peers: Sequence[Peer], loads: Mapping[str, int], share: int) -> list[_Alike]:
    groups: dict[int, _Alike] = {}
    for peer in peers:
        group = groups.setdefault(id(peer.shards), _Alike(peer.shards, {}, set()))
        if loads[peer.id] < min(share, peer.capacity):
            group.below[peer.id] = _number(peer.id)
        elif loads[peer.id] < peer.capacity:
            group.others.add(peer.id)
    return list(groups.values())


def _demote(groups: Sequence[_Alike], member: str, has_room: bool) -> None:
    """A member has reached its share, or is full."""
    for group in groups:
        if member in group.below or member in group.others:
            group.below.pop(member, None)
            (group.others.add if has_room else group.others.discard)(member)
