"""Messages that wait for their turn to be sent; times are made up."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from workers.stream.paced import NEVER_NS, QUEUE_MAX_BYTES, Frame, Paced

S = 1_000_000_000


def sent(paced: Paced, turn_ns: int, turns: int) -> list[tuple[int, Frame]]:
    """What leaves when a loop looks each `turn_ns`."""
    return [(number * turn_ns, frame) for number in range(1, turns + 1) for frame in paced.take(number * turn_ns)]


def filled(interval_ns: int, count: int) -> Paced:
    paced = Paced(interval_ns)
    for number in range(count):
        paced.put((1, str(number).encode()))
    return paced


@pytest.mark.parametrize("rate", [0.5, 5, 50, 5000])
def test_no_second_sees_more_than_the_rate_and_one_more_and_none_is_lost_or_overtaken(rate: float) -> None:
    paced = filled(int(S / rate), int(rate * 3) + 1)
    left = sent(paced, 1_000_000, 12_000)
    assert [frame[1] for _, frame in left] == [str(number).encode() for number in range(int(rate * 3) + 1)]
    times = [at_ns for at_ns, _ in left]
    most = max(bisect_left(times, begin + S) - number for number, begin in enumerate(times))
    assert most <= rate * 1.01 + 1


def test_a_high_rate_is_reached_though_the_loop_turns_more_rarely() -> None:
    left = sent(filled(int(S / 5000), 6000), 4_000_000, 300)
    assert len(left) >= 5900


def test_time_that_was_not_used_is_not_saved_up() -> None:
    paced = filled(S // 10, 1)
    assert len(paced.take(S)) == 1
    for number in range(5):
        paced.put((1, str(number).encode()))
    assert [len(paced.take(100 * S + turn * S // 100)) for turn in range(11)] == [1, *[0] * 8, 1, 0]


def test_it_says_when_it_has_something_to_send() -> None:
    paced = Paced(S)
    assert paced.due_ns == NEVER_NS
    paced.put((1, b"a"))
    paced.put((1, b"b"))
    assert paced.due_ns <= 5 * S
    assert paced.take(5 * S) == [(1, b"a")]
    assert paced.due_ns == 6 * S
    assert paced.take(6 * S - 1) == []
    assert paced.take(6 * S) == [(1, b"b")]
    assert paced.empty
    assert paced.due_ns == NEVER_NS


def test_it_is_full_beyond_its_bytes_until_some_have_left() -> None:
    paced = Paced(S)
    for _ in range(3):
        assert not paced.full
        paced.put((1, b"x" * (QUEUE_MAX_BYTES // 2)))
    assert paced.full
    paced.take(S)
    assert not paced.full
