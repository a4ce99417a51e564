"""Who lives, as a command can tell that looks a few times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.operating.pulse import Pulse, age_ms, felt, life

T_MS = 10_000
LOOKS_S = st.lists(st.floats(0.05, 4), min_size=1, max_size=40)
WRONG_MS = st.integers(-(10**9), 10**9)


def looks(gaps_s: list[float], every_s: float, dies_s: float = 1e9) -> list[tuple[float, Pulse, int]]:
    """The times of looks at somebody who renews so often until it dies, what was felt by then, and the right age."""
    found, pulse, now_s = [], None, 0.0
    for gap_s in gaps_s:
        now_s += gap_s
        beat = int(min(now_s, dies_s) / every_s)
        pulse = felt(pulse, (beat,), now_s)
        found.append((now_s, pulse, int((now_s - beat * every_s) * 1000)))
    return found


@given(LOOKS_S, st.floats(0.05, 5), WRONG_MS)
def test_who_renews_every_half_lease_is_never_called_silent(gaps_s: list[float], every_s: float, wrong: int) -> None:
    for _, pulse, right_ms in looks(gaps_s, every_s):
        assert life(pulse, right_ms + wrong, T_MS) != "silent"


@given(LOOKS_S, st.floats(0, 20), WRONG_MS)
def test_who_died_is_called_silent_within_a_lease_of_watching(gaps_s: list[float], dies_s: float, wrong: int) -> None:
    """Counted from the first look after its last renewal."""
    for now_s, pulse, right_ms in looks(gaps_s, 3.3, dies_s):
        if now_s > dies_s and now_s - pulse.since_s >= T_MS / 1000:
            assert life(pulse, right_ms + wrong, T_MS) == "silent"
        assert age_ms(pulse, right_ms) <= max(right_ms, 0)


@given(LOOKS_S, st.floats(0, 20))
def test_with_right_clocks_who_died_long_ago_is_called_silent_within_half_a_lease(
    gaps_s: list[float], dies_s: float
) -> None:
    for now_s, pulse, right_ms in looks(gaps_s, 3.3, dies_s):
        if right_ms > T_MS and not pulse.moved and now_s - pulse.since_s >= T_MS / 2000:
            assert life(pulse, right_ms, T_MS) == "silent"


@pytest.mark.parametrize(
    ("pulse", "age", "told"),
    [
        (Pulse((1,), 0, 0), T_MS, "young"),
        (Pulse((1,), 0, 0), T_MS + 1, "old"),
        (Pulse((1,), 0, 4.999), T_MS + 1, "old"),
        (Pulse((1,), 0, 5), T_MS + 1, "silent"),
        (Pulse((1,), 0, 9.999), 0, "young"),
        (Pulse((1,), 0, 10), 0, "silent"),
        (Pulse((1,), 0, 9.999, moved=True), 10**9, "moves"),
        (Pulse((1,), 0, 10, moved=True), 0, "silent"),
    ],
)
def test_what_was_watched_counts_more_than_wall_clocks(pulse: Pulse, age: int, told: str) -> None:
    assert life(pulse, age, T_MS) == told
