"""One lease that is ours, from the start of its child to its release: renew, refused, unknown, fence, stop, crash.

The rules, each in one place:

- refused, or any sign that the row is no longer ours: kill now (`lose`), then log, then never write again;
- unknown: try again quickly until the deadline (`answer_renewal`), kill at the deadline (`_pass_deadline`);
- a renewal vouches for a live child: none is sent for one that is dead, hung or late to start (`renewal`);
- a release is sent only from `Vacant` or at the observed death of the child (`exited`): never before.

The deadline counts from the sending of the last attempt known to be applied, and only moves forward.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.changes import RECOVERED, RELOADED, RESTART, history_after
from supervisor.core import crash, restart
from supervisor.core.model import MS, SECOND, Apply, Exited, Extend, Kill, Log, Report, Stop
from supervisor.core.phases import Dying, Held, Idle, Releasing, Shard, Turn, Vacant
from supervisor.core.tenure import Attempt, Copied, Lost, Tenure, judge, prove
from supervisor.records import Lease
from supervisor.writes import Applied, Outcome, Refused, Release, Renew, Unknown

KILL_AGAIN_NS = SECOND
RELEASE_DURATIONS = 10  # for which a release is tried after its lease ran out
ATTEMPTS_MAX = 1000  # since the last one applied; only a long outage under `hold` gets there
RETRY_SHIFT_MAX = 2
UNCONFIGURED = "unconfigured"  # why a lease is released that a reload took out of the configuration


# --- renewing ---------------------------------------------------------------------------------------------


def _vouched(held: Held, report: Report | None, turn: Turn) -> bool:
    """Whether the child is alive as far as anybody can tell."""
    if held.stage == "starting":
        return turn.ns < held.since_ns + turn.rules.start_ns
    return held.stage != "killing" and report is not None and turn.ns < report.heartbeat_ns + turn.rules.hang_ns


def renewal(shard: Shard, turn: Turn, report: Report | None) -> tuple[Shard, Renew | None]:
    """The next renewal, unless one is under way or nobody can vouch for the child."""
    held = shard.phase
    assert isinstance(held, Held)
    under_way = held.pending and turn.ns < held.pending_ns + 2 * held.tenure.attempt_ns(turn.rules)
    if under_way or not _vouched(held, report, turn) or turn.ns >= held.deadline_ns:
        return replace(shard, phase=replace(held, retry_ns=None)), None
    tenure = held.tenure
    report = report or Report(tenure.epoch)
    beat = tenure.beat_tried + 1
    nonce = turn.now.nonce(f"{shard.name} {tenure.epoch} {beat}")
    trouble = shard.crash or report.trouble
    troubled = tenure.troubled or bool(trouble)
    write = Renew(
        shard=shard.name,
        owner=tenure.owner,
        epoch=tenure.epoch,
        beat_low=tenure.applied.beat,
        beat_high=tenure.beat_tried,
        beat=beat,
        nonce=nonce,
        open=report.open,
        want=report.want,
        quiet_ms=max(0, turn.ns - report.last_event_ns) // MS if report.last_event_ns else None,
        policy=tenure.policy,
        checkpoint=report.checkpoint or tenure.checkpoint,
        at=turn.now.unix_ms,
        trouble=trouble if troubled else None,
    )
    applied, *tried = tenure.attempts
    if len(tried) >= ATTEMPTS_MAX:
        # From the middle: the first ones, sent before an outage was noticed, are the most likely to have been applied.
        del tried[ATTEMPTS_MAX // 2]
    attempts = (applied, *tried, Attempt(beat, nonce, turn.ns))
    tenure = replace(tenure, attempts=attempts, checkpoint=write.checkpoint, troubled=troubled)
    held = replace(held, tenure=tenure, pending=nonce, pending_ns=turn.ns, retry_ns=None)
    return replace(shard, phase=held), write


def answer_renewal(shard: Shard, turn: Turn, write: Renew, outcome: Outcome) -> Shard:
    """An answer, in time or late. One that belongs to an epoch we no longer hold says nothing."""
    phase = shard.phase
    if not isinstance(phase, Held | Vacant | Releasing) or phase.tenure.epoch != write.epoch:
        return shard
    current = isinstance(phase, Held) and phase.pending == write.nonce
    if isinstance(phase, Held) and current:
        phase = replace(phase, pending="")
        shard = replace(shard, phase=phase)
    match outcome:
        case Applied():
            return _advance(shard, turn, prove(phase.tenure, write.nonce))
        case Refused(row, bad):
            return lose(shard, turn, f"the row does not parse: {bad}") if bad else learn(shard, turn, row)
        case Unknown(cause):
            if isinstance(phase, Held) and current:
                retry_ns = turn.jitter(_pause_ns(phase, turn), f"retry {shard.name}")
                held = replace(phase, retry_ns=retry_ns, cause=cause, tries=phase.tries + 1)
                shard = replace(shard, phase=held)
            return shard


def _pause_ns(held: Held, turn: Turn) -> int:
    """Before the next try. Never so long that an outage which leaves room for one more attempt fences anybody."""
    growing_ns = held.tenure.renew_every_ns(turn.rules) // 8 << min(held.tries, RETRY_SHIFT_MAX)
    return min(growing_ns, held.tenure.attempt_ns(turn.rules) // 2)


def wake(shard: Shard, turn: Turn) -> Shard:
    """The store answers again after a silence. What was sent into that may bring no answer for long, and what fails
    was due long ago: both are sent anew, now."""
    held = shard.phase
    assert isinstance(held, Held)
    if not held.pending and held.retry_ns is None:
        return shard
    return replace(shard, phase=replace(held, pending="", retry_ns=turn.ns))


def _advance(shard: Shard, turn: Turn, tenure: Tenure) -> Shard:
    """An attempt is proven: the deadline moves to what its sending allows, if that is later."""
    phase = shard.phase
    assert isinstance(phase, Held | Vacant | Releasing)
    if not isinstance(phase, Held):
        return replace(shard, phase=replace(phase, tenure=tenure))
    if tenure is phase.tenure:
        return shard
    newer = tenure.applied.sent_ns > phase.tenure.applied.sent_ns
    deadline_ns = max(phase.deadline_ns, tenure.deadline_ns)
    if deadline_ns > phase.deadline_ns and phase.stage != "killing":
        turn.out.append(Extend(shard.name, tenure.epoch, deadline_ns))
    held = replace(phase, tenure=tenure, deadline_ns=deadline_ns)
    return replace(shard, phase=replace(held, cause="", tries=0) if newer else held)


# --- losing -----------------------------------------------------------------------------------------------


def learn(shard: Shard, turn: Turn, row: Lease | None) -> Shard:
    """A row that came with a refusal, or that was read after our claim was answered."""
    phase = shard.phase
    assert isinstance(phase, Held | Vacant | Releasing)
    verdict = judge(phase.tenure, row)
    match verdict:
        case Lost(reason):
            return lose(shard, turn, reason)
        case Copied(reason):
            turn.copied = reason
            return lose(shard, turn, reason, "lease.conflict")
        case Tenure():
            return _advance(shard, turn, verdict)


def lose(shard: Shard, turn: Turn, reason: str, event: str = "lease.lost") -> Shard:
    """The lease is not ours: the child dies at once, whatever it is doing, and only then we speak."""
    phase = shard.phase
    assert isinstance(phase, Held | Vacant | Releasing)
    epoch = phase.tenure.epoch
    if isinstance(phase, Held):
        turn.out.append(Kill(shard.name, epoch, "lost"))
        turn.out.append(Log("error", event, shard.name, epoch, reason))
        return replace(shard, phase=Dying(epoch, turn.ns, reason))
    if isinstance(phase, Releasing):
        turn.out.append(Log("info", "lease.released", shard.name, epoch, f"{phase.reason}; {reason}"))
    else:
        turn.out.append(Log("error", event, shard.name, epoch, reason))
    return replace(shard, phase=Idle(), settled_ns=turn.ns)


# --- time -------------------------------------------------------------------------------------------------


def tick_held(shard: Shard, turn: Turn, report: Report | None) -> Shard:
    """Deadlines of a lease with a child: its own, its child's start, heartbeat and stop."""
    held = shard.phase
    assert isinstance(held, Held)
    rules, now_ns = turn.rules, turn.ns
    if held.stage == "killing":
        return _kill_again(shard, turn, held.tenure.epoch, held.since_ns, held.reason)
    if held.stage == "starting" and report and report.started:
        held = replace(held, stage="running", since_ns=now_ns)
        shard = replace(shard, phase=held)
    if shard.crash and held.stage == "running" and now_ns >= held.since_ns + crash.OVER_AFTER_NS:
        shard = replace(shard, crash="")
    shard, held = _pass_deadline(shard, turn, held)
    if held.stage == "killing":
        return shard
    if held.stage == "starting" and now_ns >= held.since_ns + rules.start_ns:
        return kill(shard, turn, "start-timeout")
    if held.stage == "stopping" and now_ns >= held.since_ns + rules.stop_ns:
        return kill(shard, turn, "stop-timeout")
    if held.stage == "running" and report and now_ns >= report.heartbeat_ns + rules.hang_ns:
        return kill(shard, turn, "hung")
    return shard


