"""What a wish says, and which shards stay where an operator put them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.changes import history_after
from supervisor.core.wishes import ANYBODY, BALANCED, MOVED, is_pinned, of_peer, parse

IDS = st.text(min_size=1).filter(lambda text: text != ANYBODY)
STAYING = ("claimed", "reclaimed", "restart")
LEAVING = ("expired", BALANCED, "stopped", "paused", "crashed", "created", "")
ENTRIES = st.one_of(st.text(), st.sampled_from(STAYING + LEAVING).map(lambda reason: f"7 bbbbbbbb 1 {reason}"))
STAYS = st.lists(st.sampled_from([f"8 aaaaaaaa 2 {reason}" for reason in (*STAYING, "restart x12")]))


@given(IDS)
def test_a_peers_wish_says_who_asks_and_that_it_is_a_peers(member: str) -> None:
    move = parse(of_peer(member))
    assert (move.target, move.by_peer, move.reason) == (member, True, BALANCED)


@pytest.mark.parametrize(("text", "target"), [(ANYBODY, None), ("a:1:x", "a:1:x"), ("balance", "balance")])
def test_an_operators_wish_names_its_target_or_anybody(text: str, target: str | None) -> None:
    move = parse(text)
    assert (move.target, move.by_peer, move.reason) == (target, False, MOVED)


@given(st.text())
def test_whatever_stands_in_a_row_is_a_wish(text: str) -> None:
    move = parse(text)
    assert move.target is None or text.startswith(move.target)


@given(st.lists(ENTRIES), STAYS)
def test_a_shard_stays_pinned_through_all_starts_in_one_place(before: list[str], after: list[str]) -> None:
    assert is_pinned([*before, "7 bbbbbbbb 1 moved", *after])


@given(st.lists(ENTRIES), st.sampled_from(LEAVING), STAYS)
def test_any_other_change_of_place_ends_the_pin(before: list[str], reason: str, after: list[str]) -> None:
    assert not is_pinned([*before, "7 bbbbbbbb 1 moved", f"8 cccccccc 2 {reason}", *after])


@given(st.lists(st.sampled_from(["x", "", "7 b 1", "moved", "7 b 1  moved"]), max_size=4))
def test_a_history_that_nobody_wrote_so_pins_nothing(entries: list[str]) -> None:
    assert not is_pinned(entries)


def test_many_restarts_do_not_push_the_pin_out_of_the_history() -> None:
    history = history_after((), 7, "there:2:bbbbbbbb", 0, MOVED)
    history = history_after(history, 8, "here:1:aaaaaaaa", 0, "claimed")
    for epoch in range(9, 60):
        history = history_after(history, epoch, "here:1:aaaaaaaa", 0, "restart")
    assert is_pinned(history)
