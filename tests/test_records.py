"""Rows are untrusted and either parse or say why not; folded names unfold; histories stay short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.changes import history_after
from supervisor.configuration.keys import keys_of
from supervisor.records import (
    CHECKPOINT_MAX_BYTES,
    COUNT_MAX,
    DURATION_MAX_MS,
    HISTORY_ENTRY_MAX_BYTES,
    HISTORY_MAX,
    MOVE_MAX_BYTES,
    NUMBER_MAX,
    BadRow,
    Lease,
    Member,
    lease_from,
    member_from,
    snapshot_from,
)
from supervisor.stores.statements import FOR_DECISIONS
from supervisor.writes import after_claim
from tests.core import ME, OTHER, claim, lease

LEASE = {"lease": "s/0", "owner": OTHER, "epoch": 7, "beat": 3, "nonce": "n", "duration_ms": 10_000}
MEMBER = {
    "lease": f"@{OTHER}",
    "fleet": "f",
    "state": "active",
    "beat": 1,
    "nonce": "n",
    "duration_ms": 10_000,
    "capacity": 5,
    "shards": ["s/0-3"],
}
ATTRIBUTES = sorted({*LEASE, *MEMBER, *Lease.__slots__, *Member.__slots__} - {"shard", "id", "flaws"})
TEXTS = st.text(st.characters(), max_size=8) | st.just("\ud800") | st.just("x" * (CHECKPOINT_MAX_BYTES + 1))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=4)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
CHANGES = st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES, max_size=6)


@given(CHANGES)
def test_a_lease_row_of_any_content_parses_or_is_a_bad_row(changes: dict[str, Any]) -> None:
    try:
        row = lease_from({**LEASE, **changes})
    except BadRow:
        return
    assert row.epoch >= 1
    assert row.beat >= 0
    assert row.duration_ms >= 1000
    assert row.owner is None or row.owner
    assert isinstance(row.paused, bool)
    assert all(isinstance(entry, str) for entry in row.history)


def parsed(item: dict[str, Any]) -> Lease | None:
    try:
        return lease_from(item)
    except BadRow:
        return None


@given(CHANGES)
def test_a_row_that_a_snapshot_for_decisions_shows_can_also_be_read_whole(changes: dict[str, Any]) -> None:
    """Or it would look free for ever and could never be claimed."""
    item = {**LEASE, **changes}
    whole, part = parsed(item), parsed({name: value for name, value in item.items() if name in FOR_DECISIONS})
    assert (whole is None) == (part is None)
    if whole and part:
        assert whole.triple == part.triple
        assert all(len(flaw) < 300 and flaw.isprintable() for flaw in whole.flaws)


@given(CHANGES)
def test_a_member_row_of_any_content_parses_or_is_a_bad_row(changes: dict[str, Any]) -> None:
    try:
        row = member_from({**MEMBER, **changes})
    except BadRow:
        return
    assert row.state in ("active", "draining")
    assert row.capacity >= 0
    assert row.duration_ms >= 1000
    assert row.id


@given(st.lists(CHANGES, max_size=5))
def test_a_snapshot_of_any_rows_is_made_and_names_those_that_do_not_parse(rows: list[dict[str, Any]]) -> None:
    made = snapshot_from([*rows, LEASE | {"lease": "good"}])
    assert set(made.leases) & set(made.bad) == set()
    assert made.leases["good"].owner == OTHER
    assert all(0 < len(reason) < 300 and reason.isprintable() for reason in made.bad.values())


@pytest.mark.parametrize(
    ("attribute", "value", "says"),
    [
        ("duration_ms", 999, "duration_ms is 999, expected a whole number from 1000 to 3600000"),
        ("duration_ms", DURATION_MAX_MS + 1, "duration_ms is 3600001"),
        ("duration_ms", 2**62, "duration_ms is 4611686018427387904"),
        ("epoch", NUMBER_MAX + 1, "epoch is 4611686018427387905"),
        ("beat", NUMBER_MAX + 1, "beat is 4611686018427387905"),
        ("epoch", 0, "epoch is 0"),
        ("epoch", True, "epoch is True"),
        ("beat", -1, "beat is -1"),
        ("beat", 2**63, "beat is 9223372036854775808"),
        ("owner", "", "owner is empty"),
        ("paused", "yes", "paused is 'yes'"),
        ("policy", "pray", "policy is 'pray', expected one of fence, hold"),
        ("owner", b"\xff", r"owner is b'\xff', expected text"),
        ("owner", "\ud800", r"owner is '\ud800', expected text"),
        ("lease", "@member", "'@member' is not the name of a shard"),
    ],
)
def test_a_bad_row_says_which_attribute_and_what_would_be_right(attribute: str, value: object, says: str) -> None:
    with pytest.raises(BadRow) as caught:
        lease_from({**LEASE, attribute: value})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("attribute", "value", "says"),
    [
        ("history", ["a", 1], "history is ['a', 1], expected a list of texts"),
        ("history", "claimed", "history is 'claimed', expected a list of texts"),
        ("history", ["x" * (HISTORY_ENTRY_MAX_BYTES + 1)], "expected entries of at most 128 bytes"),
        ("move", 7, "move is 7, expected a text of at most 512 bytes, it is ignored"),
        ("move", ["any"], "move is ['any'], expected a text"),
        ("move", "\ud800", r"move is '\ud800', expected a text"),
        ("move", "x" * 400_000, "move is 'xxx"),
        ("trouble", 7, "trouble is 7, expected a text of at most 160 bytes, it is ignored"),
        ("trouble", "ä" * 81, "trouble is 'äää"),
        ("trouble", "\ud800", r"trouble is '\ud800', expected a text"),
        ("open", COUNT_MAX + 1, "open is 1000001, expected a whole number from 0 to 1000000"),
        ("want", "one", "want is 'one'"),
        ("quiet_ms", -1, "quiet_ms is -1"),
        ("since", 1.5, "since is 1.5"),
        ("renewed_at", 2**62 + 1, "renewed_at is 4611686018427387905"),
    ],
)
def test_a_flaw_that_no_decision_depends_on_costs_the_attribute_and_not_the_row(
    attribute: str, value: object, says: str
) -> None:
    row = lease_from({**LEASE, attribute: value})
    assert row == lease_from(LEASE)
    assert len(row.flaws) == 1
    assert says in row.flaws[0]
    assert not lease_from(LEASE).flaws


def test_a_wish_of_any_text_up_to_its_bound_is_read() -> None:
    for text in ("", "any", f"{OTHER} balance", "ä" * (MOVE_MAX_BYTES // 2)):
        assert lease_from({**LEASE, "move": text}).move == text
    row = lease_from({**LEASE, "move": "ä" * (MOVE_MAX_BYTES // 2) + "x"})
    assert row.move is None
    assert row.flaws


@pytest.mark.parametrize("token", [7, b"secret", ["secret"], "secret" * 400, "secret\ud800"], ids=type)
def test_a_checkpoint_that_is_none_costs_the_token_and_does_not_show_it(token: object) -> None:
    row = lease_from({**LEASE, "checkpoint": token})
    assert row.checkpoint is None
    assert row.flaws == ("checkpoint is no text of at most 2048 bytes, the shard goes on without it",)
    longest = "ä" * (CHECKPOINT_MAX_BYTES // 2)
    assert lease_from({**LEASE, "checkpoint": longest}).checkpoint == longest


@pytest.mark.parametrize("shards", [["s/0-9999", "t"], ["s/0-999999999"], ["s"] * 10_001], ids=["sum", "range", "list"])
def test_no_member_row_can_stand_for_more_shards_than_a_configuration(shards: list[str]) -> None:
    made = snapshot_from([{**MEMBER, "shards": shards}])
    assert made.members == {}
    assert re.fullmatch(r"shards stands for \d+ shards, expected at most 10000", made.bad[MEMBER["lease"]])
    assert snapshot_from([{**MEMBER, "shards": ["s/0-9998", "t"]}]).bad == {}


def test_no_member_can_promise_what_nobody_may() -> None:
    for attribute, value in (("duration_ms", 2**62), ("capacity", COUNT_MAX + 1), ("beat", 2**63 - 1)):
        made = snapshot_from([{**MEMBER, attribute: value}])
        assert not made.members
        assert f"{attribute} is {value}" in made.bad[f"@{OTHER}"]


def test_a_configured_lease_duration_is_bounded_as_that_of_a_row() -> None:
    parse = keys_of("supervisor")["lease_duration"].parse
    assert parse("1h", Path("/")) == DURATION_MAX_MS
    with pytest.raises(ValueError, match="a duration from 1s to 1h"):
        parse("3600001ms", Path("/"))


def test_a_long_owner_is_one_who_can_be_succeeded() -> None:
    assert lease_from({**LEASE, "owner": "x" * 400_000}).owner == "x" * 400_000


def test_a_key_that_is_no_text_is_named_briefly() -> None:
    made = snapshot_from([LEASE, {**LEASE, "lease": b"s/\xff"}, {**LEASE, "lease": b"x" * 100_000}])
    assert set(made.leases) == {"s/0"}
    assert sorted(len(key) < 100 and key.isprintable() for key in made.bad) == [True, True]
    assert r"b's/\xff'" in made.bad


def test_rows_of_members_and_shards_are_told_apart_by_their_key() -> None:
    made = snapshot_from([LEASE, MEMBER, {"lease": "@x"}, {"lease": None}, {}])
    assert set(made.leases) == {"s/0"}
    assert set(made.members) == {OTHER}
    assert set(made.bad) == {"@x", "None"}


# --- what a row becomes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_a_claim_keeps_the_checkpoint_that_it_does_not_bring_and_the_wish_only_if_told(keep: bool) -> None:
    row = after_claim(lease(checkpoint="old", move="any", open=3, quiet_ms=5), claim(keep_move=keep))
    assert (row.owner, row.epoch, row.beat, row.checkpoint) == (ME, 8, 0, "old")
    assert row.move == ("any" if keep else None)
    assert (row.open, row.quiet_ms) == (0, None)
    assert after_claim(lease(checkpoint="old"), claim(checkpoint="new")).checkpoint == "new"


# --- history ----------------------------------------------------------------------------------------------


def test_restarts_by_one_owner_coalesce_and_erase_nothing() -> None:
    history = history_after((), 5, OTHER, 1_000_000, "claimed")
    for epoch in range(6, 100):
        history = history_after(history, epoch, ME, epoch * 1000, "restart")
    assert history == ("5 bbbbbbbb 1000 claimed", "99 aaaaaaaa 99 restart x94")
    history = history_after(history, 100, OTHER, 100_000, "restart")
    assert history[-1] == "100 bbbbbbbb 100 restart"


@given(st.lists(st.text(max_size=12), max_size=HISTORY_MAX + 3), st.sampled_from(["restart", "claimed"]))
def test_a_history_of_any_content_stays_short_and_ends_with_the_change(garbage: list[str], reason: str) -> None:
    history = history_after(tuple(garbage), 7, ME, 1_000, reason)
    assert len(history) <= max(HISTORY_MAX, len(garbage))
    assert history[-1].startswith(f"7 aaaaaaaa 1 {reason}")
