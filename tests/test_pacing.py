"""When attempts to connect may begin: spacing, floors, and grants that were used late or never; on simulated time."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from supervisor.core.pacing import RETRY_AFTER_MAX_NS, Gate, given_back, granted, interval_ns, refused
from workers.stream.question import valid_ns

SECOND = 1_000_000_000
RATE = 5.0
SPACING = int(SECOND / RATE)


class Host(RuleBasedStateMachine):
    """Children that ask, begin and die; `begun` are the instants at which attempts really began."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000 * SECOND
        self.gate = Gate()
        self.ahead: list[int] = []
        self.begun: list[int] = []

    @rule()
    def ask(self) -> None:
        self.gate, at_ns = granted(self.gate, RATE, self.now)
        assert at_ns >= self.now
        self.ahead.append(at_ns)

    @rule(ms=st.integers(0, 3000))
    def pass_time(self, ms: int) -> None:
        self.now += ms * 1_000_000
        self.begun += [at_ns for at_ns in self.ahead if at_ns <= self.now and at_ns not in self.begun]
        self.ahead = [at_ns for at_ns in self.ahead if at_ns > self.now]

    @rule(number=st.integers(0, 1000))
    def die(self, number: int) -> None:
        if self.ahead:
            at_ns = self.ahead.pop(number % len(self.ahead))
            self.gate = given_back(self.gate, at_ns, self.now)

    @invariant()
    def no_two_attempts_are_closer_than_the_rate_allows(self) -> None:
        times = sorted(self.begun + self.ahead)
        assert all(later - earlier >= SPACING for earlier, later in pairwise(times))


Host.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
test_attempts_keep_their_distance_whatever_dies = Host.TestCase


def test_a_grant_that_its_child_did_not_live_to_use_is_granted_again() -> None:
    gate, first = granted(Gate(), RATE, 0)
    gate, second = granted(gate, RATE, 0)
    gate, third = granted(gate, RATE, 0)
    gate = given_back(gate, second, first)
    gate, again = granted(gate, RATE, first)
    assert again == second
    assert granted(gate, RATE, first)[1] == third + SPACING


def test_a_grant_that_may_have_been_used_is_not_granted_again() -> None:
    gate, first = granted(Gate(), RATE, SECOND)
    assert granted(given_back(gate, first, first), RATE, first)[1] == first + SPACING


def test_a_rate_that_was_raised_does_not_wait_for_what_the_old_one_had_granted() -> None:
    gate = Gate()
    grants = []
    for _ in range(6):
        gate, at_ns = granted(gate, 1 / 60, SECOND)
        grants.append(at_ns)
    for at_ns in grants[1:]:
        gate = given_back(gate, at_ns, 2 * SECOND)
    assert granted(gate, 20.0, 2 * SECOND)[1] == 2 * SECOND


@given(st.one_of(st.integers(1, 500), st.sampled_from([1 / 60, 0.5, 2.5, 33.3])), st.data())
def test_a_server_sees_the_rate_and_one_in_any_second_however_late_each_grant_is_used(
    rate: float, data: st.DataObject
) -> None:
    grants = [number * interval_ns(rate) for number in range(int(4 * rate) + 3)]
    late = st.lists(st.integers(0, valid_ns(rate) - 1), min_size=len(grants), max_size=len(grants))
    times = sorted(at_ns + late_ns for at_ns, late_ns in zip(grants, data.draw(late), strict=True))
    assert max(bisect_left(times, begin + SECOND) - number for number, begin in enumerate(times)) <= ceil(rate) + 1


@given(st.integers(1, 10 * RETRY_AFTER_MAX_NS))
def test_a_floor_is_bounded_and_only_ever_rises(until_ns: int) -> None:
    gate = refused(Gate(), {7: until_ns}, 0)
    assert gate.floors == {7: min(until_ns, RETRY_AFTER_MAX_NS)}
    assert refused(gate, {7: until_ns // 2}, 0) == gate


def test_a_floor_is_one_for_its_host_and_goes_when_it_has_passed() -> None:
    gate = refused(refused(Gate(), {7: 9 * SECOND}, 0), {8: 5 * SECOND}, 0)
    assert gate.floors == {7: 9 * SECOND, 8: 5 * SECOND}
    assert refused(gate, {}, 6 * SECOND).floors == {7: 9 * SECOND}