def is_in_doubt(held: Held) -> bool:
    """Whether a renewal was tried of which nobody knows what became: it failed, or its answer has not come yet."""
    return bool(held.cause) or held.tenure.beat_tried > held.tenure.applied.beat


def _pass_deadline(shard: Shard, turn: Turn, held: Held) -> tuple[Shard, Held]:
    """Fence at the deadline; or, under `hold` and only while the store is unreachable to us, move it in time."""
    nearly_ns = held.deadline_ns - held.tenure.renew_every_ns(turn.rules) // 2
    if held.tenure.policy == "hold" and is_in_doubt(held) and turn.ns >= nearly_ns:
        deadline_ns = turn.ns + held.tenure.duration_ns - held.tenure.margin_ns
        turn.out.append(Extend(shard.name, held.tenure.epoch, deadline_ns))
        reason = f"outage_policy hold keeps the connections, another owner is possible; {held.cause or 'no answer yet'}"
        turn.out.append(Log("warning", "store.unreachable", shard.name, held.tenure.epoch, reason))
        held = replace(held, deadline_ns=deadline_ns)
    elif turn.ns >= held.deadline_ns:
        turn.out.append(Kill(shard.name, held.tenure.epoch, "fenced"))
        turn.out.append(Log("error", "lease.fenced", shard.name, held.tenure.epoch, _fence_reason(held, turn)))
        held = replace(held, stage="killing", since_ns=turn.ns, reason=held.reason or "fenced", crashed=False)
    else:
        return shard, held
    return replace(shard, phase=held), held


