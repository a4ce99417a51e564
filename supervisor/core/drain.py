"""A graceful stop, in the order that keeps peers quick and no shard owned twice.

Settle the claims in flight; mark our member row draining, so that peers take us out of the membership and start to
read the rows they will take; wait one poll if there are peers; stop all children side by side, each lease released
at its child's observed death; delete our member row; exit. A second request kills the children instead, and still
releases. Every wait has an end, so that a store that does not answer cannot hold the process.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor import exits
from supervisor.core import lease
from supervisor.core.model import Apply, Exit, Log
from supervisor.core.phases import Claiming, Held, Idle, Phase, Releasing, Shard, Turn, Wanted
from supervisor.core.state import Drain, State, member_row
from supervisor.writes import DeleteMember, PutMember


def request(state: State, turn: Turn) -> State:
    """The first request begins the drain, any later one makes it kill."""
    if state.stage in ("looking", "proving"):
        turn.out.append(Exit(exits.OK, "stopped before it had joined"))
        return replace(state, stage="over")
    if state.drain is None:
        turn.out.append(Log("info", "supervisor.draining"))
        over = [replace(shard, phase=Idle()) for shard in state.shards.busy.values() if _is_over(shard.phase, turn)]
        return replace(state.with_shards(over), stage="draining", drain=Drain(turn.ns))
    return _kill_all(replace(state, drain=replace(state.drain, stopping=True)), turn)


def _is_over(phase: Phase, turn: Turn) -> bool:
    """Whether a stop ends it at once: what we only want, and a release whose lease ran out before."""
    return isinstance(phase, Wanted) or (isinstance(phase, Releasing) and turn.ns >= phase.tenure.expires_ns)


def advance(state: State, turn: Turn) -> State:
    """As far as the drain can go now."""
    drain = state.drain
    if drain is None or state.stage != "draining":
        return state
    if drain.marked_ns is None and not drain.stopping:
        return _mark(state, turn, drain)
    if not drain.stopping:
        return _stop_all(state, turn, drain)
    if not state.shards.busy:
        return _part(state, turn, drain)
    return state


def due_ns(state: State) -> int | None:
    """When time alone lets the drain go on."""
    drain = state.drain
    if drain is None or state.stage != "draining":
        return None
    if drain.parting_ns is not None:
        return drain.parting_ns + 2 * state.rules.attempt_ns
    if drain.stopping:
        return None
    if drain.marked_ns is None:
        return drain.since_ns + 2 * state.rules.attempt_ns
    return drain.marked_ns + state.poll_ns


def _mark(state: State, turn: Turn, drain: Drain) -> State:
    overdue = turn.ns >= drain.since_ns + 2 * state.rules.attempt_ns
    settling = any(
        isinstance(shard.phase, Claiming) and shard.phase.unknown_ns is None for shard in state.shards.busy.values()
    )
    if overdue:
        return advance(replace(state, drain=replace(drain, marked_ns=turn.ns)), turn)
    if settling or (state.member and state.member.state == "draining"):
        return state
    member = member_row(state, turn.now.nonce("member"), turn.now.unix_ms, draining=True)
    turn.out.append(Apply(PutMember(member)))
    return replace(state, member=member)


def marked(state: State, turn: Turn, write: PutMember) -> State:
    """Our member row was written: peers can see that we drain."""
    if state.drain and state.drain.marked_ns is None and write.member.state == "draining":
        return replace(state, drain=replace(state.drain, marked_ns=turn.ns))
    return state


def _stop_all(state: State, turn: Turn, drain: Drain) -> State:
    assert drain.marked_ns is not None
    if state.live_members > 1 and turn.ns < drain.marked_ns + state.poll_ns:
        return state
    stopped = [lease.stop(each, turn, "stopped") for each in state.shards.busy.values() if isinstance(each.phase, Held)]
    return advance(replace(state.with_shards(stopped), drain=replace(drain, stopping=True)), turn)


def _kill_all(state: State, turn: Turn) -> State:
    killed: list[Shard] = []
    for shard in state.shards.busy.values():
        if isinstance(shard.phase, Held):
            why = shard.phase.reason if shard.phase.release else ""
            held = replace(shard.phase, release=True, crashed=False, reason=why)
            killed.append(lease.kill(replace(shard, phase=held), turn, "hurried"))
    return state.with_shards(killed)


def _part(state: State, turn: Turn, drain: Drain) -> State:
    if drain.parting_ns is None:
        assert state.member is not None
        turn.out.append(Apply(DeleteMember(state.member.id, state.member.beat, state.member.nonce)))
        return replace(state, drain=replace(drain, parting_ns=turn.ns))
    return over(state, turn) if turn.ns >= drain.parting_ns + 2 * state.rules.attempt_ns else state


def over(state: State, turn: Turn) -> State:
    """All is released, or has run out. The process may end."""
    unreleased = sorted(shard.name for shard in state.shards.values() if shard.abandoned)
    if unreleased:
        reason = f"stopped, but these leases could not be released and run out by themselves: {', '.join(unreleased)}"
        turn.out.append(Exit(exits.UNRELEASED, reason))
    else:
        turn.out.append(Exit(exits.OK, "stopped"))
    return replace(state, stage="over")
