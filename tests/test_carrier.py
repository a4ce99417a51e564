"""Carrying parcels: nothing is left, nothing overtakes, the fence is looked at, and waits are what they should be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.far_ends import Enough, Naps, Told, batches, numbers
from workers.chance import chance
from workers.sinks.carrier import UNFIT_TRIES, Carrier
from workers.sinks.envelope import Envelope
from workers.sinks.outcome import (
    FLOOR_MAX_S,
    PAUSE_MAX_S,
    PAUSE_MIN_S,
    REFUSED_PAUSE_S,
    Again,
    Outcome,
    Partly,
    Refused,
    Safe,
    Unfit,
    pause_s,
)
from workers.sinks.parcel import Limits, Parcel, parcels
from workers.websocket.retry_after import retry_after_s

MOST = 1 - 2**-32  # of a chance


class FarEnd:
    """Answers with what `outcomes` say, and then takes everything."""

    def __init__(self, *outcomes: Outcome, judge: Callable[[Parcel], Outcome] | None = None) -> None:
        self._outcomes = list(outcomes)
        self._judge = judge
        self.asked: list[list[int]] = []
        self.taken: list[int] = []
        self.naps = Naps()
        self.report = Told(self.naps)

    def attempt(self, parcel: Parcel) -> Outcome:
        assert numbers(list(parcel.lines)) == list(parcel.seqs)
        self.asked.append(list(parcel.seqs))
        outcome = self._outcomes.pop(0) if self._outcomes else self._judge(parcel) if self._judge else Safe()
        if isinstance(outcome, Safe):
            self.taken += parcel.seqs
        return outcome

    def carry(self, events: int = 8, drops: bool = False) -> FarEnd:
        carrier = Carrier(self.attempt, self.report, "far.example:443", drops, lambda: MOST)
        for parcel in parcels(batches(events), Envelope("trades/7", 12).lines, lambda: Limits(8, 10**6)):
            carrier.carry(parcel)
        return self


def test_what_is_taken_at_once_needs_no_wait_and_each_request_a_look_at_the_fence() -> None:
    far = FarEnd().carry(20)
    assert far.taken == list(range(1, 21))
    assert (far.report.looks, far.report.fines, far.report.retries, far.naps.seconds) == (3, 3, [], [])


def test_a_retry_is_the_same_parcel_again_before_any_later_one_after_growing_waits_and_a_look_at_the_fence() -> None:
    far = FarEnd(*[Again("no answer")] * 10).carry(9)
    assert far.asked == [list(range(1, 9))] * 11 + [[9]]
    assert far.report.retries == ["no answer from far.example:443"] * 10
    assert far.report.looks == 12
    growing = [PAUSE_MIN_S * 2**failure for failure in range(7)]
    assert far.naps.seconds == pytest.approx([*growing, PAUSE_MAX_S, PAUSE_MAX_S, PAUSE_MAX_S])


def test_waits_grow_anew_after_each_success() -> None:
    far = FarEnd(Again("x"), Again("x"), Safe(), Again("x")).carry(16)
    assert far.naps.seconds == pytest.approx([PAUSE_MIN_S, PAUSE_MIN_S * 2, PAUSE_MIN_S])


def test_only_what_is_left_is_sent_again_in_its_order() -> None:
    far = FarEnd(Partly((2, 5, 6), "busy"), Partly((0, 2), "busy")).carry()
    assert far.asked == [list(range(1, 9)), [3, 6, 7], [3, 7]]
    assert far.naps.seconds == pytest.approx([PAUSE_MIN_S, PAUSE_MIN_S])  # there was progress each time
    assert far.report.fines == 3  # which is told, so that it is no stall, and that a stop goes on as long as there is


def test_waits_grow_when_nothing_at_all_is_taken() -> None:
    far = FarEnd(*[Partly(tuple(range(8)), "busy")] * 3).carry()
    assert far.naps.seconds == pytest.approx([PAUSE_MIN_S, PAUSE_MIN_S * 2, PAUSE_MIN_S * 4])


def test_an_event_that_is_refused_is_found_named_and_waits_first_in_line_with_all_before_it_delivered() -> None:
    far = FarEnd(judge=lambda parcel: Safe() if far.naps.seconds or 6 not in parcel.seqs else Unfit("answer 400"))
    far.carry()
    assert far.taken == list(range(1, 9))
    assert far.asked == [list(range(1, 9)), [1, 2, 3, 4], [5, 6, 7, 8], [5, 6], [5], [6], [6], [7, 8]]
    assert far.naps.seconds == pytest.approx([REFUSED_PAUSE_S * 1.1])
    assert far.report.retries[-1].startswith("answer 400 from far.example:443, to event 6 alone (")


def test_an_event_that_is_refused_for_minutes_is_dropped_and_counted_where_events_may_be_dropped() -> None:
    far = FarEnd(judge=lambda parcel: Unfit("answer 400") if 6 in parcel.seqs else Safe()).carry(drops=True)
    assert far.taken == [1, 2, 3, 4, 5, 7, 8]
    assert far.asked[-4:] == [[6], [6], [6], [7, 8]]
    assert far.naps.seconds == pytest.approx([REFUSED_PAUSE_S * 1.1] * UNFIT_TRIES)
    assert far.report.lost == 1


def test_other_failures_before_do_not_shorten_the_time_that_a_refused_event_has() -> None:
    far = FarEnd(*[Again("x")] * 5, judge=lambda parcel: Unfit("answer 400") if 6 in parcel.seqs else Safe())
    far.carry(drops=True)
    assert far.asked[-4:] == [[6], [6], [6], [7, 8]]


def test_a_wait_that_a_stop_cut_short_is_none_of_those_behind_which_a_refused_event_is_dropped() -> None:
    waits = [True, *[False] * 9]
    far = FarEnd(judge=lambda parcel: Unfit("answer 400"))

    def pause(seconds: float) -> bool:
        if not waits:
            raise Enough
        return waits.pop(0)

    far.report.pause = pause
    with pytest.raises(Enough):
        far.carry(drops=True)
    assert far.asked[-10:] == [[1]] * 10
    assert far.report.lost == 0


def test_nothing_is_dropped_for_any_other_reason() -> None:
    refusals: list[Outcome] = [Again("x"), Refused("x"), Partly(tuple(range(8)), "x")]
    far = FarEnd(*refusals * 5).carry(drops=True)
    assert far.taken == list(range(1, 9))
    assert far.report.lost == 0


def test_what_somebody_has_to_mend_is_tried_slowly_and_for_ever() -> None:
    far = FarEnd(*[Refused("answer 403")] * 5).carry()
    assert far.taken == list(range(1, 9))
    assert far.naps.seconds == pytest.approx([REFUSED_PAUSE_S * 1.1] * 5)


def test_what_the_far_end_asks_for_is_a_floor_with_a_bound() -> None:
    assert pause_s(Again("x", floor_s=7.0), 1, MOST) == 7.0
    assert pause_s(Again("x", floor_s=7.0), 20, MOST) == pytest.approx(PAUSE_MAX_S)
    assert pause_s(Again("x", floor_s=10**9), 1, 0.0) == FLOOR_MAX_S


@pytest.mark.parametrize("failures", [1, 5, 1000, 10**6])
def test_jitter_is_full(failures: int) -> None:
    assert pause_s(Again("x"), failures, 0.0) == 0.0
    assert pause_s(Again("x"), failures, MOST) <= PAUSE_MAX_S


def test_chances_are_spread_over_their_range() -> None:
    chances = [chance() for _ in range(200)]
    assert all(0 <= chance < 1 for chance in chances)
    assert min(chances) < 0.2
    assert max(chances) > 0.8


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0.0),
        ("", 0.0),
        ("120", 120.0),
        (" 3 ", 3.0),
        ("-5", 0.0),
        ("soon", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        ("٣", 0.0),
        ("9" * 400, float("inf")),
    ],
)
def test_a_retry_after_is_seconds_or_a_date_or_nothing(text: str | None, seconds: float) -> None:
    assert retry_after_s(text, 60.0) == seconds
