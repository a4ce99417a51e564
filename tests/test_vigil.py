"""When a link pings, tells a silence or is given up, by what it heard; time is passed in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workers.spec import StreamSpec
from workers.stream.session import NEVER_NS, Dead, Idle, Policy, Probe, Wait, policy_of
from workers.stream.vigil import Vigil

S = 1_000_000_000


@pytest.fixture
def policy() -> Policy:
    spec = StreamSpec("trades", ping_interval_ms=20_000, ping_timeout_ms=10_000, frame_timeout_ms=30_000)
    return policy_of(spec)


def test_any_byte_answers_a_ping_and_the_next_silence_begins_with_it(policy: Policy) -> None:
    vigil = Vigil(replace(policy, idle_timeout_ns=0), 100 * S)
    assert vigil.step(120 * S) == Probe()
    assert vigil.step(120 * S) == Wait(130 * S)
    assert vigil.heard(begun=False, advanced=False, now_ns=125 * S) == 145 * S
    assert vigil.heard(begun=False, advanced=False, now_ns=126 * S) == NEVER_NS, "there is nothing new to look for"
    assert vigil.step(146 * S) == Probe()
    assert isinstance(vigil.step(156 * S), Dead)


def test_a_frame_has_its_time_from_its_begin_and_the_next_one_again(policy: Policy) -> None:
    vigil = Vigil(policy, 100 * S)
    assert vigil.heard(begun=True, advanced=False, now_ns=101 * S) == 131 * S
    for second in range(102, 131):
        assert vigil.heard(begun=True, advanced=False, now_ns=second * S) == NEVER_NS
    step = vigil.step(131 * S)
    assert isinstance(step, Dead)
    assert not step.silent
    assert vigil.heard(begun=True, advanced=True, now_ns=130 * S) == 160 * S


def test_a_silence_of_data_is_told_once_and_ends_with_a_message(policy: Policy) -> None:
    vigil = Vigil(policy, 100 * S)
    vigil.heard(begun=False, advanced=True, now_ns=144 * S)
    assert isinstance(vigil.step(145 * S), Idle)
    assert vigil.idle
    assert isinstance(vigil.step(145 * S), Wait)
    assert vigil.spoke(146 * S)
    assert not vigil.idle
    assert not vigil.spoke(147 * S)
    assert vigil.data_ns == 147 * S


def test_while_nothing_is_read_the_peer_hears_from_us_each_ping_interval(policy: Policy) -> None:
    vigil = Vigil(policy, 100 * S)
    vigil.heard(begun=False, advanced=True, now_ns=110 * S)
    assert vigil.pong_ns() == 130 * S
    vigil.ponged(131 * S)
    assert vigil.pong_ns() == 151 * S
