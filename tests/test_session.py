"""When a connection pings, is given up and is tried again, on a clock that the test sets."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import random

import pytest

from workers.spec import StreamSpec
from workers.stream import session
from workers.stream.session import Dead, Idle, Policy, Probe, Refusal, Retry, Timing, Wait, answered, policy_of, watch

S = 1_000_000_000
NOW_S = 1_750_000_000.0


@pytest.fixture
def policy() -> Policy:
    return policy_of(StreamSpec(stream="trades"))


def timing(
    heard_s: float = 0, pinged_s: float = 0, frame_s: float = 0, data_s: float | None = None, idle: bool = False
) -> Timing:
    """Data came with the last byte, if nothing else is said."""
    data_ns = int((heard_s if data_s is None else data_s) * S)
    return Timing(int(heard_s * S), data_ns, int(pinged_s * S), int(frame_s * S), idle)


# --- silence ------------------------------------------------------------------------------------------------


def test_a_connection_that_speaks_is_left_alone_until_its_next_silence(policy: Policy) -> None:
    assert watch(policy, timing(heard_s=100), 101 * S) == Wait(120 * S)


def test_silence_is_answered_by_a_ping(policy: Policy) -> None:
    assert watch(policy, timing(heard_s=100), 120 * S) == Probe()


def test_a_ping_without_an_answer_means_dead_and_silent(policy: Policy) -> None:
    step = watch(policy, timing(heard_s=100, pinged_s=120), 130 * S)
    assert isinstance(step, Dead)
    assert step.silent


def test_the_answer_may_take_the_ping_timeout(policy: Policy) -> None:
    assert watch(policy, timing(heard_s=100, pinged_s=120), 129 * S) == Wait(130 * S)


def test_any_byte_after_a_ping_is_life(policy: Policy) -> None:
    assert watch(policy, timing(heard_s=121, pinged_s=120), 131 * S) == Wait(141 * S)


def test_an_incomplete_frame_has_a_total_deadline_however_it_trickles(policy: Policy) -> None:
    assert watch(policy, timing(heard_s=129, frame_s=100), 129 * S) == Wait(130 * S)
    step = watch(policy, timing(heard_s=130, frame_s=100), 130 * S)
    assert isinstance(step, Dead)
    assert not step.silent


def test_pongs_without_a_message_are_an_idle_feed_which_is_told_once(policy: Policy) -> None:
    assert watch(policy, timing(heard_s=140, data_s=100), 144 * S) == Wait(145 * S)
    assert isinstance(watch(policy, timing(heard_s=140, data_s=100), 145 * S), Idle)
    assert watch(policy, timing(heard_s=140, data_s=100, idle=True), 145 * S) == Wait(160 * S)


def test_an_idle_timeout_that_is_off_is_never_reached() -> None:
    policy = policy_of(StreamSpec(stream="trades", idle_timeout_ms=0))
    assert watch(policy, timing(heard_s=9999, data_s=1), 9999 * S) == Wait(10_019 * S)


@pytest.mark.parametrize(
    ("answers_pings", "frame_s", "found"),
    [(False, 0, Dead), (True, 0, Idle), (True, 100.0, Dead)],
    ids=["a half-open peer", "a silent stream", "a frame that stops in the middle"],
)
def test_with_defaults_whatever_stops_is_found_within_a_minute(
    policy: Policy, answers_pings: bool, frame_s: float, found: type[Dead | Idle]
) -> None:
    now_s, heard_s, pinged_s = 100.0, 100.0, 0.0
    while not isinstance(step := watch(policy, timing(heard_s, pinged_s, frame_s, 100), int(now_s * S)), Dead | Idle):
        if isinstance(step, Probe):
            pinged_s = 0 if answers_pings else now_s
            heard_s = now_s if answers_pings else heard_s
        else:
            assert step.until_ns > now_s * S
            now_s = step.until_ns / S
    assert isinstance(step, found)
    assert now_s <= 160


# --- replacement --------------------------------------------------------------------------------------------


def test_a_connection_is_replaced_at_its_age_or_up_to_a_tenth_earlier() -> None:
    policy = policy_of(StreamSpec(stream="trades", max_age_ms=3_600_000))
    times = [session.retires_ns(policy, 100 * S, random()) / S for _ in range(1000)]
    assert 3340 <= min(times) < 3400
    assert 3640 < max(times) <= 3700


@pytest.mark.parametrize(
    ("subscribed_s", "data_s", "now_s", "may_go"),
    [
        (0, 100, 200, False),  # its subscriptions still wait for their turn
        (100, 100.3, 100.5, False),
        (100, 100.3, 101, True),
        (100, 0, 104.9, False),
        (100, 99.9, 104.9, False),  # what came before the subscriptions says nothing about them
        (100, 0, 105, True),  # a feed that is quiet
    ],
)
def test_the_old_one_goes_when_the_new_one_delivers_or_had_its_time(
    subscribed_s: float, data_s: float, now_s: float, may_go: bool
) -> None:
    assert session.took_over(int(subscribed_s * S), int(data_s * S), int(now_s * S)) is may_go


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 403, 404, 410])
def test_what_no_retry_can_mend_is_permanent(status: int) -> None:
    refusal = answered(status, None, NOW_S)
    assert refusal.permanent
    assert str(status) in refusal.reason


@pytest.mark.parametrize("status", [200, 408, 425, 429, 500, 502, 503, 504])
def test_what_a_retry_may_mend_is_transient(status: int) -> None:
    assert not answered(status, None, NOW_S).permanent


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_a_floor_in_seconds_and_as_a_date(status: int) -> None:
    date = format_datetime(datetime.fromtimestamp(NOW_S, UTC) + timedelta(seconds=90), usegmt=True)
    assert answered(status, "120", NOW_S).floor_s == 120
    assert answered(status, date, NOW_S).floor_s == 90


@pytest.mark.parametrize("text", ["", "soon", "-5", "1e9x", "Wed, 99 Foo 2026 00:00:00 GMT", "\u0661\u0662"])
def test_a_retry_after_that_is_none_means_nothing(text: str) -> None:
    assert answered(429, text, NOW_S).floor_s == 0


def test_a_date_in_the_past_means_now_and_one_in_ten_years_an_hour() -> None:
    assert answered(429, "Thu, 01 Jan 2015 00:00:00 GMT", NOW_S).floor_s == 0
    assert answered(429, "Thu, 01 Jan 2099 00:00:00 GMT", NOW_S).floor_s == session.RETRY_AFTER_MAX_S


# --- backoff ------------------------------------------------------------------------------------------------


def attempts(policy: Policy, refusal: Refusal, seconds: float, open_s: float = 0) -> list[float]:
    """When attempts begin within so many seconds, if each fails, or opens and ends after `open_s`."""
    now_ns, retry, times = 1, Retry(), []
    while now_ns < seconds * S:
        times.append(now_ns / S)
        retry = session.begun(retry, now_ns)
        opened_ns = now_ns
        now_ns += int(open_s * S)
        if open_s:
            retry = session.ended(policy, opened_ns, retry, now_ns)
        retry, now_ns = session.failed(policy, retry, refusal, now_ns, random())
    return times


def test_at_most_ten_connects_in_any_minute_when_each_is_accepted_and_closed(policy: Policy) -> None:
    for _ in range(100):  # the jitter differs
        times = attempts(policy, Refusal("closed"), 600, open_s=0.01)
        assert all(sum(begin <= time < begin + 60 for time in times) <= 10 for begin in times)


def test_the_wait_is_jittered_over_the_whole_window_up_to_the_cap(policy: Policy) -> None:
    late = Retry(failures=50)
    waits = [session.failed(policy, late, Refusal("x"), 0, random())[1] / S for _ in range(2000)]
    assert min(waits) < 3
    assert 57 < max(waits) <= 60
    first = [session.failed(policy, Retry(), Refusal("x"), 0, random())[1] / S for _ in range(2000)]
    assert max(first) <= 0.5


def test_a_permanent_refusal_is_retried_at_the_cap_and_for_ever(policy: Policy) -> None:
    times = attempts(policy, Refusal("401", permanent=True), 3600)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(60 <= gap <= 66 for gap in gaps)
    assert len(times) > 50


def test_the_floor_of_the_server_is_waited_for(policy: Policy) -> None:
    assert session.failed(policy, Retry(), Refusal("429", floor_s=300), 5 * S, random())[1] == 305 * S


def test_only_a_stable_connection_starts_the_backoff_over(policy: Policy) -> None:
    retry = Retry(failures=7, attempts=(1, 2, 3))
    assert session.ended(policy, 100 * S, retry, 159 * S) == retry
    assert session.ended(policy, 100 * S, retry, 160 * S) == Retry()


def test_the_memory_of_attempts_is_bounded(policy: Policy) -> None:
    retry = Retry()
    for number in range(5000):
        retry = session.begun(retry, number)
        retry, _ = session.failed(policy, retry, Refusal("x"), number, random())
    assert len(retry.attempts) == session.ATTEMPTS_MAX
