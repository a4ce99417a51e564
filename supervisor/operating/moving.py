"""What `move` does next about one shard, and when it is over. Pure; see `operate` for what holds of all commands.

One command is one move: once its wish may have been written, an owner that is another one than at the beginning is the
effect, whatever the answer to the write said, and nobody who gave the shard up to the wish is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.changes import change_of
from supervisor.core import wishes
from supervisor.operating import traces
from supervisor.operating.candidates import Candidate, brief, listed, named
from supervisor.operating.orders import Order, Send, Step, Task, Told, Wait
from supervisor.operating.sight import Sight
from supervisor.operating.words import holding, stands, who
from supervisor.records import Lease
from supervisor.writes import Wish


def move(order: Order, task: Task, row: Lease, sight: Sight) -> Step:
    if row.paused and not task.begun:
        return Told(False, _is_paused(row))
    target: Candidate | None = None
    if order.to:
        found = named(order.to, sight.candidates, sight.now_ms)
        if isinstance(found, str):
            return Told(False, found)
        target = found
    wish = target.id if target else wishes.ANYBODY
    begun = task.begun or (task.first is not None and task.first.move == wish)
    if place := _place(task, row, target, begun):
        return _moved(task, row, place)
    if row.paused:
        return Told(False, _is_paused(row))
    if row.owner is None and target is None:
        return Wait() if begun else Told(False, _unowned(row, sight))
    if row.move == wish:
        return Wait()
    if why := _in_vain(task, row) or objection(row, target, sight) or _taken_back(task, row):
        return Told(False, why)
    return Send(Wish(row.shard, row.owner, row.epoch, row.move, wish))


def _is_paused(row: Lease) -> str:
    return f"it is paused; `tenured resume {brief(row.shard)}` lets it run"


# --- when it is over --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the shard came to, or is."""

    owner: str
    epoch: int
    reason: str = ""


def _place(task: Task, row: Lease, target: Candidate | None, begun: bool) -> _Place | None:
    """Where the shard is, or was meanwhile, if that is what was ordered."""
    here = None if row.owner is None else _Place(row.owner, row.epoch, _last_reason(row))
    if target and row.owner == target.id:
        return here
    if task.first is None or not begun:
        return None
    if target:
        passed = traces.was_at(task.first, row, target.id)
        return _Place(target.id, passed.epoch or 0, passed.reason) if passed else None
    another = task.first.owner != row.owner and not traces.stayed(task.first, row)
    if here and another:
        return here
    passed = traces.was_elsewhere(task.first, row)
    return _Place(passed.owner, passed.epoch or 0, passed.reason) if passed else None


def _last_reason(row: Lease) -> str:
    return change_of(row.history[-1]).reason if row.history else ""


def _moved(task: Task, row: Lease, place: _Place) -> Told:
    first = task.first
    if first is None or first.owner == place.owner:
        return Told(True, f"is at {brief(place.owner)} already, epoch {place.epoch}")
    told = f"moved from {who(first.owner)} to {brief(place.owner)}, epoch {first.epoch} -> {place.epoch}"
    then = []
    if row.owner is None or row.epoch != place.epoch:
        then.append(f"by now {who(row.owner)} owns it, epoch {row.epoch}")
    if place.reason == "expired" and first.policy == "hold":
        then.append(holding(first, who(first.owner)))
    return Told(True, told, "; ".join(then))


# --- when it is in vain -----------------------------------------------------------------------------------


def _in_vain(task: Task, row: Lease) -> str:
    if task.seen and task.first and traces.gave_up(task.first, row):
        return f"{who(row.owner)} gave it up and has it again, epoch {task.first.epoch} -> {row.epoch}"
    return ""


def _taken_back(task: Task, row: Lease) -> str:
    if not task.sure or task.seen is None or (row.owner, row.epoch) != (task.seen.owner, task.seen.epoch):
        return ""
    if row.move:
        return f"another wish took the place of ours: to move to {brief(row.move)}"
    return f"{who(row.owner, 'somebody')} took the wish back; the log of the owner says why (wish.refused)"


def _unowned(row: Lease, sight: Sight) -> str:
    why = nobody(able(row.shard, sight), "nobody can take it") or "whoever has room takes it without being asked"
    return f"{stands(row, sight)}; {why}"


def objection(row: Lease, target: Candidate | None, sight: Sight) -> str:
    """Why nobody, or not this one, can take the shard; "": nothing is known against it."""
    if target is None:
        others = [each for each in able(row.shard, sight) if each.id != row.owner]
        return nobody(others, "nobody else can take it")
    if target.drains:
        return f"{brief(target.id)} drains"
    if row.shard not in target.shards:
        return f"it is not configured at {brief(target.id)}"
    if not target.has_room:
        return f"{brief(target.id)} has no room: it has {target.load} shards of at most {target.capacity}"
    return ""


# --- who could --------------------------------------------------------------------------------------------


def able(shard: str, sight: Sight) -> list[Candidate]:
    """Who is live and configured for it."""
    return [each for each in sight.candidates.values() if each.live and shard in each.shards]


def nobody(found: list[Candidate], what: str) -> str:
    """`what`, and why, if none of them has room; else ""."""
    if any(each.has_room for each in found):
        return ""
    if not found:
        return f"{what}: no {'other ' if 'else' in what else ''}live supervisor is configured for it"
    return f"{what}: {listed(each.id for each in found)} {'is' if len(found) == 1 else 'are'} full or draining"