def tick_dying(shard: Shard, turn: Turn) -> Shard:
    dying = shard.phase
    assert isinstance(dying, Dying)
    return _kill_again(shard, turn, dying.epoch, dying.since_ns, dying.reason)


def _kill_again(shard: Shard, turn: Turn, epoch: int, since_ns: int, reason: str) -> Shard:
    """A killed child can outlive its SIGKILL in an uninterruptible call; its lease waits for the death itself."""
    if turn.ns < since_ns + KILL_AGAIN_NS:
        return shard
    turn.out.append(Kill(shard.name, epoch, reason))
    assert isinstance(shard.phase, Held | Dying)
    return replace(shard, phase=replace(shard.phase, since_ns=turn.ns))


# --- stopping and dying -----------------------------------------------------------------------------------


def kill(shard: Shard, turn: Turn, reason: str) -> Shard:
    """A child that was stopping is released for the reason of its stop: `moved` says more than `stop-timeout`."""
    held = shard.phase
    assert isinstance(held, Held)
    turn.out.append(Kill(shard.name, held.tenure.epoch, reason))
    return replace(shard, phase=replace(held, stage="killing", since_ns=turn.ns, reason=held.reason or reason))


def stop(shard: Shard, turn: Turn, reason: str, release: bool = True) -> Shard:
    """Ask the child to end; when it is dead its lease is released, or claimed again. The first reason to release it is
    the one that counts."""
    held = shard.phase
    assert isinstance(held, Held)
    why = held.reason if held.release else reason
    held = replace(held, release=held.release or release, crashed=False, reason=why)
    if held.stage in ("starting", "running"):
        turn.out.append(Stop(shard.name, held.tenure.epoch, reason))
        held = replace(held, stage="stopping", since_ns=turn.ns)
    return replace(shard, phase=held)


