"""The first signal asks for a stop; one of those that come later, and not together with it, hurries."""

from __future__ import annotations

import pytest

from supervisor.stops import ONE_REQUEST_S, Stops

LATER_S = ONE_REQUEST_S + 0.01


@pytest.mark.parametrize(
    ("at", "asked"),
    [
        ([0.0], [True]),
        ([0.0, 0.0, 0.4], [True, False, False]),  # of `timeout`, to the process and to its group
        ([0.0, LATER_S], [True, True]),
        ([0.0, 0.4, 0.45, LATER_S, 2.0], [True, False, False, True, True]),  # pressed again and again
    ],
)
def test_what_comes_with_the_first_signal_is_one_request_with_it(at: list[float], asked: list[bool]) -> None:
    stops = Stops()
    assert [stops.signalled(100 + seconds) for seconds in at] == asked


def test_after_a_request_to_drain_the_first_signal_says_the_same_again() -> None:
    stops = Stops()
    stops.drained()
    assert [stops.signalled(100 + seconds) for seconds in (0.0, 0.1, LATER_S)] == [False, False, True]
