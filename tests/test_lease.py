"""One lease of ours: renewals and their answers, the deadline, the child's death, the release."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import lease
from supervisor.core.model import SECOND, Apply, Exited, Extend, Kill, Log, Start, Stop
from supervisor.core.phases import Dying, Held, Idle, Releasing, Shard, Vacant
from supervisor.writes import Applied, Outcome, Refused, Release, Renew, Unknown
from tests.core import OTHER, RULES, held, none, ns, only, own_row, report, shard, tenure, turn
from tests.core import lease as row_of

UNKNOWN = Unknown("timeout")


def renew(known: Shard, seconds: float) -> tuple[Shard, Renew]:
    known, write = lease.renewal(known, turn(seconds), report(seconds))
    assert write is not None
    return known, write


def answer(known: Shard, seconds: float, write: Renew, outcome: Outcome) -> tuple[Shard, list[object]]:
    now = turn(seconds)
    return lease.answer_renewal(known, now, write, outcome), now.out


def phase(known: Shard) -> Held:
    assert isinstance(known.phase, Held)
    return known.phase


# --- renewing ---------------------------------------------------------------------------------------------


def test_a_renewal_accepts_every_beat_from_the_last_applied_to_the_last_tried() -> None:
    known = held()
    for number, seconds in enumerate((3, 4, 5), 1):
        known, write = renew(known, seconds)
        assert (write.beat_low, write.beat_high, write.beat) == (0, number - 1, number)
        known, _ = answer(known, seconds + 0.5, write, UNKNOWN)
    known, _ = answer(known, 5.6, write, Applied())
    _, write = renew(known, 8)
    assert (write.beat_low, write.beat_high, write.beat) == (3, 3, 4)


def test_the_deadline_counts_from_the_sending_of_what_was_applied() -> None:
    known, write = renew(held(), 3)
    known, out = answer(known, 4.5, write, Applied())
    assert only(out, Extend).deadline_ns == ns(3) + RULES.duration_ns - RULES.margin_ns == phase(known).deadline_ns


def test_an_unknown_renewal_extends_nothing_and_is_tried_again_quickly() -> None:
    known, write = renew(held(), 3)
    known, out = answer(known, 4.6, write, UNKNOWN)
    assert out == []
    assert phase(known).deadline_ns == ns(9)
    assert ns(4.6) < (phase(known).retry_ns or 0) < ns(5.6)


def test_an_unknown_answer_of_an_older_attempt_says_nothing_about_a_newer_one() -> None:
    known, first = renew(held(), 3)
    known, _ = answer(known, 4.6, first, UNKNOWN)
    known, second = renew(known, 5)
    known, _ = answer(known, 5.1, second, Applied())
    assert answer(known, 6, first, UNKNOWN) == (known, [])


def test_a_renewal_that_is_under_way_is_not_sent_twice() -> None:
    known, _ = renew(held(), 3)
    assert lease.renewal(known, turn(4), report(4))[1] is None
    assert lease.renewal(known, turn(6.3), report(6.3))[1] is not None, (
        "an answer that never comes must not end renewing"
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["applied", "unknown", "duplicate"])), max_size=30))
def test_no_order_of_answers_moves_the_deadline_back_or_beyond_what_was_sent(answers: list[tuple[int, str]]) -> None:
    known, writes = held(), []
    for number in range(10):
        known = replace(known, phase=replace(phase(known), pending=""))
        known, write = renew(known, 3 + number / 10)
        writes.append((write, ns(3 + number / 10)))
    latest_ns = ns(9)
    for index, kind in answers:
        write, sent_ns = writes[index]
        outcome: Outcome = UNKNOWN
        if kind == "applied":
            outcome = Applied()
        elif kind == "duplicate":
            outcome = Refused(own_row(beat=write.beat, nonce=write.nonce))
        if kind != "unknown" and write.beat >= phase(known).tenure.applied.beat:
            latest_ns = max(latest_ns, sent_ns + RULES.duration_ns - RULES.margin_ns)
        before_ns = phase(known).deadline_ns
        known, out = answer(known, 5, write, outcome)
        assert before_ns <= phase(known).deadline_ns <= latest_ns
        assert none(out, Kill)


def test_a_trouble_rides_on_the_next_renewal_and_so_does_its_end() -> None:
    """Without one, nothing is sent; after one each renewal tells, since nobody knows which of them were applied."""
    known, told = held(), []
    for seconds, trouble in enumerate(("", "sink: no answer", "", ""), 3):
        known, write = lease.renewal(known, turn(seconds), report(seconds, trouble=trouble))
        assert write is not None
        told.append(write.trouble)
        known, out = answer(known, seconds + 0.1, write, UNKNOWN)
        assert out == []
    assert told == [None, "sink: no answer", "", ""]


def test_a_checkpoint_once_sent_rides_on_every_later_renewal() -> None:
    known, write = lease.renewal(held(), turn(3), report(3, checkpoint="c1"))
    assert write is not None
    assert write.checkpoint == "c1"
    known, _ = answer(known, 3.1, write, Applied())
    assert renew(known, 6)[1].checkpoint == "c1"


@pytest.mark.parametrize(
    ("known", "seconds", "heard"),
    [
        (held("killing"), 3, True),
        (held("running"), 3, False),
        (held("stopping"), 3, False),
        (held("starting"), 10.5, False),
    ],
)
def test_no_renewal_vouches_for_a_child_that_is_killed_silent_or_late_to_start(
    known: Shard, seconds: float, heard: bool
) -> None:
    known = replace(known, phase=replace(phase(known), deadline_ns=ns(100)))
    assert lease.renewal(known, turn(seconds), report(seconds) if heard else None)[1] is None


def test_no_renewal_vouches_for_a_hung_child_or_is_sent_after_the_deadline() -> None:
    known = replace(held(), phase=replace(phase(held()), deadline_ns=ns(100)))
    assert lease.renewal(known, turn(30.1), report(0))[1] is None
    assert lease.renewal(known, turn(29.9), report(0))[1] is not None
    assert lease.renewal(held(), turn(9), report(9))[1] is None


def test_a_child_that_still_starts_is_renewed_without_a_word_from_it() -> None:
    assert lease.renewal(held("starting"), turn(3), None)[1] is not None


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [None, row_of(epoch=9), own_row(owner=None), own_row(epoch=9)])
def test_a_refused_renewal_kills_in_the_same_step_and_before_anything_is_said(row: object) -> None:
    known, write = renew(held(), 3)
    known, out = answer(known, 3.1, write, Refused(row))  # type: ignore[arg-type]
    assert [type(effect) for effect in out] == [Kill, Log]
    assert only(out, Kill).reason == "lost"
    assert isinstance(known.phase, Dying)


def test_the_log_of_a_loss_names_who_beat_us() -> None:
    known, write = renew(held(), 3)
    _, out = answer(known, 3.1, write, Refused(row_of(epoch=9)))
    log = only(out, Log)
    assert log.event == "lease.lost"
    assert OTHER in log.reason
    assert "9" in log.reason


def test_the_refusal_of_our_own_applied_write_proves_it_and_kills_nobody() -> None:
    known, write = renew(held(), 3)
    known, out = answer(known, 3.1, write, Refused(own_row(beat=write.beat, nonce=write.nonce)))
    assert none(out, Kill)
    assert phase(known).deadline_ns == ns(12)


def test_the_refusal_of_a_superseded_attempt_proves_the_newer_one_and_kills_nobody() -> None:
    known, old = renew(held(), 3)
    known, _ = answer(known, 4.6, old, UNKNOWN)
    known, new = renew(known, 5)
    known, out = answer(known, 6, old, Refused(own_row(beat=new.beat, nonce=new.nonce)))
    assert none(out, Kill)
    assert phase(known).deadline_ns == ns(14)


def test_a_second_copy_of_ourselves_is_a_conflict_that_kills_and_changes_the_id() -> None:
    known, write = renew(held(), 3)
    now = turn(3.1)
    known = lease.answer_renewal(known, now, write, Refused(own_row(beat=1, nonce="the copy's")))
    assert only(now.out, Kill).reason == "lost"
    assert only(now.out, Log).event == "lease.conflict"
    assert now.copied


def test_an_answer_of_another_epoch_says_nothing() -> None:
    known, write = renew(held(), 3)
    late = replace(write, epoch=7)
    assert answer(known, 3.1, late, Refused(None)) == (known, [])


def test_after_a_loss_nothing_is_written_and_the_child_is_killed_until_it_is_dead() -> None:
    known = shard(Dying(8, ns(0), "lost"))
    now = turn(0.9)
    assert lease.tick_dying(known, now) == known
    again = turn(1.0)
    known = lease.tick_dying(known, again)
    assert [type(effect) for effect in again.out] == [Kill]
    gone = turn(1.1)
    assert isinstance(lease.exited(known, gone, Exited("s/0", 8)).phase, Idle)
    assert gone.out == []


# --- time -------------------------------------------------------------------------------------------------


def test_an_outage_kills_at_the_deadline_neither_earlier_nor_later() -> None:
    known = held(cause="timeout")
    early, late = turn(8.999), turn(9)
    assert none((lease.tick_held(known, early, report(8)), early.out)[1], Kill)
    after = lease.tick_held(known, late, report(9))
    assert only(late.out, Kill).reason == "fenced"
    assert "9.0 s" in only(late.out, Log).reason
    assert "timeout" in only(late.out, Log).reason
    assert phase(after).stage == "killing"
    assert not phase(after).crashed


def test_hold_moves_the_deadline_also_while_the_answer_of_a_renewal_has_not_come_yet() -> None:
    known, write = lease.renewal(held(policy="hold"), turn(7.5), report(7.5))
    assert write is not None
    now = turn(8)
    known = lease.tick_held(known, now, report(8))
    assert only(now.out, Extend).deadline_ns == ns(17)
    assert none(now.out, Kill)


def test_hold_moves_the_deadline_before_it_passes_and_only_while_the_store_is_unreachable() -> None:
    reachable, unreachable = held(policy="hold"), held(policy="hold", cause="timeout")
    now = turn(7.5)
    kept = lease.tick_held(unreachable, now, report(7.5))
    assert phase(kept).deadline_ns == only(now.out, Extend).deadline_ns == ns(16.5)
    assert "hold" in only(now.out, Log).reason
    calm = turn(7.5)
    assert phase(lease.tick_held(reachable, calm, report(7.5))).deadline_ns == ns(9)
    fenced = turn(9)
    lease.tick_held(reachable, fenced, report(9))
    assert only(fenced.out, Kill).reason == "fenced"


@pytest.mark.parametrize(
    ("stage", "seconds", "reason"),
    [("starting", 10, "start-timeout"), ("stopping", 8, "stop-timeout"), ("running", 30, "hung")],
)
def test_each_stage_of_a_child_has_a_maximum_age(stage: str, seconds: float, reason: str) -> None:
    known = held(stage)
    known = replace(known, phase=replace(phase(known), deadline_ns=ns(100)))
    before, after = turn(seconds - 0.001), turn(seconds)
    silent = replace(report(0), started=stage != "starting")
    lease.tick_held(known, before, silent)
    assert none(before.out, Kill)
    assert phase(lease.tick_held(known, after, silent)).stage == "killing"
    assert only(after.out, Kill).reason == reason


def test_a_child_that_reports_its_start_runs() -> None:
    assert phase(lease.tick_held(held("starting"), turn(1), report(1))).stage == "running"


# --- stopping and dying -----------------------------------------------------------------------------------


def test_a_stop_asks_once_and_releases_only_after_the_death() -> None:
    now = turn(1)
    known = lease.stop(held(), now, "stopped")
    assert only(now.out, Stop).epoch == 8
    assert none(now.out, Apply)
    again = turn(1.1)
    known = lease.stop(known, again, "stopped")
    assert again.out == []
    dead = turn(1.2)
    known = lease.exited(known, dead, Exited("s/0", 8, report(1.2, checkpoint="last")))
    write = only(dead.out, Apply).write
    assert isinstance(write, Release)
    assert write.checkpoint == "last"
    assert isinstance(known.phase, Releasing)


def test_a_child_that_ignores_its_stop_is_released_for_the_reason_of_the_stop() -> None:
    """A peer that sees `moved` leaves the shard where the operator wanted it."""
    known = lease.stop(held(deadline_ns=ns(100)), turn(1), "moved")
    late = turn(9)
    known = lease.tick_held(known, late, report(9))
    assert only(late.out, Kill).reason == "stop-timeout"
    dead = turn(9.1)
    lease.exited(known, dead, Exited("s/0", 8))
    assert only(dead.out, Apply).write.history[-1].endswith(" moved")


@pytest.mark.parametrize("epoch", [7, 9])
def test_the_death_of_another_epoch_changes_nothing(epoch: int) -> None:
    now = turn(1)
    assert lease.exited(held(), now, Exited("s/0", epoch)) == held()
    assert now.out == []


def test_a_crash_keeps_the_lease_and_hands_its_last_checkpoint_to_the_next_child() -> None:
    now = turn(0.1)
    known = lease.exited(held(), now, Exited("s/0", 8, report(0.1, checkpoint="last")))
    assert isinstance(known.phase, Vacant)
    assert known.phase.tenure.checkpoint == "last"
    assert known.crashes == (ns(0.1),)
    assert ns(0.1) <= known.phase.due_ns <= ns(1.1)
    assert none(now.out, Start)


def test_a_crash_a_reload_and_a_fence_are_told_apart_in_what_claims_the_lease_again() -> None:
    replaced = lease.stop(held(deadline_ns=ns(100)), turn(0.1), "reloaded", release=False)
    killed = lease.tick_held(replaced, turn(9), report(9))
    fenced = lease.tick_held(held(), turn(9), report(9))
    for known, reason in ((held(), "restart"), (replaced, "reloaded"), (killed, "reloaded"), (fenced, "recovered")):
        phase = lease.exited(known, turn(0.5 if known is not fenced else 9.1), Exited("s/0", 8)).phase
        assert isinstance(phase, Vacant)
        assert phase.reason == reason


def test_a_fenced_child_is_no_crash_and_its_lease_is_claimed_again_at_once() -> None:
    now = turn(9.5)
    known = lease.exited(held(cause="timeout"), now, Exited("s/0", 8))
    assert known.phase == Vacant(tenure(), ns(9.5))
    assert known.crashes == ()
    assert only(now.out, Log).event == "lease.fenced"


def test_too_many_crashes_release_the_lease_so_that_another_host_may_try() -> None:
    crashes = tuple(ns(-number) for number in (4, 3, 2, 1))
    known = replace(held(), crashes=crashes)
    now = turn(0.5)
    known = lease.exited(known, now, Exited("s/0", 8))
    assert isinstance(only(now.out, Apply).write, Release)
    assert known.gave_up_ns == ns(0.5)
    assert len(known.crashes) == 5


def test_a_backoff_that_would_outlast_the_lease_releases_at_once() -> None:
    now = turn(8.9999)
    known = lease.exited(replace(held(), crashes=(ns(8), ns(8.5))), now, Exited("s/0", 8))
    assert isinstance(known.phase, Releasing)
    assert known.start_ns > ns(9)


# --- releasing --------------------------------------------------------------------------------------------


def releasing(retry_s: float = 3.2) -> Shard:
    return shard(Releasing(tenure(), "stopped", ns(retry_s)))


def write_of(known: Shard) -> Release:
    now = turn(0)
    lease.release(known, now, tenure(), "stopped")
    write = only(now.out, Apply).write
    assert isinstance(write, Release)
    return write


@pytest.mark.parametrize("outcome", [Applied(), Refused(None), Refused(row_of()), Refused(own_row(owner=None))])
def test_a_release_that_is_applied_or_refused_is_finished(outcome: Outcome) -> None:
    now = turn(1)
    known = lease.answer_release(releasing(), now, write_of(releasing()), outcome)
    assert isinstance(known.phase, Idle)
    assert known.settled_ns == ns(1)
    assert only(now.out, Log).event == "lease.released"


@pytest.mark.parametrize(("draining", "until_s"), [(True, 10), (False, 110)])
def test_an_unknown_release_is_sent_again_until_the_lease_has_run_out_and_long_after_unless_we_stop(
    draining: bool, until_s: float
) -> None:
    now = turn(1, draining)
    known = lease.answer_release(releasing(), now, write_of(releasing()), UNKNOWN)
    assert isinstance(known.phase, Releasing)
    assert ns(1) < known.phase.retry_ns < ns(2)
    again = turn(until_s - 0.1, draining)
    assert isinstance(lease.tick_releasing(known, again).phase, Releasing)
    assert isinstance(only(again.out, Apply).write, Release)
    over = turn(until_s, draining)
    assert isinstance(lease.tick_releasing(known, over).phase, Idle)
    assert none(over.out, Apply)


@pytest.mark.parametrize("draining", [True, False])
def test_only_a_drain_remembers_a_lease_that_could_not_be_released(draining: bool) -> None:
    assert lease.tick_releasing(releasing(), turn(110, draining)).abandoned is draining


def test_a_row_that_is_free_settles_a_release_whose_answer_was_lost() -> None:
    now = turn(1)
    assert isinstance(lease.learn(releasing(), now, own_row(owner=None)).phase, Idle)
    assert only(now.out, Log).level == "info"


# --- long outages -----------------------------------------------------------------------------------------


def test_of_more_attempts_than_are_remembered_the_first_and_the_last_ones_stay() -> None:
    known = held(policy="hold")
    writes = []
    for number in range(1, lease.ATTEMPTS_MAX + 400):
        now = turn(0.001 * number)
        known, write = lease.renewal(known, now, report(0.001 * number))
        assert write is not None
        writes.append(write)
        known = lease.answer_renewal(known, now, write, Unknown("refused"))
    phase = known.phase
    assert isinstance(phase, Held)
    nonces = [attempt.nonce for attempt in phase.tenure.attempts[1:]]
    assert len(nonces) == lease.ATTEMPTS_MAX
    assert nonces[0] == writes[0].nonce
    assert nonces[-1] == writes[-1].nonce
    assert (writes[-1].beat_low, writes[-1].beat_high) == (0, len(writes) - 1)


def test_the_tries_of_a_renewal_are_further_and_further_apart_until_one_is_applied() -> None:
    known, waits_s = held(), []
    for number in range(6):
        now = turn(number)
        known, write = lease.renewal(known, now, report(number))
        assert write is not None
        known = lease.answer_renewal(known, now, write, Unknown("throttled"))
        assert isinstance(known.phase, Held)
        assert known.phase.retry_ns is not None
        waits_s.append((known.phase.retry_ns - now.ns) / SECOND)
    # Half an attempt is the most: an outage that leaves room for one more attempt must not fence anybody.
    most_s = RULES.attempt_ns / 2 / SECOND
    limits_s = [min(most_s, RULES.renew_every_ns / SECOND / 8 * 2 ** min(number, 2)) for number in range(6)]
    assert all(limit / 2 <= wait <= limit * 1.5 for wait, limit in zip(waits_s, limits_s, strict=True))
    known = replace(known, phase=replace(known.phase, pending=""))
    known, write = lease.renewal(known, turn(6), report(6))
    assert write is not None
    known = lease.answer_renewal(known, turn(6), write, Applied())
    assert isinstance(known.phase, Held)
    assert known.phase.tries == 0


def test_a_renewal_sent_into_a_silence_is_sent_anew_when_the_store_answers_again() -> None:
    """Its own answer may never come, and the wait for that would outlast the lease."""
    known, write = lease.renewal(held(), turn(4), report(4))
    assert write is not None
    assert phase(lease.renewal(known, turn(4.1), report(4.1))[0]).pending
    known = lease.wake(known, turn(4.2))
    assert phase(known).retry_ns == ns(4.2)
    known, again = lease.renewal(known, turn(4.2), report(4.2))
    assert again is not None
    known = lease.answer_renewal(known, turn(4.3), write, Applied())  # the first one's comes after all
    assert phase(known).tenure.applied.nonce == write.nonce


def test_waking_a_lease_that_waits_for_nothing_changes_nothing() -> None:
    assert lease.wake(held(), turn(4)) == held()


def test_who_gives_a_shard_up_leaves_it_to_others_from_the_release_on() -> None:
    """A stop may take longer than the time for which it is left to others."""
    known = replace(lease.stop(held(deadline_ns=ns(100)), turn(1), "moved"), gave_up_ns=ns(1))
    known = lease.exited(known, turn(8), Exited("s/0", 8))
    assert known.gave_up_ns == ns(8)
    paused = lease.exited(lease.stop(held(), turn(1), "paused"), turn(8), Exited("s/0", 8))
    assert paused.gave_up_ns is None
