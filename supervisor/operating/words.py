"""What a command says about a shard and its owner, in parts of sentences. Pure."""

from __future__ import annotations

from supervisor.operating.candidates import brief
from supervisor.operating.orders import Order, Task
from supervisor.operating.sight import Sight
from supervisor.records import Lease


def who(owner: str | None, nobody: str = "nobody") -> str:
    return nobody if owner is None else brief(owner)


def ago(ms: int) -> str:
    return f"{max(0, ms) / 1000:.1f} s ago"


def asked(order: Order, task: Task, sight: Sight) -> str:
    """For whoever does not wait: what has been written down, to be read after the shard's name. An owner that heeded at
    once is gone from the row by now."""
    rows = (sight.rows[task.shard], task.seen, task.first)
    owner = who(next((row.owner for row in rows if row and row.owner), None))
    match order.verb:
        case "move":
            return f"shall move from {owner} to {brief(order.to) or 'anybody else'}"
        case "pause":
            return f"is paused as soon as {owner} has stopped it"
        case _:
            return "may run again"


def late(order: Order, row: Lease | None, sight: Sight) -> str:
    """Why the effect did not come in time, as far as the row tells, and that the wish goes on."""
    if row is None:
        return "it has no row"
    told = stands(row, sight)
    if order.verb == "resume" and not row.paused:
        return f"it may run again, but {told}"
    wish = f", and the wish to move to {brief(row.move)} stands in its row" if row.move else ""
    paused = ", and the wish to pause it stands in its row" if row.paused else ""
    return f"{told}{wish}{paused}"


def stands(row: Lease, sight: Sight) -> str:
    """Who owns it, and who may run it all the same."""
    age_ms = sight.age_ms(row)
    if row.owner is not None:
        holds = f"; {holding(row, 'it')}" if age_ms > row.duration_ms and row.policy == "hold" else ""
        return f"{brief(row.owner)} owns it, epoch {row.epoch}, renewed {ago(age_ms)}{holds}"
    if not row.forced:
        return f"nobody owns it, epoch {row.epoch}"
    left_ms = row.duration_ms - age_ms
    when = f", it can be claimed {left_ms / 1000:.1f} s from now at the earliest" if left_ms > 0 else ""
    holds = f"; {holding(row, 'that')}" if row.policy == "hold" else ""
    return f"nobody owns it (its last owner was removed by force{when}{holds}), epoch {row.epoch}"


def holding(row: Lease, owner: str) -> str:
    """The price of `hold`, for every sentence about an owner that may be cut off from the store."""
    assert row.policy == "hold"
    return f"{owner} may run it until it reaches the store, since its outage_policy is hold"
