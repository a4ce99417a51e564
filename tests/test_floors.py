"""What hosts ask for in `Retry-After`, as words of the board."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.board import FLOORS, REFUSED, Board
from workers.stream import floors

S = 1_000_000_000
MARKS = st.integers(0, (1 << 22) - 1)
FLOORS_OF = st.dictionaries(MARKS, st.integers(1, 100 * 365 * 86_400 * 1000), max_size=floors.FLOORS_MAX)


@given(FLOORS_OF, FLOORS_OF)
def test_what_is_written_is_read_over_whatever_was_there_before_and_beside_it(
    before: dict[int, int], after: dict[int, int]
) -> None:
    words = Board.create().slot(0).words
    floors.write(words, FLOORS, {1: 5_000_000})
    for written in (before, after):
        floors.write(words, REFUSED, {mark: (until_ms // 8 + 1) * 1_000_000 for mark, until_ms in written.items()})
    expected = {mark: (until_ms // 8 + 1) * 1_000_000 for mark, until_ms in after.items()}
    assert floors.read(words, REFUSED) == expected
    assert floors.read(words, FLOORS) == {1: 5_000_000}


def test_a_time_is_rounded_up_so_that_nobody_comes_too_early() -> None:
    words = Board.create().slot(0).words
    floors.write(words, REFUSED, {3: S + 1})
    assert floors.read(words, REFUSED) == {3: S + 1_000_000}


def test_of_many_hosts_those_that_ask_for_the_longest_are_kept() -> None:
    merged = floors.merged({}, {mark: mark * S for mark in range(1, 21)}, 2 * S)
    assert merged == {mark: mark * S for mark in range(13, 21)}


def test_a_host_has_one_mark_however_it_is_spelled() -> None:
    assert floors.mark_of("Feed.Example:443") == floors.mark_of("feed.example:443") != floors.mark_of("other.example")
