"""What `move` of a row may say, and which shards a peer leaves alone. Pure text.

    any           an operator: anybody but its owner
    ID            an operator: this supervisor
    ID balance    this supervisor itself, which has at least two shards less than the owner

The last words of history say why an owner gave a lease up: `moved` for an operator's wish, `balanced` for a peer's,
`crowded` when a reload lowered its capacity below what it held.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from supervisor.changes import AGAIN

ANYBODY = "any"
MOVED = "moved"
BALANCED = "balanced"
CROWDED = "crowded"
_BALANCE = " balance"
_SAME_PLACE = ("claimed", "reclaimed", *AGAIN)


@dataclass(frozen=True, slots=True)
class Move:
    """`target`: the supervisor that shall have the shard; None: anybody else."""

    target: str | None
    by_peer: bool

    @property
    def reason(self) -> str:
        """Why the lease is released, for its history."""
        return BALANCED if self.by_peer else MOVED


def parse(move: str) -> Move:
    target = move.removesuffix(_BALANCE)
    return Move(None if target == ANYBODY else target, by_peer=target != move)


def of_peer(member: str) -> str:
    return member + _BALANCE


def is_pinned(history: Iterable[str]) -> bool:
    """Whether the shard is where an operator put it: the last change of place was an operator's move. Starts in one
    place (a claim of the free row, restarts, a reclaim on the same host) change nothing about that."""
    for entry in reversed(tuple(history)):
        words = entry.split(" ")
        reason = words[3] if len(words) > 3 else ""
        if reason not in _SAME_PLACE:
            return reason == MOVED
    return False
