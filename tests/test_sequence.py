"""Gaps in the numbers of messages: against a plain reference; lines about them are rare."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from workers.resuming.sequence import INTERVAL_NS, Gap, Position, Reports


def gaps(*numbers: int | None) -> list[tuple[int, int]]:
    return [(gap.expected, gap.got) for gap in Position().gaps(numbers)]


def test_each_number_one_above_the_last_is_no_gap() -> None:
    assert gaps(5, 6, 7) == []


def test_a_jump_ahead_is_one_gap_however_wide() -> None:
    assert gaps(5, 6, 9, 10, 100) == [(7, 9), (11, 100)]


def test_a_smaller_or_equal_number_is_a_replay_and_the_new_position() -> None:
    assert gaps(5, 5, 3, 4, 5, 1, 2) == []
    assert gaps(5, 3, 5) == [(4, 5)]


def test_messages_without_a_number_are_passed_over() -> None:
    assert gaps(None, 1, None, None, 2, None, 4) == [(3, 4)]


def test_the_first_number_of_a_connection_is_never_a_gap() -> None:
    assert gaps(1_000_000) == []


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(-3, 12)), max_size=6), max_size=6))
def test_however_messages_fall_into_batches_the_same_gaps_are_found(batches: list[list[int | None]]) -> None:
    position = Position()
    found = [(gap.expected, gap.got) for batch in batches for gap in position.gaps(batch)]
    numbers = [number for batch in batches for number in batch if number is not None]
    pairs = pairwise(numbers)
    assert found == [(before + 1, after) for before, after in pairs if after > before + 1]


def test_a_gap_names_the_message_behind_it() -> None:
    assert Position().gaps([1, None, 5]) == [Gap(2, 5, 2)]


def test_a_gap_in_every_message_makes_a_line_in_an_interval_with_how_many_there_were() -> None:
    reports = Reports()
    lines = [reports.count(1, tick * INTERVAL_NS // 1000) for tick in range(2001)]
    assert [line for line in lines if line] == [1, 1000, 1000]
