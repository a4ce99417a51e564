"""What an operator's command does next about one shard, from what the store shows. Pure.

An `Order` is given for each of its shards until `decide` has told what became of it. What holds:

- each write is conditional on the row as it was seen; one that is refused is decided anew on the row that is there, at
  most `WRITES_MAX` times, so that a shard that changes hands all the time is told and not chased;
- what the rows show to be in vain is told before anything is written;
- a wish that was taken back by the owner is not repeated;
- what is there already is as good as what was done: the same command given twice succeeds twice.

Whether a supervisor is live is judged as in `status`, by wall clocks: the owner decides about a wish by what it has
observed itself, and takes back what cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from supervisor.changes import change_of, history_after
from supervisor.core import wishes
from supervisor.names import missing
from supervisor.operating.candidates import Candidate, named
from supervisor.operating.orders import Order, Send, Sight, Step, Task, Told, Wait
from supervisor.records import MEMBER_PREFIX, Lease
from supervisor.showing.status import natural
from supervisor.writes import Depose, Forget, Pause, Wish

WRITES_MAX = 5


def no(why: str) -> Told:
    return Told(False, why)


def decide(order: Order, task: Task, sight: Sight) -> Step:
    """The next step about one shard."""
    if task.shard in sight.bad:
        return no(f"its row does not parse: {sight.bad[task.shard]}")
    row = sight.rows.get(task.shard)
    if row is None:
        return _without_row(order, task)
    step = _about(order, task, row, sight)
    if isinstance(step, Send) and task.writes >= WRITES_MAX:
        return no(f"it changed {WRITES_MAX} times under our hands; {stands(row, sight.now_ms)}")
    return step


def _about(order: Order, task: Task, row: Lease, sight: Sight) -> Step:
    match order.verb:
        case "move":
            return _move(order, task, row, sight)
        case "pause":
            return _pause(order, task, row, sight)
        case "resume":
            return _resume(task, row, sight)
        case "forget":
            return _forget(order, row, sight)


def _without_row(order: Order, task: Task) -> Told:
    if task.first is None:
        return no("it has no row: no supervisor has made one yet")
    if order.verb == "forget" and task.writes:
        return Told(True, f"is forgotten, epoch {task.first.epoch} was its last")
    return no("its row is gone")


def known_shards(sight: Sight) -> list[str]:
    """All that have a row, or that somebody is configured for; of these as many as there may be."""
    bad = (key for key in sight.bad if not key.startswith(MEMBER_PREFIX))
    without, _ = missing((each.shards for each in sight.candidates.values()), sight.rows)
    return sorted({*sight.rows, *bad, *without}, key=natural)


def meant_by(pattern: str, shards: Sequence[str]) -> list[str]:
    return [shard for shard in shards if shard == pattern or fnmatchcase(shard, pattern)]


# --- moving -----------------------------------------------------------------------------------------------


def _move(order: Order, task: Task, row: Lease, sight: Sight) -> Step:
    if row.paused:
        return no(f"it is paused; `tenured resume {task.shard}` lets it run")
    target: Candidate | None = None
    if order.to:
        found = named(order.to, sight.candidates, sight.now_ms)
        if isinstance(found, str):
            return no(found)
        target = found
    move = target.id if target else wishes.ANYBODY
    begun = task.writes > 0 or (task.first is not None and task.first.move == move)
    if row.owner == target.id if target else begun and _is_elsewhere(task, row):
        return Told(True, _moved(task, row))
    if row.owner is None and target is None:
        return Wait() if begun else no(_unowned(row, sight))
    if row.move == move:
        return Wait()
    objection = _objection(row, target, sight)
    if task.seen and (row.owner, row.epoch) == (task.seen.owner, task.seen.epoch):
        return no(objection or _taken_back(row))
    if objection:
        return no(objection)
    return Send(Wish(row.shard, row.owner, row.epoch, row.move, move))


def _is_elsewhere(task: Task, row: Lease) -> bool:
    if task.first is None or row.owner in (None, task.first.owner):
        return False
    # An incarnation of the same host that took its own back is no other place.
    return not row.history or change_of(row.history[-1]).reason != "reclaimed"


def _moved(task: Task, row: Lease) -> str:
    first = task.first
    if first is None or first.owner == row.owner:
        return f"is at {row.owner} already, epoch {row.epoch}"
    return f"moved from {first.owner or 'nobody'} to {row.owner}, epoch {first.epoch} -> {row.epoch}"


def _unowned(row: Lease, sight: Sight) -> str:
    who = _nobody(_able(row.shard, sight), "nobody can take it") or "whoever has room takes it without being asked"
    return f"{stands(row, sight.now_ms)}; {who}"


def _taken_back(row: Lease) -> str:
    if row.move:
        return f"another wish took the place of ours: to move to {row.move}"
    return f"{row.owner or 'somebody'} took the wish back; the log of the owner says why (wish.refused)"


def _objection(row: Lease, target: Candidate | None, sight: Sight) -> str:
    """Why nobody, or not this one, can take the shard; "": nothing is known against it."""
    if target is None:
        able = [each for each in _able(row.shard, sight) if each.id != row.owner]
        return _nobody(able, "nobody else can take it")
    if target.drains:
        return f"{target.id} drains"
    if row.shard not in target.shards:
        return f"it is not configured at {target.id}"
    if not target.has_room:
        return f"{target.id} has no room: it has {target.load} shards of at most {target.capacity}"
    return ""


def _able(shard: str, sight: Sight) -> list[Candidate]:
    """Who is live and configured for it."""
    return [each for each in sight.candidates.values() if each.live and shard in each.shards]


def _nobody(able: list[Candidate], what: str) -> str:
    """`what`, and why, if none of them has room; else ""."""
    if any(each.has_room for each in able):
        return ""
    if not able:
        return f"{what}: no {'other ' if 'else' in what else ''}live supervisor is configured for it"
    return f"{what}: {', '.join(each.id for each in able)} {'is' if len(able) == 1 else 'are'} full or draining"


# --- pausing ----------------------------------------------------------------------------------------------


def _pause(order: Order, task: Task, row: Lease, sight: Sight) -> Step:
    if row.owner is not None and order.force:
        return Send(_depose(task, row, sight))
    if not row.paused:
        return no("somebody resumed it meanwhile") if task.seen else Send(_paused(row, True))
    if row.owner is None:
        return _is_paused(task, row)
    silent_ms = sight.now_ms - row.renewed_at
    if silent_ms <= row.duration_ms:
        return Wait()
    holding = ", and may go on, since its outage_policy is hold" if row.policy == "hold" else ""
    return Told(True, f"is paused; {row.owner} still stands in its row, but renewed it {_ago(silent_ms)}{holding}")


def _paused(row: Lease, paused: bool) -> Pause:
    return Pause(row.shard, row.owner, row.epoch, paused)


def _depose(task: Task, row: Lease, sight: Sight) -> Depose:
    assert row.owner is not None
    # The entry tells how the owner's epoch ended, as that of a release does.
    history = history_after(row.history, row.epoch, row.owner, sight.now_ms, "deposed")
    return Depose(row.shard, row.owner, row.epoch, task.nonce, history, sight.now_ms)


def _is_paused(task: Task, row: Lease) -> Told:
    if not task.writes and (task.first is None or task.first.owner is None):
        return Told(True, "is paused already")
    if row.nonce == task.nonce:
        owner = task.seen.owner if task.seen else "its owner"
        return Told(
            True,
            f"is paused by force, epoch {row.epoch - 1} -> {row.epoch}",
            f"{owner} kills its child when it next looks, and once resumed the shard is claimed "
            f"{row.duration_ms / 1000:g} s from now at the earliest",
        )
    was = task.first
    return Told(True, f"is paused, {was.owner} gave it up" if was and was.owner else "is paused, nobody owned it")


# --- resuming ---------------------------------------------------------------------------------------------


def _resume(task: Task, row: Lease, sight: Sight) -> Step:
    if row.paused:
        return no("somebody paused it again meanwhile") if task.seen else Send(_paused(row, False))
    if row.owner is not None and sight.now_ms - row.renewed_at <= row.duration_ms:
        return Told(True, f"{'runs' if task.writes else 'is not paused, it runs'} at {row.owner}, epoch {row.epoch}")
    if not task.writes:
        return Told(True, f"is not paused; {stands(row, sight.now_ms)}")
    why = "" if row.owner else _nobody(_able(row.shard, sight), "it may run again, but nobody can take it")
    if why:
        return no(why)
    return Wait()


# --- forgetting -------------------------------------------------------------------------------------------


def _forget(order: Order, row: Lease, sight: Sight) -> Step:
    if row.owner is not None:
        return no(f"it is not free: {stands(row, sight.now_ms)}")
    if row.shard in order.kept:  # while the fleet is stopped, nobody else says that it is still wanted
        return no("the configuration here has it; take it out of that first")
    if live := _able(row.shard, sight):
        return no(f"it is configured at {_some(live)}; take it out of the configuration there first")
    serving = [each for each in sight.candidates.values() if row.shard in each.shards]
    if serving and not any(each.live for each in sight.candidates.values()):
        # With a clock that is ahead every supervisor looks dead, and its free shards would lose their checkpoints.
        last = max(serving, key=lambda each: each.renewed_at)
        age = _ago(sight.now_ms - last.renewed_at)
        return no(f"no supervisor is live by the clock here, and {last.id}, renewed {age}, is configured for it")
    if row.forced and sight.now_ms - row.renewed_at <= row.duration_ms:
        return no(f"its owner was removed by force {_ago(sight.now_ms - row.renewed_at)} and may still run it")
    return Send(Forget(row.shard, row.epoch))


def _some(found: list[Candidate]) -> str:
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{min(each.id for each in found)}{more}"


# --- words ------------------------------------------------------------------------------------------------


def asked(order: Order, task: Task, sight: Sight) -> str:
    """For whoever does not wait: what has been written down, to be read after the shard's name. An owner that heeded at
    once is gone from the row by now."""
    rows = (sight.rows[task.shard], task.seen, task.first)
    owner = next((row.owner for row in rows if row and row.owner), "nobody")
    match order.verb:
        case "move":
            return f"shall move from {owner} to {order.to or 'anybody else'}"
        case "pause":
            return f"is paused as soon as {owner} has stopped it"
        case _:
            return "may run again"


def late(order: Order, row: Lease | None, now_ms: int) -> str:
    """Why the effect did not come in time, as far as the row tells, and that the wish goes on."""
    if row is None:
        return "it has no row"
    told = stands(row, now_ms)
    if order.verb == "resume" and not row.paused:
        return f"it may run again, but {told}"
    wish = f", and the wish to move to {row.move} stands in its row" if row.move else ""
    paused = ", and the wish to pause it stands in its row" if row.paused else ""
    return f"{told}{wish}{paused}"


def stands(row: Lease, now_ms: int) -> str:
    """Who owns it."""
    if row.owner is not None:
        return f"{row.owner} owns it, epoch {row.epoch}, renewed {_ago(now_ms - row.renewed_at)}"
    left_ms = row.duration_ms - (now_ms - row.renewed_at) if row.forced else 0
    when = f", it can be claimed {left_ms / 1000:.1f} s from now at the earliest" if left_ms > 0 else ""
    forced = f" (its last owner was removed by force{when})" if row.forced else ""
    return f"nobody owns it{forced}, epoch {row.epoch}"


def _ago(ms: int) -> str:
    return f"{max(0, ms) / 1000:.1f} s ago"
