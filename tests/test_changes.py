"""The history of a shard, from entries that anybody may have written."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.changes import Change, change_of, changes_of, full_ids, history_after, words

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
        (f"1 x {AT} restart", "started its child again after it had ended unasked"),
        (f"1 x {AT} restart x4", "started its child again after it had ended unasked, 4 times in a row"),
        (f"1 x {AT} crashed x4", "gave it up, its child had ended 4 times"),
        (f"1 x {AT} unheard", "unheard"),
    ],
)
def test_a_reason_is_told_in_words(entry: str, text: str) -> None:
    assert words(change_of(entry)) == text


# --- what a loop leaves of a history ----------------------------------------------------------------------

A, B = "host-a:1:aa", "host-b:2:bb"
BEFORE = (f"3 cc {AT} claimed", f"5 dd {AT} expired", f"6 dd {AT} moved")


def told(history: tuple[str, ...]) -> list[tuple[str, str, int]]:
    return [(change.owner, change.reason, change.times) for change in map(change_of, history)]


def test_a_crash_loop_between_two_hosts_keeps_what_was_before_and_counts_all_of_it() -> None:
    history, epoch, dice, ends = BEFORE, 6, random.Random(7), Counter[str]()

    def after(owner: str, reason: str) -> None:
        nonlocal history, epoch
        epoch += reason != "crashed"
        history = history_after(history, epoch, owner, AT * 1000, reason)
        assert history[:3] == BEFORE
        assert len(history) <= len(BEFORE) + 4

    while ends.total() < 1000:
        owner = A if ends[A] <= ends[B] else B
        after(owner, "claimed")
        for _ in range(dice.randrange(6)):
            after(owner, "restart")
            ends[owner] += 1
        after(owner, "crashed")
        ends[owner] += 1
    assert sorted(told(history)[3:]) == [("aa", "crashed", ends[A]), ("bb", "crashed", ends[B])]
    after(A, "claimed")
    after(A, "restart")
    assert told(history)[5:] == [("aa", "claimed", 1), ("aa", "restart", 1)]


def test_a_surrender_after_crashes_keeps_how_its_owner_got_the_shard_from_another() -> None:
    history = history_after((f"8 aa {AT} expired", f"9 aa {AT} restart x3"), 9, A, AT * 1000, "crashed")
    assert told(history) == [("aa", "expired", 1), ("aa", "crashed", 4)]


def test_only_surrenders_that_follow_each_other_are_one() -> None:
    history = (f"8 aa {AT} crashed", f"9 bb {AT} stopped")
    history = history_after(history_after(history, 10, A, AT * 1000, "claimed"), 10, A, AT * 1000, "crashed")
    assert told(history) == [("aa", "crashed", 1), ("bb", "stopped", 1), ("aa", "crashed", 1)]


def test_a_supervisor_that_starts_again_and_again_takes_one_entry() -> None:
    history = BEFORE
    for number in range(50):
        history = history_after(history, 7 + number, f"host-a:{number}:{number:x}", AT * 1000, "reclaimed")
    assert history == (*BEFORE, f"56 31 {AT} reclaimed x50")


def test_nothing_of_an_entry_that_does_not_parse_is_taken_for_a_part_of_a_loop() -> None:
    for last in (f"8 aa {AT} restart x", f"8 aa {AT} restart x-2", "aa restart", f"8  aa {AT} crashed"):
        for reason in ("restart", "crashed", "reclaimed"):
            assert history_after((last,), 9, A, AT * 1000, reason) == (last, f"9 aa {AT} {reason}")
