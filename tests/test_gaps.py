"""Which gaps lead to a reconnect: each once, also if there are several that nothing fills; anew once it was filled."""

from __future__ import annotations

from unittest.mock import Mock

from workers.board import GAPS, Board
from workers.resuming.gaps import Gaps


def gaps() -> Gaps:
    return Gaps(Board.create().slot(0), Mock(), reconnects=True)


def replayed(found: Gaps, link: int, numbers: list[int]) -> bool:
    """Whether this connection has to be closed."""
    fatal = found.seen(link, 0, numbers, 0) is not None
    found.closed(link)
    return fatal


def test_several_gaps_that_nothing_fills_lead_to_one_reconnect_each_and_then_the_stream_goes_on() -> None:
    found, numbers = gaps(), [1, 2, 4, 5, 7, 8]
    assert [replayed(found, link, numbers) for link in range(5)] == [True, True, False, False, False]


def test_a_number_that_came_after_all_may_lead_to_a_reconnect_again() -> None:
    found = gaps()
    assert replayed(found, 1, [4, 6])
    assert not replayed(found, 2, [4, 5, 6])
    assert replayed(found, 3, [4, 6])


def test_all_are_counted() -> None:
    slot = Board.create().slot(0)
    Gaps(slot, Mock(), reconnects=False).seen(1, 0, [1, 3, 5], 0)
    assert slot.words[GAPS] == 2
