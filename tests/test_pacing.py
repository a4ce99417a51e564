"""When attempts to connect may begin: spacing, floors, and grants that nobody used; on simulated time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from supervisor.core.pacing import RETRY_AFTER_MAX_NS, Gate, given_back, granted, refused

SECOND = 1_000_000_000
RATE = 5.0
SPACING = int(SECOND / RATE)


class Host(RuleBasedStateMachine):
    """Children that ask, begin, are refused and die; `begun` are the instants at which attempts really began."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000 * SECOND
        self.gate = Gate()
        self.ahead: list[int] = []
        self.begun: list[int] = []
        self.floor = 0

    @rule()
    def ask(self) -> None:
        self.gate, at_ns = granted(self.gate, RATE, self.now)
        assert at_ns >= max(self.now, self.floor)
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

    @rule(ms=st.integers(0, 10_000))
    def be_refused(self, ms: int) -> None:
        self.floor = max(self.floor, self.now + ms * 1_000_000)
        self.gate = refused(self.gate, self.now + ms * 1_000_000, self.now)

    @invariant()
    def no_two_attempts_are_closer_than_the_rate_allows(self) -> None:
        times = sorted(self.begun + self.ahead)
        assert all(later - earlier >= SPACING for earlier, later in pairwise(times))


Host.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
test_attempts_keep_their_distance_whatever_dies_or_is_refused = Host.TestCase


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


@given(st.integers(0, 10 * RETRY_AFTER_MAX_NS))
def test_a_floor_holds_for_all_and_is_bounded(until_ns: int) -> None:
    gate = refused(Gate(), until_ns, 0)
    assert granted(gate, RATE, 0)[1] == min(until_ns, RETRY_AFTER_MAX_NS)
    assert refused(gate, until_ns // 2, 0) == gate


def test_without_a_rate_only_the_floor_counts() -> None:
    gate = replace(Gate(), floor_ns=5, taken=(100,))
    assert granted(gate, 0.0, 1) == (gate, 5)
    assert granted(gate, 0.0, 7) == (gate, 7)
