"""Parcels: every event once, in order, within the limits, and never changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.far_ends import batch, batches, numbers
from workers.sinks.envelope import Batch, Envelope
from workers.sinks.parcel import Limits, Parcel, parcels

LINES = Envelope("trades/7", 12).lines
LINE_BYTES = len(LINES(batch("x")))


def formed(given_: list[Batch], limits: Limits) -> list[Parcel]:
    return list(parcels(given_, LINES, lambda: limits))


@given(
    sizes=st.lists(st.integers(0, 400), max_size=40),
    each=st.integers(1, 9),
    events=st.integers(1, 12),
    size=st.integers(1, 2000),
    extra=st.integers(0, 50),
)
def test_every_event_is_in_one_parcel_in_order_within_the_limits(
    sizes: list[int], each: int, events: int, size: int, extra: int
) -> None:
    texts = ["x" * length for length in sizes]
    given_ = [batch(*texts[start : start + each], first_seq=start + 1) for start in range(0, len(texts), each)]
    made = formed(given_, Limits(events, size, extra))
    lines = [line for parcel in made for line in parcel.lines]
    assert b"".join(lines) == b"".join(map(LINES, given_))
    assert [seq for parcel in made for seq in parcel.seqs] == numbers(lines) == list(range(1, len(texts) + 1))
    for parcel in made:
        assert 1 <= len(parcel) <= events
        assert len(parcel) == 1 or parcel.size_bytes + extra * len(parcel) <= size


def test_parcels_are_as_full_as_the_limits_allow() -> None:
    assert [len(parcel) for parcel in formed(batches(25), Limits(10, 10**6))] == [10, 10, 5]
    assert [len(parcel) for parcel in formed([batch("x", "x", "x")], Limits(10, 2 * LINE_BYTES))] == [2, 1]


def test_numbers_that_do_not_follow_are_not_in_one_parcel() -> None:
    made = formed([batch("a", "b"), batch("c", first_seq=9)], Limits(10, 10**6))
    assert [parcel.span for parcel in made] == ["1-2", "9"]


def test_limits_that_the_far_end_teaches_hold_for_the_next_parcel() -> None:
    limits = Limits(10, 10**6)
    coming = parcels(batches(30), LINES, lambda: limits)
    assert len(next(coming)) == 10
    limits = Limits(3, 10**6)
    assert [len(parcel) for parcel in coming] == [3] * 6 + [2]


def test_no_line_is_made_before_the_parcel_before_was_delivered() -> None:
    made: list[int] = []

    def lines(given_: Batch) -> bytes:
        made.append(given_.first_seq)
        return LINES(given_)

    coming = parcels(batches(70), lines, lambda: Limits(7, 10**6))
    next(coming)
    assert made == [1, 8]


def test_halves_and_parts_keep_order_and_numbers() -> None:
    (parcel,) = formed([batch("a", "b", "c", "d", "e", first_seq=5)], Limits(10, 10**6))
    first, second = parcel.halves()
    assert [first.span, second.span] == ["5-6", "7-9"]
    assert [*first.lines, *second.lines] == list(parcel.lines)
    rest = parcel.only((1, 3))
    assert list(rest.seqs) == numbers(list(rest.lines)) == [6, 8]
