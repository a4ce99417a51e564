"""The history of a shard, from entries that anybody may have written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.changes import Change, change_of, changes_of, full_ids, words
from supervisor.records import history_after

AT = 1_764_444_444


def test_what_is_written_is_what_is_read() -> None:
    (entry,) = history_after((), 12, "host:1:ab", AT * 1000 + 999, "claimed")
    assert change_of(entry) == Change(12, "ab", AT, "claimed", 1)
    for _ in range(3):
        entry = history_after((entry,), 13, "host:1:ab", AT * 1000, "restart")[-1]
    assert change_of(entry) == Change(13, "ab", AT, "restart", 3)


@pytest.mark.parametrize(
    "entry",
    [
        *("", " ", "12", "12 ab", "12 ab 5", "x ab 5 claimed", "-1 ab 5 claimed", "12 ab x claimed", "12  5 claimed"),
        *("12 ab 5 claimed x", "12 ab 5 claimed x-1", "12 ab 5 claimed x2 y", "12 ab 5 claimed\n", "١٢ ab 5 claimed"),
        *("9" * 20 + " ab 5 claimed", "12 ab " + "9" * 12 + " claimed", "12 ab 5 claimed x" + "9" * 10, "\x1b[2J"),
    ],
)
def test_an_entry_that_does_not_parse_is_kept_as_its_text(entry: str) -> None:
    assert change_of(entry) == Change(None, "", None, entry, 1)
    assert words(change_of(entry)) == entry


@given(st.text(max_size=60))
def test_no_text_of_an_entry_is_lost_or_raises(entry: str) -> None:
    change = change_of(entry)
    assert change.reason in entry
    assert (change.epoch is None) == (change.at is None)
    assert isinstance(words(change), str)


def test_owners_are_completed_where_exactly_one_id_has_their_random_part() -> None:
    full = full_ids(["a:1:x", "b:2:y", "c:3:y", "a:1:x"])
    history = (f"1 x {AT} claimed", f"2 y {AT} expired", f"3 z {AT} expired")
    assert [change.owner for change in changes_of(history, full)] == ["a:1:x", "y", "z"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (f"1 x {AT} expired", "took it over, its owner had not renewed for the whole lease"),
        (f"1 x {AT} restart", "started its child again"),
        (f"1 x {AT} restart x4", "started its child again, 4 times in a row"),
        (f"1 x {AT} crashed x4", "gave it up, its child had ended 4 times"),
        (f"1 x {AT} unheard", "unheard"),
    ],
)
def test_a_reason_is_told_in_words(entry: str, text: str) -> None:
    assert words(change_of(entry)) == text