def exited(shard: Shard, turn: Turn, event: Exited) -> Shard:
    """The child is dead, which was seen: what its lease becomes."""
    phase = shard.phase
    if isinstance(phase, Dying) and phase.epoch == event.epoch:
        return replace(shard, phase=Idle(), settled_ns=turn.ns)
    if not isinstance(phase, Held) or phase.tenure.epoch != event.epoch:
        return shard
    checkpoint = event.report.checkpoint if event.report else None
    tenure = replace(phase.tenure, checkpoint=checkpoint or phase.tenure.checkpoint)
    if phase.release or turn.leaving or shard.rule is None:
        return release(shard, turn, tenure, phase.reason or "stopped")
    if turn.draining:
        return replace(shard, phase=Vacant(tenure, turn.ns))
    if phase.crashed and turn.ns >= phase.deadline_ns:
        # The kernel's timer was quicker than we: we were stopped, or late.
        turn.out.append(Log("error", "lease.fenced", shard.name, event.epoch, _fence_reason(phase, turn)))
    elif phase.crashed:
        return _crashed(shard, turn, tenure, crash.sentence(phase, event))
    return replace(shard, phase=Vacant(tenure, turn.ns, RELOADED if phase.reason == RELOADED else RECOVERED))


def _fence_reason(held: Held, turn: Turn) -> str:
    silent_s = (turn.ns - held.tenure.applied.sent_ns) / SECOND
    return f"nothing was renewed for {silent_s:.1f} s; {held.cause or 'no answer'}"


def _crashed(shard: Shard, turn: Turn, tenure: Tenure, why: str) -> Shard:
    window_ns = turn.rules.crash_window_ns
    crashes = restart.remember(shard.crashes, turn.ns, window_ns)
    start_ns = restart.start_at(crashes, window_ns, turn.now.fraction(f"crash {shard.name}"))
    shard = replace(shard, crashes=crashes, start_ns=start_ns, crash=why)
    if len(crashes) >= turn.rules.crash_limit or start_ns >= tenure.deadline_ns:
        return release(replace(shard, gave_up_ns=turn.ns, failed_ns=turn.ns), turn, tenure, "crashed")
    return replace(shard, phase=Vacant(tenure, start_ns, RESTART))


# --- releasing --------------------------------------------------------------------------------------------


def release(shard: Shard, turn: Turn, tenure: Tenure, reason: str) -> Shard:
    """Give the lease up, for a one-word reason. Called only where its child is known to be dead. A crash that is
    not that reason is over with it."""
    shard = replace(shard, crash=shard.crash if reason == "crashed" else "")
    write = Release(
        shard=shard.name,
        owner=tenure.owner,
        epoch=tenure.epoch,
        nonce=turn.now.nonce(f"release {shard.name}"),
        history=history_after(tenure.row.history, tenure.epoch, tenure.owner, turn.now.unix_ms, reason),
        checkpoint=tenure.checkpoint,
        at=turn.now.unix_ms,
        trouble=shard.crash,
    )
    turn.out.append(Apply(write))
    if shard.gave_up_ns is not None:
        shard = replace(shard, gave_up_ns=turn.ns)  # the stop may have taken longer than we leave it to others
    return replace(shard, phase=Releasing(tenure, reason, turn.ns + 2 * turn.rules.attempt_ns))


def answer_release(shard: Shard, turn: Turn, write: Release, outcome: Outcome) -> Shard:
    phase = shard.phase
    if not isinstance(phase, Releasing) or phase.tenure.epoch != write.epoch:
        return shard
    if isinstance(outcome, Unknown):
        retry_ns = turn.jitter(turn.rules.renew_every_ns // 8, f"release {shard.name}")
        return replace(shard, phase=replace(phase, retry_ns=retry_ns))
    reason = phase.reason if isinstance(outcome, Applied) else f"{phase.reason}; it was no longer ours"
    turn.out.append(Log("info", "lease.released", shard.name, write.epoch, reason))
    return replace(shard, phase=Idle(), settled_ns=turn.ns)


def tick_releasing(shard: Shard, turn: Turn) -> Shard:
    """Try again: while we stop, until the lease has run out by itself; else for long after, since a row that says ours
    and has no child must not have to wait for that once the store is back."""
    phase = shard.phase
    assert isinstance(phase, Releasing)
    if turn.ns < phase.retry_ns:
        return shard
    patience_ns = 0 if turn.draining else RELEASE_DURATIONS * phase.tenure.duration_ns
    if turn.ns < phase.tenure.expires_ns + patience_ns:
        return release(shard, turn, phase.tenure, phase.reason)
    reason = f"{phase.reason}; the store took no release before the lease ran out"
    turn.out.append(Log("warning", "lease.released", shard.name, phase.tenure.epoch, reason))
    return replace(shard, phase=Idle(), settled_ns=turn.ns, abandoned=turn.draining)
