"""Folded names of shards, and what a row that anybody may have written can make of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.names import SHARDS_MAX, Names, compact, count, expand, missing, union

NAMES = st.builds(
    lambda stream, index: f"{stream}/{index}" if index else stream,
    st.sampled_from(["trades", "a.b", "x-1"]),
    st.just("") | st.integers(0, 10**10).map(str) | st.sampled_from(["eu", "us", "007", "00", "٣", "1٣"]),
)
NUMBERS = st.integers(0, 30)
TEXTS = st.lists(
    st.builds("{}/{}-{}".format, st.sampled_from("ab"), NUMBERS, NUMBERS)
    | st.builds("{}/{}".format, st.sampled_from("ab"), NUMBERS | st.sampled_from(["eu", "007", "3-1"]))
    | st.sampled_from(["a", "b", "c-1", ""]),
    max_size=6,
)


def unfolded(texts: list[str]) -> set[str]:
    """By the plainest way there is."""
    names = set()
    for text in texts:
        stream, _, span = text.rpartition("/")
        low, dash, high = span.partition("-")
        if stream and dash and int(low) <= int(high):
            names |= {f"{stream}/{number}" for number in range(int(low), int(high) + 1)}
        else:
            names.add(text)
    return names


# --- one set ----------------------------------------------------------------------------------------------


@given(st.lists(NAMES, unique=True))
def test_folded_names_unfold_to_the_same_names(names: list[str]) -> None:
    folded = compact(tuple(names))
    assert set(expand(folded)) == set(names)
    assert len(expand(folded)) == count(folded) == len(names)


@given(TEXTS, st.lists(NAMES | TEXTS.map("".join)))
def test_a_set_has_the_names_that_its_texts_stand_for_each_once_and_no_other(
    texts: list[str], others: list[str]
) -> None:
    expected, names = unfolded(texts), expand(texts)
    assert sorted(names) == sorted(expected)
    assert len(names) == len(expected) <= count(texts)
    assert [
        name for name in (*expected, *others, *texts, "a/07", "a/31", "/1") if (name in names) != (name in expected)
    ] == []


@pytest.mark.parametrize("low", [0, 9_999_995, 99_999_995, 999_999_995])
def test_ranges_of_any_length_of_index_unfold(low: int) -> None:
    names = tuple(f"s/{number}" for number in range(low, low + 10))
    folded = compact(names)
    assert set(expand(folded)) == set(names)
    assert len(folded) <= 7


def test_consecutive_numbers_fold_to_one_text() -> None:
    assert compact(("t/0", "t/1", "t/2", "chat", "t/4")) == ("t/0-2", "chat", "t/4")


def test_a_text_that_is_no_range_stands_for_itself() -> None:
    assert set(expand(("x/5-3", "x-1", "-", "/1-2"))) == {"x/5-3", "x-1", "-", "/1-2"}


def test_a_billion_names_cost_nothing_unless_somebody_makes_them() -> None:
    hostile = tuple(f"x{number}/0-999999999" for number in range(1000))
    names = expand(hostile)
    assert len(names) == count(hostile) == 10**12
    assert "x999/123456789" in names
    assert "x999/1234567890" not in names


# --- those without a row ----------------------------------------------------------------------------------


@given(st.lists(TEXTS, max_size=4), st.sets(NUMBERS.map("a/{}".format)))
def test_whatever_is_named_and_has_no_row_is_missing_where_nobody_names_too_many(
    lists: list[list[str]], rows: set[str]
) -> None:
    without, left_out = missing(map(expand, lists), rows)
    assert without == set().union(*map(unfolded, lists)) - rows
    assert left_out == frozenset()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3000), st.integers(1, SHARDS_MAX)), max_size=12), st.data())
def test_what_is_missing_is_bounded_and_left_out_is_only_what_does_not_fit(
    drawn: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    sets = [expand((f"s{stream}/{low}-{low + size - 1}",)) for stream, low, size in drawn]
    rows = {f"s0/{number}" for number in range(data.draw(st.sampled_from([0, 10, SHARDS_MAX])))}
    without, left_out = missing(sets, rows)
    kept = [names for names in sets if names not in left_out]
    assert len(without) <= SHARDS_MAX
    assert without == set(union(kept)) - rows
    if left_out:
        smallest = min(left_out, key=lambda names: (len(names), names.folded))
        assert all(len(names) <= len(smallest) for names in kept)
        assert len(set(union([*kept, smallest])) - rows) > SHARDS_MAX


def test_sets_that_name_many_cannot_push_out_one_that_names_few() -> None:
    honest = expand(("s/0-3",))
    hostile = [expand((f"a{number}/0-{SHARDS_MAX - 1}",)) for number in range(100)]
    without, left_out = missing([*hostile, honest], ())
    assert without == {"s/0", "s/1", "s/2", "s/3"}
    assert left_out == set(hostile)


def test_names_that_have_a_row_do_not_count() -> None:
    rows = {f"s/{number}" for number in range(SHARDS_MAX)}
    named = [expand((f"s/0-{SHARDS_MAX - 1}",)), expand((f"t/0-{SHARDS_MAX - 1}",))]
    without, left_out = missing(named, rows)
    assert (len(without), left_out) == (SHARDS_MAX, frozenset())
    assert missing(named[:1], rows) == (set(), frozenset[Names]())
