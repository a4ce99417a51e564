"""Restarts after crashes: spread out, bounded in number, never given up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.model import SECOND
from supervisor.core.restart import CEILING_NS, CRASHES_MAX, remember, start_at

WINDOW_NS = 300 * SECOND
FRACTIONS = st.floats(0, 1, exclude_max=True)


def crash_at_once(seconds: float, fractions: list[float]) -> list[int]:
    """The starts of a child that dies the moment it starts, until `seconds` have passed."""
    crashes: tuple[int, ...] = ()
    starts, now_ns = [], 0
    for fraction in fractions:
        starts.append(now_ns)
        crashes = remember(crashes, now_ns, WINDOW_NS)
        now_ns = start_at(crashes, WINDOW_NS, fraction)
        if now_ns >= seconds * SECOND:
            break
    return starts


@given(st.lists(FRACTIONS, min_size=60, max_size=60))
def test_a_child_that_dies_at_once_starts_at_most_sixteen_times_in_any_window(fractions: list[float]) -> None:
    starts = crash_at_once(3600, fractions)
    for first in starts:
        assert sum(first <= start < first + WINDOW_NS for start in starts) <= 16


@given(st.lists(FRACTIONS, min_size=1, max_size=100))
def test_a_child_that_crashes_for_ever_is_tried_for_ever(fractions: list[float]) -> None:
    crashes: tuple[int, ...] = ()
    now_ns = 0
    for fraction in fractions:
        crashes = remember(crashes, now_ns, WINDOW_NS)
        next_ns = start_at(crashes, WINDOW_NS, fraction)
        assert now_ns <= next_ns <= now_ns + max(CEILING_NS, WINDOW_NS)
        assert len(crashes) <= CRASHES_MAX
        now_ns = next_ns


def test_the_ceiling_doubles_and_ends() -> None:
    almost_one = 1 - 2**-53
    waits_s = []
    for count in range(1, 12):
        crashes = tuple(range(count))
        waits_s.append(round((start_at(crashes, WINDOW_NS, almost_one) - crashes[-1]) / SECOND))
    assert waits_s == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


def test_a_first_crash_may_restart_at_once() -> None:
    assert start_at((5,), WINDOW_NS, 0.0) == 5


def test_crashes_older_than_the_window_are_forgotten() -> None:
    assert remember((0, 100 * SECOND), 300 * SECOND, WINDOW_NS) == (100 * SECOND, 300 * SECOND)
