"""Rows changed by hand: given to a thief, deleted, or made nonsense for a while.

A thief never renews, so that its lease runs out. What a daemon may not mend, a row that does not parse, is undone: half
of the time by its former value, which was read in the very write that replaced it, half of the time by a deletion.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from tests.process.campaign.schedule import Planned
from tests.process.hand import Hand

THIEF = "elsewhere:1:0123456789abcdef"
RUBBISH: tuple[tuple[str, object], ...] = (
    ("epoch", "rubbish"),
    ("beat", "rubbish"),
    ("duration_ms", 1),
    ("policy", "perhaps"),
    ("owner", ""),
)
AGAIN_S = 0.5

Later = Callable[[float, Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class Tampered:
    """`end` None: nothing needs to be undone."""

    end: Callable[[], None] | None = None
    note: str = ""


def tamper(hand: Hand, planned: Planned, shard: str, later: Later) -> Tampered | None:
    """None: there is no such row, or the file is locked. `later` calls something after so many seconds."""
    try:
        match planned.kind:
            case "seize":
                return Tampered(note=f"epoch {hand.seize(shard, THIEF)}")
            case "usurp":
                hand.alter(shard, "owner", THIEF)
                return Tampered()
            case "delete":
                hand.delete(shard)
                return Tampered()
            case "garble":
                return _garble(hand, planned, shard, later)
    except (KeyError, TypeError, sqlite3.OperationalError):
        return None
    raise ValueError(f"{planned.kind} is no way to tamper with a row")


def _garble(hand: Hand, planned: Planned, shard: str, later: Later) -> Tampered:
    name, rubbish = RUBBISH[int(planned.chance * len(RUBBISH))]
    before = hand.alter(shard, name, rubbish)
    restored = planned.number % 2 == 0

    def end() -> None:
        try:
            with contextlib.suppress(KeyError):  # somebody deleted it meanwhile
                hand.alter(shard, name, before) if restored else hand.delete(shard)
        except sqlite3.OperationalError:  # locked, and therefore nobody's
            later(AGAIN_S, end)

    return Tampered(end, f"{name}, to be {'restored' if restored else 'deleted'}")
