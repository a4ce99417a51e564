"""What an operator's command does next about one shard, from what the store shows. Pure.

An `Order` is given for each of its shards until `decide` has told what became of it. What holds:

- each write is conditional on the row as it was seen; one that is refused is decided anew on the row that is there, at
  most `WRITES_MAX` times, so that a shard that changes hands all the time is told and not chased;
- a write of which nobody knows whether it was applied counts as begun, and the row settles it: what shows its effect
  proves it, also when that came and went between two looks (see `traces`). It is written again only while it cannot
  have had an effect;
- what the rows show to be in vain is told before anything is written;
- a wish that was taken back by the owner is not repeated;
- what is there already is as good as what was done: the same command given twice succeeds twice.

Who lives is judged by what the command saw move (see `pulse`); where wall clocks alone speak against an order, they are
not believed: it looks again. The owner decides about a wish by what it has observed itself, and takes back what cannot
be. `forget`, which nothing can take back, minds no clock: whoever has a row counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeGuard

from supervisor.changes import history_after
from supervisor.core.watch import DEAD_DURATIONS
from supervisor.names import missing
from supervisor.operating import traces
from supervisor.operating.candidates import Candidate, brief, hoped
from supervisor.operating.moving import able, move, nobody
from supervisor.operating.orders import Look, Order, Send, Step, Task, Told, Wait
from supervisor.operating.sight import Sight
from supervisor.operating.words import ago, holding, stands, who
from supervisor.records import MEMBER_PREFIX, Lease
from supervisor.showing.status import natural
from supervisor.writes import Depose, Forget, Pause

WRITES_MAX = 5


def no(why: str) -> Told:
    return Told(False, why)


def decide(order: Order, task: Task, sight: Sight) -> Step:
    """The next step about one shard."""
    step = _decide(order, task, sight)
    if not _is_no(step) or not sight.in_doubt:
        return step
    other = _decide(order, task, replace(sight, candidates=hoped(sight.candidates)))
    if _is_no(other):
        return step
    return other if isinstance(other, Wait) else Look(f"{step.text}, as far as wall clocks tell")


def _is_no(step: Step) -> TypeGuard[Told]:
    return isinstance(step, Told) and not step.done


def _decide(order: Order, task: Task, sight: Sight) -> Step:
    if task.shard in sight.bad:
        return no(f"its row does not parse: {sight.bad[task.shard]}")
    row = sight.rows.get(task.shard)
    if row is None:
        return _without_row(order, task)
    step = _about(order, task, row, sight)
    if isinstance(step, Send) and task.writes >= WRITES_MAX:
        return no(f"it changed {WRITES_MAX} times under our hands; {stands(row, sight)}")
    return step


def _about(order: Order, task: Task, row: Lease, sight: Sight) -> Step:
    match order.verb:
        case "move":
            return move(order, task, row, sight)
        case "pause":
            return _pause(order, task, row, sight)
        case "resume":
            return _resume(task, row, sight)
        case "forget":
            return _forget(order, task, row, sight)


def _without_row(order: Order, task: Task) -> Told:
    first = task.first
    if first is None:
        return no("it has no row: no supervisor has made one yet")
    if order.verb != "forget":
        return no("its row is gone")
    then = holding(first, "the owner that was removed by force") if first.forced and first.policy == "hold" else ""
    return Told(True, f"is forgotten, epoch {first.epoch} was its last", then)


def known_shards(sight: Sight) -> list[str]:
    """All that have a row, or that somebody is configured for; of these as many as there may be."""
    bad = (key for key in sight.bad if not key.startswith(MEMBER_PREFIX))
    without, _ = missing((each.shards for each in sight.candidates.values()), sight.rows)
    return sorted({*sight.rows, *bad, *without}, key=natural)


def meant_by(pattern: str, shards: Sequence[str]) -> list[str]:
    return [shard for shard in shards if shard == pattern or fnmatchcase(shard, pattern)]


# --- pausing ----------------------------------------------------------------------------------------------


def _pause(order: Order, task: Task, row: Lease, sight: Sight) -> Step:
    heeded = task.seen is not None and traces.ended(row, task.seen.epoch, "paused", "deposed")
    if not row.paused and (task.sure or heeded):
        return no(f"somebody resumed it meanwhile; {stands(row, sight)}")
    if row.owner is not None and order.force:
        return Send(_depose(task, row, sight))
    if not row.paused:
        return Send(_paused(row, True))
    if row.owner is None:
        return _is_paused(task, row)
    if sight.life(row) != "silent":
        return Wait()
    holds = holding(row, who(row.owner)) if row.policy == "hold" else ""
    told = f"is paused; {who(row.owner)} still stands in its row, but renewed it {ago(sight.age_ms(row))}"
    return Told(True, told, holds)


def _paused(row: Lease, paused: bool) -> Pause:
    return Pause(row.shard, row.owner, row.epoch, paused)


def _depose(task: Task, row: Lease, sight: Sight) -> Depose:
    assert row.owner is not None
    # The entry tells how the owner's epoch ended, as that of a release does.
    history = history_after(row.history, row.epoch, row.owner, sight.now_ms, "deposed")
    return Depose(row.shard, row.owner, row.epoch, task.nonce, history, sight.now_ms)


def _is_paused(task: Task, row: Lease) -> Told:
    first = task.first
    if row.nonce == task.nonce:
        return _is_deposed(row, who(task.seen.owner if task.seen else None, "its owner"))
    then = holding(row, "the owner that was removed by force") if row.forced and row.policy == "hold" else ""
    if first and first.paused and first.owner is None:
        return Told(True, "is paused already", then)
    was = f"{who(first.owner)} gave it up" if first and first.owner else "nobody owned it"
    return Told(True, f"is paused, {was}", then)


def _is_deposed(row: Lease, owner: str) -> Told:
    claimed = f"once resumed the shard is claimed {row.duration_ms / 1000:g} s from now at the earliest"
    if row.policy == "hold":
        then = f"{holding(row, owner)}; {claimed}, and two may run it then"
    else:
        then = f"{owner} kills its child when it next looks, and {claimed}"
    return Told(True, f"is paused by force, epoch {row.epoch - 1} -> {row.epoch}", then)


# --- resuming ---------------------------------------------------------------------------------------------


def _resume(task: Task, row: Lease, sight: Sight) -> Step:
    if row.paused:
        return no("somebody paused it again meanwhile") if task.sure else Send(_paused(row, False))
    first = task.first or row
    was_paused = first.paused
    if row.owner is None:
        if not was_paused:
            return Told(True, f"is not paused; {stands(row, sight)}")
        why = nobody(able(row.shard, sight), "it may run again, but nobody can take it")
        return no(why) if why else Wait()
    life = sight.life(row)
    if not was_paused:
        if life in ("moves", "young"):
            return Told(True, f"is not paused, it runs at {who(row.owner)}, epoch {row.epoch}")
        return Told(True, f"is not paused; {stands(row, sight)}")
    if life != "moves":  # to look young is not enough: a dead owner does, where a clock is wrong
        return Wait()
    then = holding(first, "the owner that was removed by force") if first.forced and first.policy == "hold" else ""
    return Told(True, f"runs at {who(row.owner)}, epoch {row.epoch}", then)


# --- forgetting -------------------------------------------------------------------------------------------


def _forget(order: Order, task: Task, row: Lease, sight: Sight) -> Step:
    if row.owner is not None:
        return no(f"it is not free: {stands(row, sight)}")
    if row.shard in order.kept:  # while the fleet is stopped, nobody else says that it is still wanted
        return no("the configuration here has it; take it out of that first")
    if serving := [each for each in sight.candidates.values() if row.shard in each.shards]:
        return no(_is_served(serving, sight.now_ms))
    if bad := next((key for key in sight.bad if key.startswith(MEMBER_PREFIX)), ""):
        return no(f"the row {brief(bad)} does not parse, and nobody can tell what that supervisor is configured for")
    age_ms = sight.age_ms(row)
    if row.forced and age_ms <= row.duration_ms:
        return no(f"its owner was removed by force {ago(age_ms)} and may still run it")
    return Send(Forget(row.shard, row.epoch))


def _is_served(serving: list[Candidate], now_ms: int) -> str:
    """A supervisor that only looks dead, since a clock is wrong or it is cut off, would come back and find neither row
    nor checkpoint. So each that has a row counts; the row of one that is dead goes after ten leases."""
    live = sorted(brief(each.id) for each in serving if each.live)
    if live:
        more = f" and {len(live) - 1} more" if len(live) > 1 else ""
        return f"it is configured at {live[0]}{more}; take it out of the configuration there first"
    last = max(serving, key=lambda each: each.renewed_at)
    until = f"the others delete the row of a dead one after {DEAD_DURATIONS * last.duration_ms / 1000:g} s"
    return f"it is configured at {brief(last.id)}, whose row was renewed {ago(now_ms - last.renewed_at)}; {until}"
