"""What every store must do, whatever the engine: each write, its condition and its three outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.changes import history_after
from supervisor.records import BadRow, Lease
from supervisor.stores.interface import Store
from supervisor.stores.statements import Value
from supervisor.writes import Applied, DeleteMember, PutMember, Refused, after_claim
from tests.contract.rows import AT, ME, OTHER, TIMEOUT_S, claim, create, depose, member, plant, release, renew


def read(store: Store, shard: str = "trades/0") -> Lease:
    row = store.read(shard, TIMEOUT_S)
    assert row is not None
    return row


# --- create -----------------------------------------------------------------------------------------------


def test_a_created_row_is_free_and_comes_with_the_answer(store: Store) -> None:
    outcome = store.apply(create("trades/0", epoch=1_764_444_444), TIMEOUT_S)
    row = Lease("trades/0", None, 1_764_444_444, 0, "created", 10_000, since=AT)
    assert outcome == Applied(row)
    assert read(store) == row


def test_creating_a_row_that_exists_is_refused_with_that_row(store: Store, owned: Lease) -> None:
    assert store.apply(create("trades/0", epoch=99, nonce="second"), TIMEOUT_S) == Refused(owned)
    assert read(store) == owned


# --- claim ------------------------------------------------------------------------------------------------


def test_a_claim_of_a_free_row_leaves_what_after_claim_says(store: Store, free: Lease) -> None:
    write = claim(free)
    assert store.apply(write, TIMEOUT_S) == Applied(after_claim(free, write))
    assert read(store) == after_claim(free, write)


def test_a_claim_of_a_foreign_row_exactly_as_observed_is_applied(store: Store, owned: Lease) -> None:
    store.apply(renew(owned, checkpoint="token", quiet_ms=5), TIMEOUT_S)
    observed = read(store)
    write = claim(observed, owner=OTHER)
    assert store.apply(write, TIMEOUT_S) == Applied(after_claim(observed, write))
    assert read(store).checkpoint == "token"
    assert read(store).quiet_ms is None


@pytest.mark.parametrize(
    "stale",
    [
        {"seen_owner": OTHER},
        {"seen_owner": None},
        {"seen_epoch": 7},
        {"seen_epoch": 9},
        {"beat_low": 1, "beat_high": 1},
        {"beat_low": 1, "beat_high": 5},
    ],
    ids=str,
)
def test_a_claim_of_a_row_that_is_not_as_observed_is_refused_with_the_row(
    store: Store, owned: Lease, stale: dict[str, object]
) -> None:
    assert store.apply(claim(owned, owner=OTHER, epoch=20, **stale), TIMEOUT_S) == Refused(owned)
    assert read(store) == owned


def test_a_claim_loses_against_a_renewal_that_landed_after_the_observation(store: Store, owned: Lease) -> None:
    store.apply(renew(owned), TIMEOUT_S)
    outcome = store.apply(claim(owned, owner=OTHER), TIMEOUT_S)
    assert outcome == Refused(read(store))
    assert read(store).owner == ME


def test_a_claim_of_a_free_row_that_was_taken_meanwhile_is_refused(store: Store, free: Lease, owned: Lease) -> None:
    assert store.apply(claim(free, owner=OTHER), TIMEOUT_S) == Refused(owned)


def test_a_claim_of_a_missing_row_is_refused_without_a_row_and_creates_nothing(store: Store, free: Lease) -> None:
    gone = replace(free, shard="trades/404")
    assert store.apply(claim(gone), TIMEOUT_S) == Refused(None)
    assert store.apply(claim(replace(gone, owner=ME)), TIMEOUT_S) == Refused(None)
    assert store.read("trades/404", TIMEOUT_S) is None


def test_a_paused_row_cannot_be_claimed(store: Store, url: str) -> None:
    plant(url, [{"lease": "p", "epoch": 3, "beat": 0, "nonce": "n", "duration_ms": 1000, "paused": True}])
    row = read(store, "p")
    assert row.paused
    assert store.apply(claim(row), TIMEOUT_S) == Refused(row)


def test_a_row_whose_pause_was_lifted_can_be_claimed(store: Store, url: str) -> None:
    plant(url, [{"lease": "p", "epoch": 3, "beat": 0, "nonce": "n", "duration_ms": 1000, "paused": False}])
    assert isinstance(store.apply(claim(read(store, "p")), TIMEOUT_S), Applied)


@pytest.mark.parametrize("keep", [True, False])
def test_a_claim_removes_the_wish_to_move_unless_told_to_keep_it(store: Store, url: str, keep: bool) -> None:
    plant(url, [{"lease": "m", "epoch": 3, "beat": 0, "nonce": "n", "duration_ms": 1000, "move": OTHER}])
    row = read(store, "m")
    write = claim(row, keep_move=keep)
    assert store.apply(write, TIMEOUT_S) == Applied(after_claim(row, write))
    assert read(store, "m").move == (OTHER if keep else None)


def test_a_claim_of_our_own_lease_allows_any_beat_we_may_have_reached(store: Store, owned: Lease) -> None:
    store.apply(renew(owned), TIMEOUT_S)  # we did not see its answer
    write = claim(owned, beat_high=1, checkpoint="newest")
    outcome = store.apply(write, TIMEOUT_S)
    assert isinstance(outcome, Applied)
    assert outcome.row is not None
    assert (outcome.row.epoch, outcome.row.beat, outcome.row.checkpoint) == (9, 0, "newest")


# --- renew ------------------------------------------------------------------------------------------------


def test_a_renewal_sets_what_it_carries_and_nothing_else(store: Store, owned: Lease) -> None:
    write = renew(owned, checkpoint="token", policy="fence", open=1, want=4, quiet_ms=0)
    assert store.apply(write, TIMEOUT_S) == Applied()
    changed = {"beat": 1, "nonce": write.nonce, "open": 1, "want": 4, "quiet_ms": 0, "policy": "fence"}
    assert read(store) == replace(owned, checkpoint="token", renewed_at=write.at, **changed)


def test_a_renewal_without_checkpoint_or_quiet_time_leaves_the_old_ones(store: Store, owned: Lease) -> None:
    store.apply(renew(owned, checkpoint="token", quiet_ms=12), TIMEOUT_S)
    outcome = store.apply(renew(read(store), checkpoint=None, quiet_ms=None), TIMEOUT_S)
    assert outcome == Applied()
    assert (read(store).checkpoint, read(store).quiet_ms, read(store).beat) == ("token", 12, 2)


def test_a_renewal_tells_of_a_trouble_and_of_its_end_and_else_leaves_it(store: Store, owned: Lease) -> None:
    told = []
    for trouble in (None, "sink: no answer", None, 'markup <b> & "quotes" \x1b[2J \N{SNOWMAN}', ""):
        assert store.apply(renew(read(store), trouble=trouble), TIMEOUT_S) == Applied()
        told.append(read(store).trouble)
    assert told == ["", *["sink: no answer"] * 2, 'markup <b> & "quotes" \x1b[2J \N{SNOWMAN}', ""]


def test_a_trouble_goes_with_the_epoch_that_had_it(store: Store, owned: Lease) -> None:
    def troubled() -> Lease:
        assert store.apply(renew(read(store), trouble="sink: no answer"), TIMEOUT_S) == Applied()
        return read(store)

    for write in (claim, release):
        assert isinstance(store.apply(write(troubled()), TIMEOUT_S), Applied)
        assert read(store).trouble == ""
        store.apply(claim(read(store)), TIMEOUT_S)
    assert isinstance(store.apply(depose(troubled()), TIMEOUT_S), Applied)
    assert read(store).trouble == ""


def test_a_claim_and_a_release_can_say_why_a_child_ended(store: Store, owned: Lease) -> None:
    for write in (claim, release, claim):
        assert isinstance(store.apply(write(read(store), trouble="its child exited with 1"), TIMEOUT_S), Applied)
        assert read(store).trouble == "its child exited with 1"


@pytest.mark.parametrize("landed", [0, 1, 2, 3])
def test_a_renewal_is_applied_whichever_of_the_attempts_since_the_last_applied_one_landed(
    store: Store, owned: Lease, landed: int
) -> None:
    """Beats 1 to 3 were attempted and their answers lost; at most one of them landed."""
    if landed:
        store.apply(renew(owned, beat_high=landed - 1, beat=landed), TIMEOUT_S)
    assert store.apply(renew(owned, beat_low=0, beat_high=3, beat=4), TIMEOUT_S) == Applied()
    assert read(store).beat == 4


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 9)])
def test_a_renewal_of_a_beat_outside_the_range_is_refused_with_the_row(
    store: Store, owned: Lease, low: int, high: int
) -> None:
    store.apply(renew(owned, beat_high=1, beat=2), TIMEOUT_S)
    outcome = store.apply(renew(owned, beat_low=low, beat_high=high, beat=high + 1, nonce="copy"), TIMEOUT_S)
    assert outcome == Refused(read(store))
    assert read(store).beat == 2


def test_a_delayed_attempt_that_lands_after_a_newer_one_moves_nothing_back(store: Store, owned: Lease) -> None:
    delayed = renew(owned, checkpoint="older", nonce="first attempt")
    newer = renew(owned, beat_high=1, beat=2, checkpoint="newer", nonce="second attempt")
    assert store.apply(newer, TIMEOUT_S) == Applied()
    outcome = store.apply(delayed, TIMEOUT_S)
    assert isinstance(outcome, Refused)
    assert outcome.row is not None
    assert (outcome.row.nonce, outcome.row.beat, outcome.row.checkpoint) == ("second attempt", 2, "newer")
    assert read(store) == outcome.row


def test_a_renewal_sent_twice_is_refused_by_a_row_that_carries_its_own_nonce(store: Store, owned: Lease) -> None:
    write = renew(owned)
    store.apply(write, TIMEOUT_S)
    outcome = store.apply(write, TIMEOUT_S)
    assert isinstance(outcome, Refused)
    assert outcome.row is not None
    assert (outcome.row.owner, outcome.row.epoch, outcome.row.nonce) == (ME, owned.epoch, write.nonce)


@pytest.mark.parametrize("wrong", [{"owner": OTHER}, {"epoch": 7}, {"epoch": 9}], ids=str)
def test_only_the_owner_of_the_epoch_can_renew(store: Store, owned: Lease, wrong: dict[str, object]) -> None:
    assert store.apply(renew(owned, **wrong), TIMEOUT_S) == Refused(owned)
    assert read(store) == owned


def test_a_free_row_cannot_be_renewed(store: Store, free: Lease) -> None:
    assert store.apply(renew(replace(free, owner=ME)), TIMEOUT_S) == Refused(free)


def test_a_missing_row_cannot_be_renewed_and_is_not_created(store: Store, owned: Lease) -> None:
    assert store.apply(renew(replace(owned, shard="gone")), TIMEOUT_S) == Refused(None)
    assert store.read("gone", TIMEOUT_S) is None


# --- renew in batches -------------------------------------------------------------------------------------


def test_each_renewal_of_a_batch_is_decided_on_its_own_and_in_order(store: Store) -> None:
    store.prove(member(), TIMEOUT_S)
    names = [f"trades/{number}" for number in range(min(store.batch, 25))]
    rows = []
    for name in names:
        created = store.apply(create(name), TIMEOUT_S)
        assert isinstance(created, Applied)
        assert created.row is not None
        claimed = store.apply(claim(created.row), TIMEOUT_S)
        assert isinstance(claimed, Applied)
        assert claimed.row is not None
        rows.append(claimed.row)
    lost, gone = len(rows) // 3, len(rows) // 2
    writes = [renew(row, checkpoint=f"at {row.shard}", trouble=f"sink: {row.shard}") for row in rows]
    if len(rows) > 2:
        writes[lost] = replace(writes[lost], owner=OTHER)
        writes[gone] = replace(writes[gone], shard="gone")
    expected = [Applied() for _ in rows]
    outcomes = store.renew(writes, TIMEOUT_S)
    if len(rows) > 2:
        assert outcomes.pop(gone) == Refused(None)
        assert outcomes.pop(lost) == Refused(rows[lost])
        del rows[gone], rows[lost], expected[:2]
    assert outcomes == expected
    left = [read(store, row.shard) for row in rows]
    assert {row.checkpoint for row in left} == {f"at {row.shard}" for row in rows}
    assert {row.trouble for row in left} == {f"sink: {row.shard}" for row in rows}


def test_a_whole_batch_that_is_refused_comes_back_with_every_row(store: Store) -> None:
    store.prove(member(), TIMEOUT_S)
    rows = []
    for number in range(min(store.batch, 25)):
        outcome = store.apply(create(f"trades/{number}"), TIMEOUT_S)
        assert isinstance(outcome, Applied)
        assert outcome.row is not None
        rows.append(outcome.row)
    outcomes = store.renew([renew(replace(row, owner=ME)) for row in rows], TIMEOUT_S)
    assert outcomes == [Refused(row) for row in rows]


def test_a_row_stands_in_a_batch_at_most_once(store: Store, owned: Lease) -> None:
    store.prove(member(), TIMEOUT_S)
    with pytest.raises(ValueError, match=r"twice|at most 1"):
        store.renew([renew(owned), renew(owned)], TIMEOUT_S)


def test_a_batch_larger_than_the_store_allows_is_not_sent(store: Store, owned: Lease) -> None:
    writes = [renew(replace(owned, shard=f"s/{number}")) for number in range(store.batch + 1)]
    with pytest.raises(ValueError, match="at most"):
        store.renew(writes, TIMEOUT_S)


# --- release ----------------------------------------------------------------------------------------------


def test_a_release_frees_the_row_and_keeps_epoch_checkpoint_and_wish(store: Store, url: str) -> None:
    attributes = {"lease": "r", "owner": ME, "epoch": 5, "beat": 9, "nonce": "n", "duration_ms": 1000}
    people = {"checkpoint": "token", "move": OTHER, "open": 2, "want": 2, "quiet_ms": 7, "history": ("1 aa 2 claim",)}
    plant(url, [attributes | people])
    row = read(store, "r")
    write = release(row)
    assert store.apply(write, TIMEOUT_S) == Applied()
    freed = {"owner": None, "nonce": write.nonce, "open": 0, "quiet_ms": None, "history": write.history}
    assert read(store, "r") == replace(row, renewed_at=write.at, **freed)
    assert read(store, "r").move == OTHER


def test_a_release_can_carry_the_last_checkpoint(store: Store, owned: Lease) -> None:
    store.apply(release(owned, checkpoint="last"), TIMEOUT_S)
    assert read(store).checkpoint == "last"


@pytest.mark.parametrize("wrong", [{"owner": OTHER}, {"epoch": 7}, {"epoch": 9}], ids=str)
def test_only_the_owner_of_the_epoch_can_release(store: Store, owned: Lease, wrong: dict[str, object]) -> None:
    assert store.apply(release(owned, **wrong), TIMEOUT_S) == Refused(owned)
    assert read(store) == owned


def test_a_release_sent_twice_is_refused(store: Store, owned: Lease) -> None:
    store.apply(release(owned), TIMEOUT_S)
    outcome = store.apply(release(owned), TIMEOUT_S)
    assert outcome == Refused(read(store))
    assert read(store).owner is None


def test_a_release_of_a_missing_row_is_refused_without_a_row(store: Store, owned: Lease) -> None:
    assert store.apply(release(replace(owned, shard="gone")), TIMEOUT_S) == Refused(None)


# --- members ----------------------------------------------------------------------------------------------


def test_a_member_row_is_put_and_replaced(store: Store) -> None:
    first, second = member(), member(state="draining", beat=5, nonce="later", shards=(), task="task-1", zone="")
    assert store.apply(PutMember(first), TIMEOUT_S) == Applied()
    assert store.snapshot(TIMEOUT_S, full=True).members == {ME: first}
    assert store.apply(PutMember(second), TIMEOUT_S) == Applied()
    assert store.snapshot(TIMEOUT_S, full=True).members == {ME: second}


@pytest.mark.parametrize("seen", [{"beat": 3}, {"nonce": "old"}], ids=str)
def test_a_member_that_moved_on_is_not_deleted(store: Store, seen: dict[str, object]) -> None:
    store.apply(PutMember(member()), TIMEOUT_S)
    write = replace(DeleteMember(ME, 4, "here"), **seen)  # type: ignore[arg-type]
    assert store.apply(write, TIMEOUT_S) == Refused(None)
    assert ME in store.snapshot(TIMEOUT_S).members


def test_a_member_exactly_as_seen_is_deleted_once(store: Store) -> None:
    store.apply(PutMember(member()), TIMEOUT_S)
    assert store.apply(DeleteMember(ME, 4, "here"), TIMEOUT_S) == Applied()
    assert store.apply(DeleteMember(ME, 4, "here"), TIMEOUT_S) == Refused(None)
    assert not store.snapshot(TIMEOUT_S).members


# --- reading ----------------------------------------------------------------------------------------------


def test_a_missing_row_reads_as_none(store: Store) -> None:
    assert store.read("trades/0", TIMEOUT_S) is None


def test_an_empty_store_is_an_empty_snapshot(store: Store) -> None:
    snapshot = store.snapshot(TIMEOUT_S)
    assert (dict(snapshot.leases), dict(snapshot.members), dict(snapshot.bad)) == ({}, {}, {})


def test_a_full_snapshot_shows_every_row_as_it_is(store: Store, owned: Lease) -> None:
    store.apply(renew(owned, checkpoint="token"), TIMEOUT_S)
    store.apply(create("chat"), TIMEOUT_S)
    store.apply(PutMember(member()), TIMEOUT_S)
    snapshot = store.snapshot(TIMEOUT_S, full=True)
    assert snapshot.leases == {"trades/0": read(store), "chat": read(store, "chat")}
    assert snapshot.members == {ME: member()}


def test_a_snapshot_shows_all_that_decisions_need(store: Store, url: str) -> None:
    attributes = {"owner": ME, "epoch": 5, "beat": 9, "nonce": "n", "duration_ms": 1000, "move": "any", "paused": True}
    plant(url, [{"lease": "s", "policy": "hold", **attributes}])
    store.apply(PutMember(member()), TIMEOUT_S)
    snapshot = store.snapshot(TIMEOUT_S)
    assert snapshot.leases["s"] == Lease("s", ME, 5, 9, "n", 1000, policy="hold", move="any", paused=True)
    assert snapshot.members == {ME: member(since=0, renewed_at=0, poll_ms=0, rejected="")}


@pytest.mark.parametrize("full", [False, True])
def test_a_snapshot_of_more_than_a_megabyte_is_complete(store: Store, url: str, full: bool) -> None:
    row = {"owner": ME, "epoch": 5, "beat": 9, "nonce": "n", "duration_ms": 1000, "checkpoint": "x" * 2048}
    names = [f"trades/{number}" for number in range(700)]
    plant(url, [{"lease": name, **row} for name in names])
    snapshot = store.snapshot(30.0, full)
    assert sorted(snapshot.leases) == sorted(names)
    assert {lease.triple for lease in snapshot.leases.values()} == {(ME, 5, 9)}


BAD_ROWS = [
    {"epoch": 0, "beat": 0, "nonce": "n", "duration_ms": 1000},
    {"epoch": 5, "beat": 0, "nonce": "n", "duration_ms": 999},
    {"epoch": 5, "nonce": "n", "duration_ms": 1000},
    {"epoch": "five", "beat": 0, "nonce": "n", "duration_ms": 1000},
    {"epoch": 5, "beat": 0, "nonce": "n", "duration_ms": 1000, "owner": ""},
    {"epoch": 5, "beat": 0, "nonce": "n", "duration_ms": 1000, "policy": "whatever"},
    {"epoch": 5, "beat": -1, "nonce": "n", "duration_ms": 1000},
    {"epoch": 2**63 - 1, "beat": 0, "nonce": "n", "duration_ms": 1000},
    {"epoch": 5, "beat": 2**63 - 1, "nonce": "n", "duration_ms": 1000},
    {"epoch": 5, "beat": 0, "nonce": "n", "duration_ms": 2**62},
]


def test_rows_that_do_not_parse_are_reported_and_skipped(store: Store, url: str, owned: Lease) -> None:
    rows = [{"lease": f"bad/{number}", **row} for number, row in enumerate(BAD_ROWS)]
    plant(url, [*rows, {"lease": "@ghost", "beat": 1, "nonce": "n", "duration_ms": 1000}])
    snapshot = store.snapshot(TIMEOUT_S)
    assert list(snapshot.leases) == ["trades/0"]
    assert not snapshot.members
    assert sorted(snapshot.bad) == sorted(["@ghost", *(row["lease"] for row in rows)])
    assert "epoch" in snapshot.bad["bad/0"]


@pytest.mark.parametrize("row", BAD_ROWS, ids=str)
def test_a_row_that_does_not_parse_is_neither_read_nor_taken_for_missing(
    store: Store, url: str, row: dict[str, object]
) -> None:
    plant(url, [{"lease": "bad", **row}])
    with pytest.raises(BadRow):
        store.read("bad", TIMEOUT_S)
    outcome = store.apply(renew(Lease("bad", OTHER, 3, 0, "n", 1000)), TIMEOUT_S)
    assert isinstance(outcome, Refused)
    assert outcome.row is None
    assert outcome.bad


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("history", "no list"),
        ("history", "[1]"),
        ("history", ("x" * 200,)),
        ("checkpoint", "x" * 2049),
        ("checkpoint", ("a", "list")),
        ("move", "x" * 513),
        ("move", ("a", "list")),
        ("open", -1),
        ("want", "many"),
        ("quiet_ms", 2**63 - 1),
        ("since", "yesterday"),
        ("renewed_at", -5),
    ],
)
def test_a_row_with_a_flaw_that_no_decision_depends_on_is_read_and_can_be_claimed(
    store: Store, url: str, attribute: str, value: Value
) -> None:
    if attribute in ("checkpoint", "move") and isinstance(value, tuple) and url.startswith("sqlite"):
        value = b"\xff\x00"  # type: ignore[assignment]  # there a list is a text, and good
    plant(
        url,
        [{"lease": "f", "owner": OTHER, "epoch": 5, "beat": 1, "nonce": "n", "duration_ms": 1000, attribute: value}],
    )
    assert store.snapshot(TIMEOUT_S).leases["f"].triple == (OTHER, 5, 1)
    assert not store.snapshot(TIMEOUT_S, full=True).bad
    row = read(store, "f")
    assert row == Lease("f", OTHER, 5, 1, "n", 1000)
    (flaw,) = row.flaws
    assert flaw.startswith(attribute)
    outcome = store.apply(claim(row), TIMEOUT_S)
    assert outcome == Applied(after_claim(row, claim(row)))
    store.apply(renew(read(store, "f"), checkpoint="token"), TIMEOUT_S)
    assert not read(store, "f").flaws


# --- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "x" * 2048, "q\"'?;--%s", "snow ☃ \U0001f600", "line\nbreak\x00nul"], ids=repr)
def test_checkpoints_come_back_as_they_were_written(store: Store, owned: Lease, token: str) -> None:
    assert store.apply(renew(owned, checkpoint=token), TIMEOUT_S) == Applied()
    assert read(store).checkpoint == token


@pytest.mark.parametrize("shard", ["a b", "q\"'?", "ключ/1", "owner", "a%20b/7"])
def test_any_name_of_a_shard_can_be_stored(store: Store, shard: str) -> None:
    outcome = store.apply(create(shard), TIMEOUT_S)
    assert isinstance(outcome, Applied)
    assert outcome.row == store.read(shard, TIMEOUT_S)
    assert list(store.snapshot(TIMEOUT_S).leases) == [shard]


def test_numbers_keep_every_digit(store: Store) -> None:
    epoch = 2**62 - 1
    store.apply(create("big", epoch=epoch), TIMEOUT_S)
    assert read(store, "big").epoch == epoch


def test_history_comes_back_in_order(store: Store, free: Lease) -> None:
    history: tuple[str, ...] = ()
    for number in range(9):
        history = history_after(history, 8 + number, ME, AT, f"reason{number}")
    store.apply(claim(free, history=history), TIMEOUT_S)
    assert read(store).history == history


def test_a_closed_store_can_be_closed_again(store: Store) -> None:
    store.close()
    store.close()
