"""The decisions of a supervisor: `step(state, event, now) -> (state, effects)`.

Pure: no I/O, no clock, no randomness, no logging (log lines are effects). It only distributes: what an event means
for one lease stands in `lease` and `claim`, what a snapshot means in `poll`, how a stop goes on in `drain`, how a
reload does in `reload`.

Never two children for a shard, a release only after a death that was seen, a refused lease killed in the same step:
the phases (see `phases`) cannot express the contrary. What the types cannot rule out is asserted; the daemon turns
an `AssertionError` into the death of all children and exit 70.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from supervisor import exits
from supervisor.core import claim, drain, lease, poll, reload
from supervisor.core.fleet import target_of
from supervisor.core.model import (
    MS,
    Answered,
    Apply,
    Effects,
    Event,
    Exit,
    Exited,
    Log,
    Moment,
    Outdated,
    ProofFailed,
    Prove,
    Proved,
    ReadFailed,
    Reconfigured,
    ReloadRejected,
    Renewals,
    Report,
    RowRead,
    SnapshotFailed,
    Snapshotted,
    StopRequested,
    TakeSnapshot,
    Ticked,
)
from supervisor.core.phases import Claiming, Dying, Held, Idle, Releasing, Shard, Turn, Vacant, Wanted
from supervisor.core.state import State, member_row, shard_due_ns
from supervisor.core.watch import claimable
from supervisor.records import Lease, Snapshot
from supervisor.writes import (
    Applied,
    Claim,
    Create,
    DeleteMember,
    Depose,
    Forget,
    Outcome,
    Pause,
    PutMember,
    Refused,
    Release,
    Renew,
    Unknown,
    Wish,
    Write,
)

JUST_ANSWERED_NS = 100 * MS  # within it another answer is no news


def step(state: State, event: Event, now: Moment) -> tuple[State, Effects]:
    """The state after `event`, and what is to be done, in order."""
    leaving = state.drain is not None and state.drain.stopping
    turn = Turn(now, state.rules, state.me, state.drain is not None, leaving, [], state.watch.dead)
    if _proves_an_answer(event):
        state = _reach(state, turn)
    turn.silent = state.silent(turn.ns)
    match event:
        case Ticked(reports):
            state = _tick(state, turn, reports)
        case Answered(write, outcome):
            state = _answered(state, turn, write, outcome)
        case RowRead(name, row, asked_ns):
            state = _row_read(state, turn, name, row, asked_ns)
        case ReadFailed(name, _):
            state = state.with_shard(claim.read_failed(state.shards[name], turn))
        case Snapshotted(snapshot, asked_ns) if state.stage == "looking":
            state = _look(state, turn, snapshot)
        case Snapshotted(snapshot, asked_ns) if state.stage in ("active", "draining"):
            state = poll.snapshotted(state, turn, snapshot, asked_ns)
        case SnapshotFailed(cause) | ProofFailed(cause):
            state = _fail(state, turn, cause)
        case Proved(member) if state.stage in ("looking", "proving"):
            turn.out.append(Log("info", "supervisor.ready"))
            state = replace(state, stage="active", member=member, round_ns=turn.ns, snapshot_ns=turn.ns)
            state = _take_snapshot(state, turn)
        case Exited(name):
            state = state.with_shard(lease.exited(state.shards[name], turn, event))
        case Reconfigured():
            state = reload.reconfigure(state, turn, event)
        case Outdated():
            state = reload.mark(state, turn, event)
        case ReloadRejected(reason):
            state = replace(state, rejected=reason)
        case StopRequested():
            state = drain.request(state, turn)
    if turn.copied:
        state = _rename(state, turn)
    if turn.in_vain:
        state = replace(state, ask_ns=turn.ns + state.rules.duration_ns)
    if turn.look and state.stage == "active":
        state = replace(state, snapshot_ns=min(state.snapshot_ns, turn.ns))
    return drain.advance(reload.advance(state, turn), turn), turn.out


def due_ns(state: State) -> int:
    """The instant at which the next `Ticked` is due, at the latest."""
    instants = [state.snapshot_ns]
    if state.stage in ("active", "draining"):
        instants.append(state.round_ns)
        instants += [due for shard in state.shards.busy.values() if (due := shard_due_ns(shard, state)) is not None]
        instants += [due for due in (drain.due_ns(state), reload.due_ns(state)) if due is not None]
    return min(instants)


# --- time -------------------------------------------------------------------------------------------------


def _tick(state: State, turn: Turn, reports: Mapping[str, Report]) -> State:
    if state.stage in ("active", "draining"):
        state = _tick_shards(state, turn, reports)
    if state.stage != "over" and turn.ns >= state.snapshot_ns:
        stage = "looking" if state.stage == "proving" else state.stage
        state = _take_snapshot(replace(state, stage=stage), turn)
    return state


def _tick_shards(state: State, turn: Turn, reports: Mapping[str, Report]) -> State:
    shards: list[Shard] = []
    in_round = turn.ns >= state.round_ns
    together: list[Renew] = []
    within_ns = turn.rules.attempt_ns
    for name, shard in state.shards.busy.items():
        report = reports.get(name)
        if report and (not isinstance(shard.phase, Held) or report.epoch != shard.phase.tenure.epoch):
            report = None
        shard = _tick_shard(shard, turn, report)
        if isinstance(shard.phase, Held):
            retry = shard.phase.retry_ns is not None and turn.ns >= shard.phase.retry_ns
            if in_round or retry:
                alone = shard.phase.tries % 2 == 1
                attempt_ns = shard.phase.tenure.attempt_ns(turn.rules)
                shard, write = lease.renewal(shard, turn, report)
                if write and alone:
                    # After a call that failed as a whole each row goes alone: one bad row must not fence the others.
                    # But every other time only, since in an outage a call for each row is many.
                    turn.out.append(Renewals((write,), attempt_ns))
                elif write:
                    together.append(write)
                    within_ns = min(within_ns, attempt_ns)
        shards.append(shard)
    if together:
        turn.out.append(Renewals(tuple(together), within_ns))
    state = state.with_shards(shards)
    return _begin_round(state, turn) if in_round else state


def _tick_shard(shard: Shard, turn: Turn, report: Report | None) -> Shard:
    match shard.phase:
        case Held():
            return lease.tick_held(shard, turn, report)
        case Dying():
            return lease.tick_dying(shard, turn)
        case Releasing():
            return lease.tick_releasing(shard, turn)
        case Wanted():
            return claim.tick_wanted(shard, turn)
        case Claiming():
            return claim.tick_claiming(shard, turn)
        case Vacant():
            return claim.tick_vacant(shard, turn)
        case Idle():
            return shard


def _begin_round(state: State, turn: Turn) -> State:
    """Once a round our member row is renewed too. The next round is counted from this one, not from when it came."""
    every_ns = state.round_every_ns
    round_ns = state.round_ns + every_ns
    parting = state.drain is not None and state.drain.parting_ns is not None
    member = state.member
    if not parting:
        draining = state.drain is not None and state.member is not None and state.member.state == "draining"
        member = member_row(state, turn.now.nonce("member"), turn.now.unix_ms, draining)
        turn.out.append(Apply(PutMember(member)))
    return replace(state, member=member, round_ns=round_ns if round_ns > turn.ns else turn.ns + every_ns)


def _take_snapshot(state: State, turn: Turn) -> State:
    """The next one is due when this one was answered. While the store is silent we go on asking, since a call that
    hangs would keep us from noticing that it is back."""
    turn.out.append(TakeSnapshot())
    next_ns = turn.jitter(_probe_ns(state), "probe") if state.silent(turn.ns) else turn.ns + 2 * state.rules.duration_ns
    return replace(state, snapshot_ns=next_ns)


def _probe_ns(state: State) -> int:
    return state.poll_ns * 2 // 3


# --- answers ----------------------------------------------------------------------------------------------


def _answered(state: State, turn: Turn, write: Write, outcome: Outcome) -> State:
    match write:
        case Renew(shard=name):
            if isinstance(outcome, Unknown):
                state = _fail_renewal(state, turn, outcome.cause)
            return state.with_shard(lease.answer_renewal(state.shards[name], turn, write, outcome))
        case Claim(shard=name):
            shard = _see(state.shards[name], outcome)
            return state.with_shard(claim.answer_claim(shard, turn, write, outcome))
        case Release(shard=name):
            shard = _see(state.shards[name], outcome)
            return state.with_shard(lease.answer_release(shard, turn, write, outcome))
        case Wish(shard=name):
            return state.with_shard(claim.answer_wish(_see(state.shards[name], outcome), write, outcome))
        case Create(shard=name) | Pause(shard=name) | Depose(shard=name) | Forget(shard=name):
            return state.with_shard(_see(state.shards[name], outcome))
        case PutMember():
            return drain.marked(state, turn, write) if isinstance(outcome, Applied) else state
        case DeleteMember(member_id):
            ours = state.drain is not None and member_id == state.me and state.stage == "draining"
            return drain.over(state, turn) if ours else state


def _see(shard: Shard, outcome: Outcome) -> Shard:
    row = outcome.row if isinstance(outcome, Applied | Refused) else None
    return replace(shard, seen=row.epoch) if row and row.epoch > shard.seen else shard


def _row_read(state: State, turn: Turn, name: str, row: Lease | None, asked_ns: int) -> State:
    shard = state.shards[name]
    free = row is not None and _may_claim(state, turn, shard, row)
    if row is not None and row.epoch > shard.seen:
        shard = replace(shard, seen=row.epoch)
    match shard.phase:
        case Wanted():
            shard = claim.read_wanted(shard, turn, row, free)
        case Claiming():
            shard = claim.read_claiming(shard, turn, row, asked_ns)
        case Held(tenure) | Vacant(tenure) | Releasing(tenure) if asked_ns > tenure.answered_ns:
            shard = lease.learn(shard, turn, row)
    return state.with_shard(shard)


def _may_claim(state: State, turn: Turn, shard: Shard, row: Lease) -> bool:
    if not claimable(state.watch, row, shard.seen, turn.ns):
        return False
    return target_of(state.watch, row, state.able, state.me, turn.ns, state.poll_ns) in (None, state.me)


# --- the store as a whole ---------------------------------------------------------------------------------


def _look(state: State, turn: Turn, snapshot: Snapshot) -> State:
    state, clear, stranger = poll.clear_to_join(state, turn, snapshot)
    if stranger:
        reason = f"the store belongs to another fleet: {stranger} lives in it; give each fleet a table of its own"
        turn.out.append(Exit(exits.STORE, reason))
        return replace(state, stage="over")
    if not clear:
        return state
    turn.out.append(Prove(member_row(state, turn.now.nonce("member"), turn.now.unix_ms, draining=False)))
    return replace(state, stage="proving", snapshot_ns=turn.ns + 2 * state.rules.duration_ns)


def _fail(state: State, turn: Turn, cause: str) -> State:
    state = _fail_renewal(state, turn, cause)
    stage = "looking" if state.stage == "proving" else state.stage
    return replace(state, stage=stage, snapshot_ns=min(state.snapshot_ns, turn.jitter(_probe_ns(state), "snapshot")))


def _fail_renewal(state: State, turn: Turn, cause: str) -> State:
    if state.reachable:
        turn.out.append(Log("warning", "store.unreachable", reason=cause))
    return replace(state, reachable=False)


def _proves_an_answer(event: Event) -> bool:
    match event:
        case Answered(_, outcome):
            return not isinstance(outcome, Unknown)
        case Snapshotted() | RowRead() | Proved():
            return True
        case _:
            return False


def _reach(state: State, turn: Turn) -> State:
    """The store answers. After a silence nothing waits for its next try, so that all stream again at once."""
    if state.reachable and turn.ns - state.answered_ns < JUST_ANSWERED_NS:
        return state
    if not state.reachable:
        turn.out.append(Log("info", "store.reachable"))
    if state.silent(turn.ns):
        state = state.with_shards([_wake(shard, turn) for shard in state.shards.busy.values()])
    return replace(state, reachable=True, answered_ns=turn.ns)


def _wake(shard: Shard, turn: Turn) -> Shard:
    match shard.phase:
        case Held():
            return lease.wake(shard, turn)
        case Claiming():
            return claim.hurry(shard, turn)
        case Vacant(due_ns=due_ns) as vacant if due_ns > turn.ns:
            return replace(shard, phase=replace(vacant, due_ns=max(turn.ns, shard.start_ns)))
        case Releasing() as releasing:
            return replace(shard, phase=replace(releasing, retry_ns=turn.ns))
        case _:
            return shard


def _rename(state: State, turn: Turn) -> State:
    """A second copy of ourselves writes under our id: leave it the id, and all leases with it."""
    lost = [
        lease.lose(shard, turn, turn.copied, "lease.conflict")
        for shard in state.shards.busy.values()
        if isinstance(shard.phase, Held | Vacant | Releasing)
    ]
    me = f"{state.me.rpartition(':')[0]}:{turn.now.nonce('id')}"
    turn.out.append(Log("error", "lease.conflict", reason=f"{turn.copied}; going on as {me}"))
    member = replace(state.member, id=me) if state.member else None
    return replace(state.with_shards(lost), me=me, member=member, own_seen=0, polls=0)
