"""When a checkpoint that the far end refuses is given up.

A feed forgets: a token that is too old may be refused at every attempt, and the shard would never stream again. So:

- `retries` attempts in a row that used the checkpoint, and that the far end refused by its own word (`refuses`), drop
  it: the next attempt goes without;
- if that one is refused as well, the checkpoint was not the cause, and the next ones use it again;
- a message, or an attempt that failed for any other reason (no answer, a busy server), breaks the row;
- a dropped checkpoint is not used again while it is the newest one. The row in the store keeps it until then.

Pure. One `Doubt` for each connection, since each may be refused for reasons of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.stream.session import Refusal

_OTHER_MEANINGS = (401, 403, 407, 408, 425, 429)  # of who we are, or of when we come: not of what we ask for
_GOING_AWAY = (1001, 1012, 1013)  # close codes of a server that ends or restarts


@dataclass(frozen=True, slots=True)
class Doubt:
    """`refused`: attempts in a row. `dropped`: the token that is not used any more, empty for none."""

    refused: int = 0
    dropped: str = ""


def token(doubt: Doubt, newest: str) -> str:
    """What the next attempt uses."""
    return "" if newest == doubt.dropped else newest


def refused(doubt: Doubt, used: str, retries: int) -> Doubt:
    """An attempt that used that token (empty: none) was refused by the far end's own word."""
    if not used or not retries:
        return Doubt()
    count = doubt.refused + 1
    return Doubt(0, used) if count >= retries else Doubt(count, doubt.dropped)


def passed(doubt: Doubt) -> Doubt:
    """A message came, or an attempt failed for a reason that says nothing about the token."""
    return Doubt(0, doubt.dropped) if doubt.refused else doubt


def refuses(refusal: Refusal) -> bool:
    """Whether a failed attempt is such a refusal."""
    return 400 <= refusal.status < 500 and refusal.status not in _OTHER_MEANINGS


def closes(code: int) -> bool:
    """Whether the peer's end of a connection on which no message has come is such a refusal."""
    return code not in _GOING_AWAY
