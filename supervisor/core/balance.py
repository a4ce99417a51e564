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


def rank(shard: str, member: str) -> bytes:
    """A member's weight for a shard; the highest wins."""
    return hashlib.blake2b(f"{shard} {member}".encode(), digest_size=8).digest()


def assign(unowned: Sequence[str], peers: Sequence[Peer], loads: Mapping[str, int], share: int) -> dict[str, str]:
    """Which member takes which unowned shard. `loads`: shards that each member has by now. A shard for which all
    are at their share goes to the least loaded one with room; one for which all are full is left out: homeless."""
    loads = dict(loads)
    taken: dict[str, str] = {}
    for shard in sorted(unowned):
        able = [peer for peer in peers if shard in peer.shards and loads.get(peer.id, 0) < peer.capacity]
        below = [peer for peer in able if loads.get(peer.id, 0) < share]
        if below:
            winner = max(below, key=lambda peer: rank(shard, peer.id)).id
        elif able:
            winner = min(able, key=lambda peer: (loads.get(peer.id, 0), peer.id)).id
        else:
            continue
        taken[shard] = winner
        loads[winner] = loads.get(winner, 0) + 1
    return taken
