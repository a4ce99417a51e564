"""What a row proves about our own attempts, and what refutes that the lease is ours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.tenure import Attempt, Copied, Lost, Tenure, judge, prove
from supervisor.records import Lease
from tests.core import ME, OTHER, lease, ns, own_row, tenure

TRIED = replace(
    tenure(),
    attempts=(Attempt(4, "n4", ns(4)), Attempt(5, "n5", ns(5)), Attempt(6, "n6", ns(6)), Attempt(7, "n7", ns(7))),
)


def row(beat: int, nonce: str) -> Lease:
    return own_row(beat=beat, nonce=nonce)


def test_an_attempt_that_a_row_shows_was_applied_and_the_expiry_counts_from_its_sending() -> None:
    judged = judge(TRIED, row(6, "n6"))
    assert isinstance(judged, Tenure)
    assert judged.applied == Attempt(6, "n6", ns(6))
    assert judged.expires_ns == ns(16)
    assert judged.beat_tried == 7


def test_the_refusal_of_a_duplicate_proves_the_attempt_itself() -> None:
    judged = judge(TRIED, row(7, "n7"))
    assert isinstance(judged, Tenure)
    assert judged.expires_ns == ns(17)


def test_a_row_that_shows_the_last_known_attempt_changes_nothing() -> None:
    assert judge(TRIED, row(4, "n4")) == TRIED


def test_a_nonce_of_ours_from_before_the_last_known_attempt_is_old_news() -> None:
    assert judge(TRIED, row(3, "n3")) == TRIED


def test_an_attempt_that_was_too_old_to_be_remembered_is_no_second_copy() -> None:
    forgetful = replace(TRIED, attempts=(*TRIED.attempts, Attempt(90, "n90", ns(8))))
    assert judge(forgetful, row(50, "n50")) == forgetful
    assert isinstance(judge(forgetful, row(90, "foreign")), Copied)
    assert isinstance(judge(forgetful, row(91, "foreign")), Copied)


@pytest.mark.parametrize("beat", [4, 5, 7, 8, 1000])
def test_a_foreign_nonce_at_or_above_the_last_known_beat_is_a_second_copy(beat: int) -> None:
    assert isinstance(judge(TRIED, row(beat, "foreign")), Copied)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (None, "gone"),
        (own_row(owner=None), "free at epoch 8"),
        (lease(owner=OTHER, epoch=9), f"{OTHER} owns epoch 9"),
        (own_row(epoch=9), "epoch 9"),
        (own_row(epoch=7), "epoch 7"),
    ],
)
def test_a_row_that_is_missing_free_foreign_or_of_another_epoch_is_a_loss(seen: Lease | None, says: str) -> None:
    judged = judge(TRIED, seen)
    assert isinstance(judged, Lost)
    assert says in judged.reason


def test_a_foreign_owner_is_a_loss_even_with_our_nonce() -> None:
    assert isinstance(judge(TRIED, own_row(beat=5, nonce="n5", owner=OTHER)), Lost)


@given(st.lists(st.sampled_from(["n3", "n4", "n5", "n6", "n7", "foreign"])))
def test_no_order_of_proofs_moves_the_expiry_back_or_forgets_the_last_attempt(nonces: list[str]) -> None:
    known = TRIED
    for nonce in nonces:
        proven = prove(known, nonce)
        assert proven.expires_ns >= known.expires_ns
        assert proven.beat_tried == 7
        known = proven
    assert known.owner == ME
