"""When a checkpoint is given up: only after refusals in a row that are the far end's own word, and never for good."""

from __future__ import annotations

import pytest

from workers.resuming import doubt
from workers.resuming.doubt import Doubt
from workers.stream.session import answered


def refuse(times: int, before: Doubt | None = None, newest: str = "t", retries: int = 3) -> Doubt:
    now = before or Doubt()
    for _ in range(times):
        now = doubt.refused(now, doubt.token(now, newest), retries)
    return now


def test_a_checkpoint_is_used_until_it_was_refused_so_many_times_in_a_row() -> None:
    assert [doubt.token(refuse(times), "t") for times in range(4)] == ["t", "t", "t", ""]


def test_a_newer_checkpoint_is_used_at_once_also_after_a_drop() -> None:
    assert doubt.token(refuse(3), "newer") == "newer"


def test_a_message_or_another_failure_breaks_the_row() -> None:
    assert doubt.token(refuse(2, doubt.passed(refuse(2))), "t") == "t"


def test_a_dropped_one_stays_dropped_while_the_connection_without_it_works() -> None:
    assert doubt.token(doubt.passed(refuse(3)), "t") == ""


def test_one_that_was_not_the_cause_is_used_again() -> None:
    """The attempt without it was refused as well."""
    assert [doubt.token(refuse(times), "t") for times in range(3, 8)] == ["", "t", "t", "t", ""]


def test_it_is_never_dropped_where_the_file_says_so() -> None:
    assert doubt.token(refuse(100, retries=0), "t") == "t"


def test_without_a_checkpoint_nothing_is_dropped() -> None:
    assert refuse(10, newest="") == Doubt()


@pytest.mark.parametrize("status", [400, 404, 409, 410, 412, 416, 422])
def test_an_answer_that_says_no_to_what_was_asked_counts(status: int) -> None:
    assert doubt.refuses(answered(status, None, 0))


@pytest.mark.parametrize("status", [200, 302, 401, 403, 407, 408, 425, 429, 500, 502, 503])
def test_an_answer_about_who_we_are_or_when_we_come_does_not_count(status: int) -> None:
    assert not doubt.refuses(answered(status, None, 0))


def test_a_server_that_goes_away_has_refused_nothing() -> None:
    assert [code for code in (1000, 1001, 1006, 1008, 1011, 1012, 1013, 4000, 4999) if not doubt.closes(code)] == [
        1001,
        1012,
        1013,
    ]
