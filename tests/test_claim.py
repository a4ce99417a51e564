"""Getting a lease: what is claimed, under which epoch, and how a claim without an answer is settled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.changes import AGAIN
from supervisor.core import claim as claiming_of
from supervisor.core.model import Apply, Log, Read, Start
from supervisor.core.phases import Claiming, Held, Idle, Releasing, Shard, Tried, Vacant, Wanted
from supervisor.core.tenure import Attempt
from supervisor.core.wishes import of_peer
from supervisor.records import Lease
from supervisor.writes import Applied, Claim, Outcome, Refused, Release, Unknown, Wish, after_claim
from tests.core import ME, OTHER, RULES, claim, claiming, free, lease, none, ns, only, own_row, shard, tenure, turn

WANTED = Wanted(ns(5), ns(3.2))


def sent(known: Shard, seconds: float, row: Lease) -> tuple[Shard, Claim]:
    now = turn(seconds)
    known = claiming_of.read_wanted(known, now, row, claimable=True)
    write = only(now.out, Apply).write
    assert isinstance(write, Claim)
    return known, write


def answer(
    known: Shard, seconds: float, write: Claim, outcome: Outcome, draining: bool = False
) -> tuple[Shard, list[object]]:
    now = turn(seconds, draining)
    return claiming_of.answer_claim(known, now, write, outcome), now.out


# --- wanting ----------------------------------------------------------------------------------------------


def test_a_wanted_shard_is_read_before_it_is_claimed() -> None:
    now = turn(0)
    known = claiming_of.want(shard(Idle()), now, ns(2))
    assert [type(effect) for effect in now.out] == [Read]
    assert isinstance(known.phase, Wanted)


def test_wanting_again_never_shortens_the_wait() -> None:
    known = claiming_of.want(shard(WANTED), turn(1), ns(1))
    assert known.phase == WANTED
    known = claiming_of.want(shard(WANTED), turn(1), ns(9))
    assert known.phase == replace(WANTED, until_ns=ns(9))


def test_a_row_that_cannot_be_claimed_yet_is_read_again_soon_and_not_for_ever() -> None:
    known = claiming_of.read_wanted(shard(WANTED), turn(1), lease(), claimable=False)
    assert isinstance(known.phase, Wanted)
    assert ns(1.07) <= known.phase.read_ns <= ns(1.23)
    assert isinstance(claiming_of.read_wanted(shard(WANTED), turn(5), lease(), claimable=False).phase, Idle)
    assert isinstance(claiming_of.tick_wanted(shard(WANTED), turn(5)).phase, Idle)


def test_a_read_that_failed_or_found_no_row_claims_nothing_and_is_made_again() -> None:
    now = turn(1)
    for known in (
        claiming_of.read_failed(shard(WANTED), now),
        claiming_of.read_wanted(shard(WANTED), now, None, False),
    ):
        assert isinstance(known.phase, Wanted)
        assert known.phase.read_ns > ns(1)
    assert now.out == []


# --- the write --------------------------------------------------------------------------------------------


@given(row=st.integers(1, 50), seen=st.integers(0, 50), tried=st.integers(0, 50))
def test_the_epoch_is_above_every_epoch_seen_or_tried(row: int, seen: int, tried: int) -> None:
    known, write = sent(shard(WANTED, seen=seen, tried=tried), 1, lease(epoch=row))
    assert write.epoch == 1 + max(row, seen, tried)
    assert known.tried == write.epoch


def test_a_row_that_nobody_ever_claimed_may_stand_in_the_place_of_one_that_got_further() -> None:
    """Created late, after the row that it was meant for had been created by another, claimed, and deleted."""
    assert sent(shard(WANTED), 1, free())[1].epoch == 1_800_000_001, "unix seconds, as a row that is created now"
    assert sent(shard(WANTED), 1, free(history=("7 bbbbbbbb 1799999999 stopped",)))[1].epoch == 9


@pytest.mark.parametrize("row", [lease(), free()])
def test_a_claim_is_conditional_on_the_very_row_that_was_read(row: Lease) -> None:
    _, write = sent(shard(WANTED), 1, row)
    assert (write.seen_owner, write.seen_epoch) == (row.owner, row.epoch)
    assert write.beat_low == write.beat_high == row.beat
    assert write.owner == ME
    assert not write.keep_move
    assert write.checkpoint is None


def test_what_is_wrong_with_a_row_is_said_and_does_not_keep_it_from_being_claimed() -> None:
    now = turn(1)
    claiming_of.read_wanted(shard(WANTED), now, lease(owner=None, flaws=("history is 'x'",)), True)
    assert only(now.out, Log).reason == "claimed without it: history is 'x'"
    assert isinstance(only(now.out, Apply).write, Claim)


def test_a_claim_keeps_the_history_of_the_row() -> None:
    _, write = sent(shard(WANTED), 1, free(history=("7 bbbbbbbb 1 claimed",)))
    assert write.history[0] == "7 bbbbbbbb 1 claimed"
    assert write.history[1].startswith("9 aaaaaaaa ")


def test_a_claim_of_our_own_lease_carries_the_newest_checkpoint_and_keeps_the_wish() -> None:
    own = replace(tenure(), checkpoint="newest", attempts=(Attempt(2, "n2", ns(0)), Attempt(4, "n4", ns(1))))
    now = turn(1)
    known = claiming_of.tick_vacant(shard(Vacant(own, ns(1))), now)
    write = only(now.out, Apply).write
    assert isinstance(write, Claim)
    assert (write.checkpoint, write.keep_move) == ("newest", True)
    assert (write.seen_owner, write.seen_epoch, write.beat_low, write.beat_high) == (ME, 8, 2, 4)
    assert write.epoch == 9
    assert isinstance(known.phase, Claiming)
    assert known.phase.tenure == own


@pytest.mark.parametrize("reason", AGAIN)
@pytest.mark.parametrize("failed", [Unknown("refused", unsent=True), Refused(own_row())])
def test_why_we_claim_our_own_lease_stands_in_its_history_also_after_a_try_that_did_nothing(
    reason: str, failed: Outcome
) -> None:
    now, later = turn(1), turn(4)
    known = claiming_of.tick_vacant(shard(Vacant(tenure(), ns(1), reason)), now)
    write = only(now.out, Apply).write
    assert isinstance(write, Claim)
    known = claiming_of.answer_claim(known, turn(1.1), write, failed)
    claiming_of.tick_vacant(known, later)
    again = only(later.out, Apply).write
    assert isinstance(again, Claim)
    assert {each.history[-1].split(" ")[3] for each in (write, again)} == {reason}


def test_our_lease_without_a_child_waits_for_its_backoff_and_is_released_by_a_drain() -> None:
    known = shard(Vacant(tenure(), ns(2)))
    assert claiming_of.tick_vacant(known, turn(1.9)) == known
    assert claiming_of.tick_vacant(known, turn(3, draining=True)) == known, "released before peers know"
    now = turn(1, leaving=True)
    assert isinstance(claiming_of.tick_vacant(known, now).phase, Releasing)
    assert isinstance(only(now.out, Apply).write, Release)
    gone = turn(1)
    assert isinstance(claiming_of.tick_vacant(replace(known, rule=None), gone).phase, Releasing)


# --- answers ----------------------------------------------------------------------------------------------


def test_a_lease_won_starts_a_child_whose_deadline_counts_from_the_sending() -> None:
    known, out = answer(claiming(), 1.5, claim(), Applied(own_row(checkpoint="c")))
    start = only(out, Start)
    assert (start.epoch, start.deadline_ns, start.checkpoint) == (8, ns(9), "c")
    assert isinstance(known.phase, Held)
    assert known.phase.tenure.answered_ns == ns(1.5)


@pytest.mark.parametrize(("seconds", "starts"), [(5.6, True), (5.7, False), (20, False)])
def test_a_child_starts_only_with_a_renew_interval_of_validity_left(seconds: float, starts: bool) -> None:
    known, out = answer(claiming(), seconds, claim(), Applied(own_row()))
    assert none(out, Start) is not starts
    assert isinstance(known.phase, Held if starts else Vacant)


def test_a_lease_won_while_draining_gets_no_child_and_waits_for_its_release() -> None:
    known, out = answer(claiming(), 1, claim(), Applied(own_row()), draining=True)
    assert out == []
    assert isinstance(known.phase, Vacant)


@pytest.mark.parametrize("outcome", [Applied(own_row()), Refused(None), Unknown("late")])
@pytest.mark.parametrize("known", [claiming(), shard(Idle()), shard(WANTED), shard(Vacant(tenure(), ns(3)))])
def test_an_answer_to_any_claim_but_the_last_one_tried_changes_nothing(known: Shard, outcome: Outcome) -> None:
    assert answer(known, 1, claim(7, "older"), outcome) == (known, [])


def test_an_answer_without_a_row_is_a_doubt_not_a_win() -> None:
    known, out = answer(claiming(), 1, claim(), Applied(None))
    assert none(out, Start)
    assert isinstance(known.phase, Claiming)
    assert known.phase.unknown_ns == ns(1)


def test_a_claim_refused_by_another_owner_is_given_up() -> None:
    known, out = answer(claiming(), 1, claim(), Refused(lease(epoch=9)))
    assert isinstance(known.phase, Idle)
    assert known.settled_ns == ns(1)
    assert out == []


def test_the_refusal_of_our_own_applied_claim_is_a_win() -> None:
    known, out = answer(claiming(), 1, claim(), Refused(after_claim(lease(), claim())))
    assert only(out, Start).epoch == 8
    assert isinstance(known.phase, Held)


def test_a_claim_of_our_own_lease_that_finds_another_owner_is_a_loss() -> None:
    known, out = answer(claiming(tenure()), 1, claim(), Refused(lease(epoch=9)))
    assert isinstance(known.phase, Idle)
    assert only(out, Log).event == "lease.lost"


def test_a_claim_of_our_own_lease_that_is_refused_because_of_a_pause_releases_it() -> None:
    write = claim(9, "claim 9")
    known, out = answer(claiming(tenure(), claim=write), 1, write, Refused(own_row(paused=True)))
    assert isinstance(only(out, Apply).write, Release)
    assert isinstance(known.phase, Releasing)


def test_a_claim_that_was_certainly_not_sent_may_use_its_epoch_again() -> None:
    known, _ = answer(claiming(), 1, claim(), Unknown("refused", unsent=True))
    assert isinstance(known.phase, Idle)
    assert known.tried == 7
    own, _ = answer(claiming(tenure()), 1, claim(), Unknown("refused", unsent=True))
    assert isinstance(own.phase, Vacant)
    assert own.phase.due_ns > ns(1)


# --- settling ---------------------------------------------------------------------------------------------


def doubtful(own: bool = False) -> Shard:
    write = claim(9, "claim 9") if own else claim()
    known = claiming(tenure() if own else None, claim=write)
    known, _ = answer(known, 1, write, Unknown("timeout"))
    assert isinstance(known.phase, Claiming)
    return known


def test_a_claim_without_an_answer_becomes_a_doubt_by_itself() -> None:
    early, late = turn(3.1), turn(3.2)
    assert claiming_of.tick_claiming(claiming(), early) == claiming()
    known = claiming_of.tick_claiming(claiming(), late)
    assert isinstance(known.phase, Claiming)
    assert known.phase.unknown_ns == ns(3.2)


def test_a_doubt_is_settled_by_reading_the_row_once_and_again() -> None:
    known = doubtful()
    assert isinstance(known.phase, Claiming)
    now = turn(3)
    claiming_of.tick_claiming(known, now)
    assert [type(effect) for effect in now.out] == [Read]


@pytest.mark.parametrize("asked_s", [0.5, 0.999])
def test_a_read_that_was_asked_for_before_the_doubt_settles_nothing(asked_s: float) -> None:
    assert claiming_of.read_claiming(doubtful(), turn(2), lease(), ns(asked_s)) == doubtful()
    assert claiming_of.read_claiming(claiming(), turn(2), lease(), ns(0.5)) == claiming()


@pytest.mark.parametrize("history", [(), ("x",)])
def test_a_claim_is_won_whatever_somebody_wrote_into_the_history_of_its_row(history: tuple[str, ...]) -> None:
    now = turn(2)
    row = replace(after_claim(lease(), claim()), history=history)
    assert isinstance(claiming_of.read_claiming(doubtful(), now, row, ns(1.5)).phase, Held)
    assert only(now.out, Log).reason == "x"


def test_a_read_that_shows_our_claim_wins_the_lease() -> None:
    now = turn(2)
    known = claiming_of.read_claiming(doubtful(), now, after_claim(lease(), claim()), ns(1.5))
    assert only(now.out, Start).deadline_ns == ns(9)
    assert isinstance(known.phase, Held)
    assert known.unsettled == ()


def test_a_read_that_shows_the_old_row_leaves_the_claim_open_and_remembers_it() -> None:
    known = claiming_of.read_claiming(doubtful(), turn(2), lease(), ns(1.5))
    assert isinstance(known.phase, Idle)
    assert known.unsettled == (Tried(claim(), ns(0)),)
    _, write = sent(replace(known, phase=WANTED), 3, lease())
    assert write.epoch == 9


def test_a_read_that_shows_somebody_else_ends_the_claim() -> None:
    known = claiming_of.read_claiming(doubtful(), turn(2), lease(epoch=8), ns(1.5))
    assert isinstance(known.phase, Idle)
    assert known.unsettled == ()


def test_a_read_that_shows_our_own_lease_as_it_was_claims_again_at_once() -> None:
    known = claiming_of.read_claiming(doubtful(own=True), turn(2), own_row(), ns(1.5))
    assert isinstance(known.phase, Vacant)
    assert known.phase.due_ns == ns(2)
    assert known.phase.tenure.epoch == 8


def test_a_read_that_shows_our_own_lease_paused_releases_it() -> None:
    now = turn(2)
    known = claiming_of.read_claiming(doubtful(own=True), now, own_row(paused=True), ns(1.5))
    assert isinstance(known.phase, Releasing)
    assert isinstance(only(now.out, Apply).write, Release)


def test_a_second_copy_found_by_a_claim_of_our_own_lease_changes_the_id() -> None:
    now = turn(2)
    known = claiming_of.read_claiming(doubtful(own=True), now, own_row(beat=4, nonce="the copy's"), ns(1.5))
    assert isinstance(known.phase, Idle)
    assert now.copied


def test_a_claim_that_was_applied_after_we_stopped_waiting_is_claimed_again_not_left_alone() -> None:
    row = after_claim(lease(), claim())
    known = replace(shard(WANTED), unsettled=(Tried(claim(), ns(0)),))
    assert claiming_of.is_stray(known, ME, row)
    assert not claiming_of.is_stray(known, ME, replace(row, nonce="another"))
    assert not claiming_of.is_stray(known, ME, replace(row, owner=OTHER))
    now = turn(2)
    known = claiming_of.read_wanted(known, now, row, claimable=False)
    assert now.out == []
    assert isinstance(known.phase, Vacant)
    assert known.phase.tenure.expires_ns == ns(10)
    again = turn(2.1)
    claiming_of.tick_vacant(known, again)
    write = only(again.out, Apply).write
    assert isinstance(write, Claim)
    assert write.epoch == 9


def test_a_doubt_does_not_outlast_a_lease() -> None:
    assert isinstance(claiming_of.tick_claiming(doubtful(), turn(10)).phase, Idle)
    own = claiming_of.tick_claiming(doubtful(own=True), turn(10))
    assert isinstance(own.phase, Vacant)
    assert claiming_of.tick_claiming(doubtful(), turn(10, draining=True)).abandoned


def test_each_doubt_in_a_row_waits_longer_and_none_longer_than_a_part_of_the_lease() -> None:
    waits = []
    for count in range(9):
        known = replace(claiming(), unsettled=tuple(Tried(claim(), ns(0)) for _ in range(count)))
        known, _ = answer(known, 1, claim(), Unknown("throttled"))
        assert isinstance(known.phase, Claiming)
        assert len(known.unsettled) <= claiming_of.UNSETTLED_MAX
        waits.append(known.phase.read_ns - ns(1))
    assert waits[:3] == sorted(waits[:3])
    assert waits[0] < waits[3]
    assert max(waits) <= 1.5 * RULES.duration_ns / 4


# --- asking -----------------------------------------------------------------------------------------------

ASKING = Wanted(ns(5), ns(3.2), asking=True)
WISH = Wish("s/0", OTHER, 7, None, of_peer(ME))
ASKED = replace(ASKING, wish=WISH)


def read(phase: Wanted, seconds: float, row: Lease | None, claimable: bool = False) -> tuple[Shard, list[object]]:
    now = turn(seconds)
    return claiming_of.read_wanted(shard(phase), now, row, claimable), now.out


def test_a_live_owner_is_asked_once_and_its_row_is_read_on() -> None:
    known, out = read(ASKING, 1, lease())
    assert only(out, Apply).write == WISH
    for _ in range(3):
        assert isinstance(known.phase, Wanted)
        assert ns(1.07) <= known.phase.read_ns <= ns(1.23)
        known, out = read(known.phase, 1, lease(beat=4))
        assert out == []


@pytest.mark.parametrize("row", [free(), lease(move="any"), lease(move=of_peer("else:3:c")), lease(paused=True)])
def test_nobody_is_asked_for_what_is_free_paused_or_asked_for_by_somebody(row: Lease) -> None:
    known, out = read(ASKING, 1, row)
    assert isinstance(known.phase, Idle)
    assert out == []


def test_nobody_is_asked_for_a_shard_that_an_operator_put_where_it_is_nor_again_in_that_epoch() -> None:
    known, out = read(ASKING, 1, lease(history=("6 cccccccc 1 moved", "7 bbbbbbbb 2 claimed")))
    assert isinstance(known.phase, Idle)
    assert known.kept == 7
    assert out == []


def test_a_wish_that_is_refused_is_not_made_again_in_that_epoch() -> None:
    known = claiming_of.answer_wish(shard(ASKED), WISH, Refused(lease(beat=5, move="any")))
    assert isinstance(known.phase, Idle)
    assert known.kept == 7


@pytest.mark.parametrize("outcome", [Applied(), Refused(lease(move=WISH.move))])
def test_a_wish_stands_once_it_is_applied_or_refused_by_a_row_that_carries_it(outcome: Outcome) -> None:
    known = claiming_of.answer_wish(shard(ASKED), WISH, outcome)
    assert known.phase == replace(ASKED, wished=True)


def test_a_wish_of_which_nobody_knows_is_not_sent_again_and_the_row_is_read_on() -> None:
    known = claiming_of.answer_wish(shard(ASKED), WISH, Unknown("timeout"))
    assert known.phase == ASKED
    for row in (lease(), lease(move=WISH.move)):
        after, out = read(ASKED, 1, row)
        assert isinstance(after.phase, Wanted)
        assert out == []


@pytest.mark.parametrize("move", [None, "any"])
def test_a_wish_that_was_taken_back_or_overwritten_ends_the_asking(move: str | None) -> None:
    known, out = read(replace(ASKED, wished=True), 1, lease(move=move))
    assert isinstance(known.phase, Idle)
    assert out == []


def test_an_owner_that_does_not_answer_is_not_waited_for_longer_than_meant() -> None:
    known, _ = read(replace(ASKED, wished=True), 5, lease(move=WISH.move))
    assert isinstance(known.phase, Idle)
    assert isinstance(claiming_of.tick_wanted(shard(ASKED), turn(5)).phase, Idle)


@pytest.mark.parametrize("phase", [Idle(), WANTED, replace(ASKED, wish=replace(WISH, seen_epoch=6))])
def test_the_answer_to_a_wish_that_is_no_longer_ours_to_make_changes_nothing(phase: Idle | Wanted) -> None:
    for outcome in (Applied(), Refused(None), Unknown("late")):
        assert claiming_of.answer_wish(shard(phase), WISH, outcome) == shard(phase)


def test_the_row_that_was_asked_for_is_claimed_the_moment_its_owner_released_it() -> None:
    known, out = read(replace(ASKED, wished=True), 1, free(move=WISH.move), claimable=True)
    write = only(out, Apply).write
    assert isinstance(write, Claim)
    assert not write.keep_move
    assert isinstance(known.phase, Claiming)
    assert known.phase.asked


def test_who_got_what_it_asked_for_looks_at_once_whether_there_is_more_to_ask_for() -> None:
    for asked in (True, False):
        now = turn(1)
        claiming_of.answer_claim(claiming(asked=asked), now, claim(), Applied(own_row()))
        assert now.look is asked


def test_a_claim_of_what_a_dead_incarnation_of_ours_owned_says_so() -> None:
    now = replace(turn(1), dead=frozenset({OTHER}))
    claiming_of.read_wanted(shard(WANTED), now, lease(), claimable=True)
    write = only(now.out, Apply).write
    assert isinstance(write, Claim)
    assert write.history[-1].endswith(" reclaimed")


# --- the end of a silence ---------------------------------------------------------------------------------


def test_a_claim_sent_into_a_silence_is_in_doubt_and_read_as_soon_as_the_store_answers() -> None:
    known = claiming_of.hurry(claiming(), turn(1))
    assert isinstance(known.phase, Claiming)
    assert (known.phase.unknown_ns, known.phase.read_ns) == (ns(1), ns(1))
    assert known.unsettled == (Tried(claim(), ns(0)),)
    won, out = answer(known, 1.1, claim(), Applied(own_row()))
    assert isinstance(won.phase, Held)
    assert only(out, Start).deadline_ns == ns(9), "its answer may still come"


def test_a_doubt_is_settled_at_once_when_the_store_answers_again_and_not_doubted_twice() -> None:
    known = doubtful()
    hurried = claiming_of.hurry(known, turn(1.5))
    assert isinstance(hurried.phase, Claiming)
    assert (hurried.phase.unknown_ns, hurried.phase.read_ns) == (ns(1), ns(1.5))
    assert hurried.unsettled == known.unsettled


def test_a_claim_is_remembered_once_however_often_it_is_doubted_and_the_first_one_longest() -> None:
    known = claiming()
    for number in range(20):
        phase = known.phase
        assert isinstance(phase, Claiming)
        for _ in range(2):  # its deadline passes, and its call fails at last
            known = claiming_of.answer_claim(known, turn(number), phase.claim, Unknown("no answer"))
        nonces = [tried.claim.nonce for tried in known.unsettled]
        assert len(set(nonces)) == len(nonces) <= claiming_of.UNSETTLED_MAX
        assert nonces[0] == claim().nonce
        assert nonces[-1] == phase.claim.nonce
        known = replace(known, phase=Claiming(replace(phase.claim, nonce=f"n{number}"), ns(number), None))


@pytest.mark.parametrize("silent", [False, True])
def test_while_the_store_is_silent_there_is_less_hurry(silent: bool) -> None:
    now = turn(1)
    now.silent = silent
    known = claiming_of.answer_claim(claiming(), now, claim(), Unknown("no answer"))
    assert isinstance(known.phase, Claiming)
    assert (known.phase.read_ns >= ns(1) + RULES.duration_ns // 4) is silent
