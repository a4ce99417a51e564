"""A new configuration under a running supervisor: what changes at once, and which children are replaced, one at a time.

What holds: a lease keeps the duration, margin and outage policy of its epoch, whatever the new rules say, since they
are promised in its row; a shard that is no longer configured is stopped gracefully and released; a child whose shard
changed goes on until its turn comes, is stopped, and starts again under the next epoch of the same lease. The next one
waits until it runs, or has had the time to: a configuration that does not work takes one shard after the other, slowly
and visibly, never all at once.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.changes import RELOADED
from supervisor.core import lease
from supervisor.core.model import Outdated, Reconfigured, ShardRule
from supervisor.core.phases import Held, Idle, Phase, Shard, Turn, Vacant, Wanted
from supervisor.core.state import State


def reconfigure(state: State, turn: Turn, event: Reconfigured) -> State:
    """The state under the new rules."""
    turn.rules = rules = event.rules
    kept = [_configured(state.shards.get(name), turn, name, rule) for name, rule in rules.shards.items()]
    dropped = [shard for shard in state.shards.values() if shard.name not in rules.shards]
    gone = [_dismiss(replace(shard, rule=None, crash=""), turn) for shard in dropped]
    watch = replace(state.watch, longest_ns=max(state.watch.longest_ns, rules.duration_ns))
    state = replace(state.with_shards([*kept, *gone]), rules=rules, watch=watch, rejected="")
    return replace(state, round_ns=min(state.round_ns, turn.ns + state.round_every_ns))


def _configured(shard: Shard | None, turn: Turn, name: str, rule: ShardRule) -> Shard:
    if shard is None or shard.rule is None:
        shard = replace(shard or Shard(name, rule), configured_ns=turn.ns)
    return replace(shard, rule=rule)


def mark(state: State, turn: Turn, event: Outdated) -> State:
    """The state in which these children are to be replaced. A shard without one starts under the new rules anyway."""
    return state.with_shards([_renewed(each, turn) for each in state.shards.values() if each.name in event.shards])


def _renewed(shard: Shard, turn: Turn) -> Shard:
    """What it crashed of may be mended now, so that its crashes count no more."""
    shard = replace(shard, crashes=(), start_ns=0, gave_up_ns=None, failed_ns=None)
    match shard.phase:
        case Held() as held:
            return replace(shard, phase=replace(held, outdated=True))
        case Vacant(due_ns=due_ns) as vacant:
            return replace(shard, phase=replace(vacant, due_ns=min(due_ns, turn.ns)))
        case _:
            return shard


def _dismiss(shard: Shard, turn: Turn) -> Shard:
    """It is no longer configured here."""
    match shard.phase:
        case Held():
            return lease.stop(shard, turn, lease.UNCONFIGURED)
        case Vacant(tenure):
            return lease.release(shard, turn, tenure, lease.UNCONFIGURED)
        case Wanted():
            return replace(shard, phase=Idle())
        case _:
            return shard


def advance(state: State, turn: Turn) -> State:
    """Replace the next outdated child, if none is being replaced."""
    if turn.draining or (state.replacing and _is_under_way(state, turn)):
        return state
    outdated = (shard for shard in state.shards.busy.values() if _may_be_replaced(shard.phase))
    shard = next(outdated, None)
    if shard is None:
        return replace(state, replacing="") if state.replacing else state
    state = state.with_shard(lease.stop(shard, turn, RELOADED, release=False))
    return replace(state, replacing=shard.name, replacing_ns=turn.ns)


def due_ns(state: State) -> int | None:
    """When time alone lets the next one be replaced; in a drain nobody is."""
    return _patience_ns(state) if state.replacing and state.drain is None else None


def _may_be_replaced(phase: Phase) -> bool:
    return isinstance(phase, Held) and phase.outdated and phase.stage in ("starting", "running")


def _is_under_way(state: State, turn: Turn) -> bool:
    phase = state.shards[state.replacing].phase
    running = isinstance(phase, Held) and phase.stage == "running"
    return not (running or isinstance(phase, Idle) or turn.ns >= _patience_ns(state))


def _patience_ns(state: State) -> int:
    return state.replacing_ns + state.rules.stop_ns + state.rules.start_ns
