"""Getting a lease: read the row, claim it under a new epoch, and settle a claim whose answer was lost.

What holds: a claim is conditional on the very row that was judged; its epoch is above every epoch that we ever
saw or tried; an answer starts a child only while its claim is the last one tried; a lease won with less than a
renew interval of validity left is claimed again rather than started. Our own lease (its child was seen dead) is
claimed by one write on what we know of it; a foreign one is read first, since the claim rewrites its history.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.changes import change_of, history_after, is_given_up
from supervisor.core.lease import UNCONFIGURED, release
from supervisor.core.model import MS, Apply, Log, Read, Start
from supervisor.core.phases import Claiming, Held, Idle, Shard, Tried, Turn, Vacant, Wanted
from supervisor.core.tenure import Copied, Tenure, begin, judge
from supervisor.core.wishes import is_pinned, of_peer
from supervisor.records import Lease
from supervisor.writes import Applied, Claim, Outcome, Refused, Unknown, Wish

FAST_READ_NS = 150 * MS
UNSETTLED_MAX = 8


def want(shard: Shard, turn: Turn, until_ns: int, asking: bool = False) -> Shard:
    """Mean to have the shard: read its row now, and again every 75-225 ms until it can be claimed or `until_ns`. With
    `asking`, wish it from its live owner."""
    if isinstance(shard.phase, Wanted):
        # Not sooner than meant before: a snapshot that shows the row free must not end the wait for its next read.
        return replace(shard, phase=replace(shard.phase, until_ns=max(until_ns, shard.phase.until_ns)))
    assert isinstance(shard.phase, Idle)
    return _read_wanted(shard, turn, Wanted(until_ns, turn.ns, asking))


def _read_wanted(shard: Shard, turn: Turn, wanted: Wanted) -> Shard:
    turn.out.append(Read(shard.name))
    return replace(shard, phase=replace(wanted, read_ns=turn.ns + 2 * turn.rules.attempt_ns))


def read_wanted(shard: Shard, turn: Turn, row: Lease | None, claimable: bool) -> Shard:
    """The row of a wanted shard was read, or the read failed (`row` None)."""
    phase = shard.phase
    assert isinstance(phase, Wanted)
    if row is not None and (tried := _stray(shard, turn.me, row)):
        return _take_stray(shard, turn, row, tried)
    if shard.rule is None:
        return replace(shard, phase=Idle())
    if row is not None and claimable:
        return _claim(shard, turn, row)
    if turn.ns >= phase.until_ns:
        return replace(shard, phase=Idle())
    if row is not None and phase.asking:
        shard = _ask(shard, turn, phase, row)
        if not isinstance(shard.phase, Wanted):
            return shard
        phase = shard.phase
    return replace(shard, phase=replace(phase, read_ns=turn.jitter(FAST_READ_NS, f"read {shard.name}")))


def tick_wanted(shard: Shard, turn: Turn) -> Shard:
    phase = shard.phase
    assert isinstance(phase, Wanted)
    if turn.ns < phase.read_ns:
        return shard
    if turn.ns >= phase.until_ns:
        return replace(shard, phase=Idle())
    return _read_wanted(shard, turn, phase)


def _ask(shard: Shard, turn: Turn, phase: Wanted, row: Lease) -> Shard:
    """Wish the row from its owner, once; look for something else when that cannot be, or was taken back."""
    if phase.wish is not None:
        if phase.wished and row.move != phase.wish.move and row.owner is not None:
            turn.in_vain = True
            return replace(shard, phase=Idle())
        return shard
    if row.owner is None or row.move or row.paused:
        return replace(shard, phase=Idle())
    if is_pinned(row.history):
        return replace(shard, phase=Idle(), kept=row.epoch)
    wish = Wish(shard.name, row.owner, row.epoch, None, of_peer(turn.me))
    turn.out.append(Apply(wish))
    return replace(shard, phase=replace(phase, wish=wish))


def answer_wish(shard: Shard, wish: Wish, outcome: Outcome) -> Shard:
    """After an unknown outcome the row that we go on reading tells."""
    phase = shard.phase
    if not isinstance(phase, Wanted) or phase.wish != wish:
        return shard
    if isinstance(outcome, Refused) and not (outcome.row and outcome.row.move == wish.move):
        return replace(shard, phase=Idle(), kept=wish.seen_epoch)
    # A refusal by a row that carries our wish is that of a duplicate.
    return replace(shard, phase=replace(phase, wished=not isinstance(outcome, Unknown)))


# --- claiming ---------------------------------------------------------------------------------------------


def _claim(shard: Shard, turn: Turn, row: Lease, own: Vacant | None = None) -> Shard:
    """Claim `row` exactly as it was read, or our own lease as we know it."""
    rule, tenure = shard.rule, own.tenure if own else None
    assert rule is not None
    for flaw in row.flaws:
        turn.out.append(Log("error", "row.rejected", shard.name, row.epoch, f"claimed without it: {flaw}"))
    epoch = 1 + max(row.epoch, shard.seen, shard.tried)
    if row.owner is None and not row.history:
        # Nobody ever claimed it: it may have been created late, in the place of a row that got further and was deleted.
        epoch = max(epoch, turn.now.unix_ms // 1000)
    reason = own.reason if own else _ground(row, turn)
    claim = Claim(
        shard=shard.name,
        seen_owner=row.owner,
        seen_epoch=row.epoch,
        beat_low=tenure.applied.beat if tenure else row.beat,
        beat_high=tenure.beat_tried if tenure else row.beat,
        owner=turn.me,
        epoch=epoch,
        nonce=turn.now.nonce(f"claim {shard.name} {epoch}"),
        duration_ms=turn.rules.duration_ms,
        policy=rule.policy,
        want=rule.want,
        history=history_after(row.history, epoch, turn.me, turn.now.unix_ms, reason),
        at=turn.now.unix_ms,
        checkpoint=tenure.checkpoint if tenure else None,
        keep_move=tenure is not None,
        trouble=shard.crash if tenure else row.trouble if row.owner is None and is_given_up(row.history) else "",
    )
    turn.out.append(Apply(claim))
    asked = isinstance(shard.phase, Wanted) and shard.phase.asking
    return replace(shard, phase=Claiming(claim, turn.ns, tenure, asked=asked), tried=epoch)


def _ground(row: Lease, turn: Turn) -> str:
    if row.owner is None:
        return "claimed"
    return "reclaimed" if row.owner in turn.dead else "expired"


def tick_vacant(shard: Shard, turn: Turn) -> Shard:
    """Our lease without a child: never left alone, claimed again or released."""
    phase = shard.phase
    assert isinstance(phase, Vacant)
    if turn.leaving or shard.rule is None:
        return release(shard, turn, phase.tenure, "stopped" if shard.rule else UNCONFIGURED)
    if turn.draining:
        return shard
    return _claim(shard, turn, phase.tenure.row, phase) if turn.ns >= phase.due_ns else shard


def answer_claim(shard: Shard, turn: Turn, claim: Claim, outcome: Outcome) -> Shard:
    """An answer, in time or late. Only the claim last tried can win."""
    phase = shard.phase
    if not isinstance(phase, Claiming) or phase.claim.nonce != claim.nonce:
        return shard
    match outcome:
        case Applied(row) if row is not None:
            return _win(shard, turn, phase, row)
        case Refused(row, bad):
            if bad:
                return _give_up(shard, turn, phase, f"the row does not parse: {bad}")
            return _settle(shard, turn, phase, row, refused=True)
        case Unknown(cause, unsent):
            if unsent:
                return _let_go(replace(shard, tried=claim.epoch - 1), turn, phase)
            return _doubt(shard, turn, phase, cause)
        case _:
            return _doubt(shard, turn, phase, "the answer carries no row")


def _win(shard: Shard, turn: Turn, phase: Claiming, row: Lease) -> Shard:
    tenure = _tenure(turn, phase.claim, row, phase.sent_ns)
    turn.look |= phase.asked
    shard = replace(shard, unsettled=(), abandoned=False, gave_up_ns=None, crash=phase.claim.trouble)
    deadline_ns = tenure.deadline_ns
    if turn.draining or shard.rule is None or deadline_ns - turn.ns < turn.rules.renew_every_ns:
        return replace(shard, phase=Vacant(tenure, turn.ns))
    turn.out.append(Start(shard.name, tenure.epoch, deadline_ns, tenure.checkpoint))
    turn.out.append(Log("info", "lease.claimed", shard.name, tenure.epoch, _reason(phase.claim)))
    return replace(shard, phase=Held(tenure, deadline_ns, "starting", turn.ns))


def _reason(claim: Claim) -> str:
    """Ours: what a read shows may have been changed by anybody."""
    return change_of(claim.history[-1]).reason


def _tenure(turn: Turn, claim: Claim, row: Lease, sent_ns: int) -> Tenure:
    """The claim may be older than the rules, and its lease longer than their margin is made for."""
    margin_ns = max(turn.rules.margin_ns, claim.duration_ms * MS // 10)
    return begin(claim, row, sent_ns, turn.ns, margin_ns)


def _let_go(shard: Shard, turn: Turn, phase: Claiming) -> Shard:
    """The claim certainly did nothing: our own lease is tried again after a while, a foreign one is left alone."""
    if phase.tenure is None:
        return replace(shard, phase=Idle(), settled_ns=turn.ns)
    around_ns = turn.rules.duration_ns // 2 if turn.silent else turn.rules.renew_every_ns // 4
    due_ns = turn.jitter(around_ns, f"claim {shard.name}")
    return replace(shard, phase=Vacant(phase.tenure, due_ns, _reason(phase.claim)))


# --- settling ---------------------------------------------------------------------------------------------


def _doubt(shard: Shard, turn: Turn, phase: Claiming, cause: str) -> Shard:
    """Nobody knows whether the claim was applied: remember it, and read the row until that tells."""
    turn.out.append(Log("debug", "store.unreachable", shard.name, phase.claim.epoch, f"claim: {cause}"))
    if all(tried.claim.nonce != phase.claim.nonce for tried in shard.unsettled):
        # The first one stays, as it is the most likely to be still under way when an outage begins.
        first, last = shard.unsettled[:1], shard.unsettled[1:][-(UNSETTLED_MAX - 2) :]
        shard = replace(shard, unsettled=(*first, *last, Tried(phase.claim, phase.sent_ns)))
    return replace(shard, phase=replace(phase, unknown_ns=turn.ns, read_ns=_patience(shard, turn)))


def hurry(shard: Shard, turn: Turn) -> Shard:
    """The store answers again: an open claim is settled now. One that was sent into the silence is in doubt at once."""
    phase = shard.phase
    assert isinstance(phase, Claiming)
    if phase.unknown_ns is None:
        shard = _doubt(shard, turn, phase, "no answer yet, while the store answers others")
    assert isinstance(shard.phase, Claiming)
    return replace(shard, phase=replace(shard.phase, read_ns=turn.ns))


def _patience(shard: Shard, turn: Turn) -> int:
    """When to look again: each claim in a row whose outcome stays unknown doubles the wait. While the store is silent
    there is nothing to be in a hurry for: its first answer ends every wait."""
    around_ns = turn.rules.renew_every_ns // 16 << len(shard.unsettled)
    around_ns = turn.rules.duration_ns // 2 if turn.silent else min(around_ns, turn.rules.duration_ns // 4)
    return turn.jitter(around_ns, f"settle {shard.name}")


def tick_claiming(shard: Shard, turn: Turn) -> Shard:
    phase = shard.phase
    assert isinstance(phase, Claiming)
    if phase.unknown_ns is None:
        late = turn.ns >= phase.sent_ns + 2 * turn.rules.attempt_ns
        return _doubt(shard, turn, phase, "no answer") if late else shard
    if turn.ns >= phase.sent_ns + turn.rules.duration_ns:
        return _let_go(replace(shard, abandoned=turn.draining), turn, phase)
    if turn.ns < phase.read_ns:
        return shard
    turn.out.append(Read(shard.name))
    return replace(shard, phase=replace(phase, read_ns=turn.ns + 2 * turn.rules.attempt_ns))


def read_claiming(shard: Shard, turn: Turn, row: Lease | None, asked_ns: int) -> Shard:
    """A row that was read while a claim is open; it settles the claim if it was asked for after the doubt."""
    phase = shard.phase
    assert isinstance(phase, Claiming)
    if phase.unknown_ns is None or asked_ns < phase.unknown_ns:
        return shard
    return _settle(shard, turn, phase, row, refused=False)


def read_failed(shard: Shard, turn: Turn) -> Shard:
    phase = shard.phase
    if isinstance(phase, Wanted):
        return read_wanted(shard, turn, None, False)
    if isinstance(phase, Claiming) and phase.unknown_ns is not None:
        return replace(shard, phase=replace(phase, read_ns=_patience(shard, turn)))
    return shard


def _settle(shard: Shard, turn: Turn, phase: Claiming, row: Lease | None, refused: bool) -> Shard:
    """What the row says about an open claim: it won, an older claim of ours did, it is still open, or it lost."""
    claim, tenure = phase.claim, phase.tenure
    if row is None:
        return _give_up(shard, turn, phase, "the row is gone")
    if (row.owner, row.epoch, row.nonce) == (turn.me, claim.epoch, claim.nonce):
        return _win(shard, turn, phase, row)
    if tried := _stray(shard, turn.me, row):
        return _take_stray(shard, turn, row, tried)
    judged = judge(tenure, row) if tenure else None
    if isinstance(judged, Copied):
        turn.copied = judged.reason
    if isinstance(judged, Tenure):
        if row.paused:
            return release(shard, turn, judged, "paused")
        return replace(shard, phase=Vacant(judged, turn.ns, _reason(claim)))
    untouched = (row.owner, row.epoch) == (claim.seen_owner, claim.seen_epoch) and row.beat == claim.beat_low
    if tenure is None and untouched and not refused:
        # Still open: the next snapshot decides about a claim under the next epoch.
        return replace(shard, phase=Idle(), settled_ns=turn.ns)
    return _give_up(shard, turn, phase, f"{row.owner or 'nobody'} owns epoch {row.epoch}")


def _give_up(shard: Shard, turn: Turn, phase: Claiming, reason: str) -> Shard:
    if phase.tenure is not None:
        turn.out.append(Log("error", "lease.lost", shard.name, phase.tenure.epoch, reason))
    return replace(shard, phase=Idle(), settled_ns=turn.ns, unsettled=())


def _stray(shard: Shard, me: str, row: Lease) -> Tried | None:
    for tried in shard.unsettled:
        if (row.owner, row.epoch, row.nonce) == (me, tried.claim.epoch, tried.claim.nonce):
            return tried
    return None


def is_stray(shard: Shard, me: str, row: Lease) -> bool:
    """Whether the row is a claim of ours that was applied after we had stopped waiting for it. No child of ours can
    have its epoch, so that it may be claimed again or released at once."""
    return _stray(shard, me, row) is not None


def _take_stray(shard: Shard, turn: Turn, row: Lease, tried: Tried) -> Shard:
    tenure = _tenure(turn, tried.claim, row, tried.sent_ns)
    return replace(shard, phase=Vacant(tenure, turn.ns), unsettled=(), crash=tried.claim.trouble)
