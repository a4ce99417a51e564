"""What every store must do with wishes: they meet the row that was seen, and change nothing but themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.records import MOVE_MAX_BYTES, Lease
from supervisor.stores.interface import Store
from supervisor.writes import Applied, Forget, Refused, after_claim, after_depose
from tests.contract.rows import ME, OTHER, TIMEOUT_S, claim, depose, pause, plant, release, renew, wish


def read(store: Store, shard: str = "trades/0") -> Lease:
    row = store.read(shard, TIMEOUT_S)
    assert row is not None
    return row


@pytest.fixture(params=["held", "free"])
def row(request: pytest.FixtureRequest, store: Store, owned: Lease) -> Lease:
    """A row that was renewed, and released if it is free, so that it has much that a wish could spoil."""
    assert store.apply(renew(owned, checkpoint="token", quiet_ms=5), TIMEOUT_S) == Applied()
    if request.param == "free":
        assert store.apply(release(read(store)), TIMEOUT_S) == Applied()
    return read(store)


TEXTS = (OTHER, "any", f"{OTHER} balance", "ä" * (MOVE_MAX_BYTES // 2), "q\"'?;--%s")


def stale(row: Lease) -> list[dict[str, object]]:
    """What a write can have seen that is not there."""
    owner = None if row.owner else ME
    return [{"seen_owner": owner}, {"seen_owner": OTHER}, {"seen_epoch": 7}, {"seen_epoch": 9}]


# --- moving -----------------------------------------------------------------------------------------------


def test_a_wish_to_move_sets_itself_and_nothing_else(store: Store, row: Lease) -> None:
    for move in TEXTS:
        assert store.apply(wish(row, move), TIMEOUT_S) == Applied()
        assert read(store) == replace(row, move=move)
        assert store.apply(wish(read(store), None), TIMEOUT_S) == Applied()
        assert read(store) == row


def test_a_wish_for_a_row_that_is_not_as_seen_is_refused_with_the_row(store: Store, row: Lease) -> None:
    for expected in (row, replace(row, move=OTHER)):
        for seen in stale(row):
            for move in ("any", None):
                assert store.apply(wish(expected, move, **seen), TIMEOUT_S) == Refused(expected)
        assert read(store) == expected
        store.apply(wish(row, OTHER), TIMEOUT_S)


def test_a_wish_that_was_not_seen_is_neither_replaced_nor_taken_back(store: Store, row: Lease) -> None:
    for move in (ME, None):
        assert store.apply(wish(row, move, seen_move=OTHER), TIMEOUT_S) == Refused(row)
    store.apply(wish(row, OTHER), TIMEOUT_S)
    wished = replace(row, move=OTHER)
    for seen in (None, "any", OTHER.upper()):
        for move in (ME, None):
            assert store.apply(wish(row, move, seen_move=seen), TIMEOUT_S) == Refused(wished)
    assert read(store) == wished


def test_a_wish_that_was_seen_is_replaced_and_taken_back(store: Store, row: Lease) -> None:
    store.apply(wish(row, OTHER), TIMEOUT_S)
    assert store.apply(wish(read(store), "any"), TIMEOUT_S) == Applied()
    assert read(store) == replace(row, move="any")
    assert store.apply(wish(read(store), None), TIMEOUT_S) == Applied()
    assert read(store) == row


def test_a_wish_sent_twice_is_refused_by_a_row_that_carries_it(store: Store, row: Lease) -> None:
    store.apply(wish(row, OTHER), TIMEOUT_S)
    assert store.apply(wish(row, OTHER), TIMEOUT_S) == Refused(replace(row, move=OTHER))


def test_a_wish_that_does_not_parse_is_not_replaced_but_ends_with_the_next_claim(store: Store, url: str) -> None:
    attributes = {"owner": OTHER, "epoch": 5, "beat": 1, "nonce": "n", "duration_ms": 1000}
    plant(url, [{"lease": "f", "move": "x" * (MOVE_MAX_BYTES + 1), **attributes}])
    flawed = read(store, "f")
    assert flawed.move is None
    outcome = store.apply(wish(flawed, ME), TIMEOUT_S)
    assert outcome == Refused(flawed)
    assert isinstance(outcome, Refused)
    assert outcome.row is not None
    assert outcome.row.flaws == flawed.flaws != ()
    assert isinstance(store.apply(claim(flawed), TIMEOUT_S), Applied)
    assert store.apply(wish(read(store, "f"), OTHER), TIMEOUT_S) == Applied()


def test_a_wish_outlives_releases_and_claims_by_the_owner_and_ends_with_the_next_claim(
    store: Store, owned: Lease
) -> None:
    store.apply(wish(owned, OTHER), TIMEOUT_S)
    again = claim(owned, keep_move=True)
    assert store.apply(again, TIMEOUT_S) == Applied(after_claim(replace(owned, move=OTHER), again))
    assert store.apply(release(read(store)), TIMEOUT_S) == Applied()
    assert (read(store).owner, read(store).move) == (None, OTHER)
    assert isinstance(store.apply(claim(read(store), owner=OTHER), TIMEOUT_S), Applied)
    assert (read(store).owner, read(store).move) == (OTHER, None)


def test_a_wish_for_an_epoch_that_was_succeeded_is_refused(store: Store, owned: Lease) -> None:
    store.apply(claim(owned), TIMEOUT_S)
    for write in (wish(owned, OTHER), pause(owned)):
        assert store.apply(write, TIMEOUT_S) == Refused(read(store))
    assert (read(store).move, read(store).paused) == (None, False)


# --- pausing ----------------------------------------------------------------------------------------------


def test_pausing_and_resuming_sets_itself_and_nothing_else_however_often(store: Store, row: Lease) -> None:
    for paused in (True, True, False, False):
        assert store.apply(pause(row, paused), TIMEOUT_S) == Applied()
        assert read(store) == replace(row, paused=paused)


def test_pausing_or_resuming_a_row_that_is_not_as_seen_is_refused_with_the_row(store: Store, row: Lease) -> None:
    for expected in (row, replace(row, paused=True)):
        for seen in stale(row):
            for paused in (True, False):
                assert store.apply(pause(row, paused, **seen), TIMEOUT_S) == Refused(expected)
        assert read(store) == expected
        store.apply(pause(row), TIMEOUT_S)


def test_a_paused_row_refuses_every_claim_also_of_its_owner_until_it_is_resumed(store: Store, row: Lease) -> None:
    store.apply(pause(row), TIMEOUT_S)
    for claimant in (ME, OTHER):
        write = claim(row, owner=claimant, beat_low=0)
        assert store.apply(write, TIMEOUT_S) == Refused(replace(row, paused=True))
    store.apply(pause(row, False), TIMEOUT_S)
    assert store.apply(write, TIMEOUT_S) == Applied(after_claim(row, write))


def test_renewals_and_the_release_of_a_paused_row_go_on_and_it_stays_paused(store: Store, owned: Lease) -> None:
    store.apply(pause(owned), TIMEOUT_S)
    assert store.apply(renew(owned), TIMEOUT_S) == Applied()
    assert store.apply(renew(read(store)), TIMEOUT_S) == Applied()
    assert store.apply(release(read(store)), TIMEOUT_S) == Applied()
    freed = read(store)
    assert (freed.owner, freed.beat, freed.paused) == (None, 2, True)
    assert store.apply(claim(freed), TIMEOUT_S) == Refused(freed)


# --- deposing ---------------------------------------------------------------------------------------------


def test_a_deposition_removes_the_owner_pauses_the_shard_and_keeps_checkpoint_and_duration(
    store: Store, owned: Lease
) -> None:
    assert store.apply(renew(owned, checkpoint="token", quiet_ms=5), TIMEOUT_S) == Applied()
    assert store.apply(wish(owned, OTHER), TIMEOUT_S) == Applied()
    row = read(store)
    write = depose(row)
    assert store.apply(write, TIMEOUT_S) == Applied()
    deposed = read(store)
    assert deposed == after_depose(row, write)
    assert (deposed.triple, deposed.paused, deposed.forced) == ((None, row.epoch + 1, 0), True, True)
    assert (deposed.move, deposed.open, deposed.quiet_ms) == (None, 0, None)
    assert deposed.since == deposed.renewed_at == write.at, "its epoch began with the deposition"
    assert (deposed.checkpoint, deposed.duration_ms) == ("token", row.duration_ms)
    seen = store.snapshot(TIMEOUT_S).leases["trades/0"]
    assert (seen.owner, seen.forced, seen.paused) == (None, True, True)


def test_the_deposed_owner_is_refused_with_the_row_whatever_it_writes(store: Store, owned: Lease) -> None:
    store.apply(depose(owned), TIMEOUT_S)
    deposed = read(store)
    for write in (renew(owned), release(owned), claim(owned), pause(owned, False), wish(owned, OTHER)):
        assert store.apply(write, TIMEOUT_S) == Refused(deposed)
    assert store.renew([renew(owned)], TIMEOUT_S) == [Refused(deposed)]
    assert read(store) == deposed


def test_a_deposition_of_a_row_that_is_not_as_seen_is_refused_with_the_row(store: Store, row: Lease) -> None:
    for seen in ({"seen_owner": OTHER}, {"seen_owner": row.owner or ME, "seen_epoch": row.epoch - 1}):
        assert store.apply(depose(row, **seen), TIMEOUT_S) == Refused(row)
    assert read(store) == row


def test_a_deposition_sent_twice_is_refused_the_second_time(store: Store, owned: Lease) -> None:
    store.apply(depose(owned), TIMEOUT_S)
    deposed = read(store)
    assert store.apply(depose(owned), TIMEOUT_S) == Refused(deposed)


def test_a_deposed_row_stays_forced_when_it_is_resumed_until_it_is_claimed(store: Store, owned: Lease) -> None:
    store.apply(depose(owned), TIMEOUT_S)
    deposed = read(store)
    assert store.apply(claim(deposed, owner=OTHER), TIMEOUT_S) == Refused(deposed)
    assert store.apply(pause(deposed, False), TIMEOUT_S) == Applied()
    resumed = read(store)
    assert resumed == replace(deposed, paused=False)
    write = claim(resumed, owner=OTHER)
    assert store.apply(write, TIMEOUT_S) == Applied(after_claim(resumed, write))
    assert (read(store).owner, read(store).forced) == (OTHER, False)


# --- forgetting -------------------------------------------------------------------------------------------


def test_a_free_row_as_it_was_seen_is_forgotten_and_no_other(store: Store, row: Lease) -> None:
    for epoch in (row.epoch - 1, row.epoch + 1):
        assert store.apply(Forget(row.shard, epoch), TIMEOUT_S) == Refused(row)
    forget = Forget(row.shard, row.epoch)
    if row.owner:
        assert store.apply(forget, TIMEOUT_S) == Refused(row)
        assert read(store) == row
        return
    assert store.apply(pause(row), TIMEOUT_S) == Applied()
    assert store.apply(forget, TIMEOUT_S) == Applied()
    assert store.read(row.shard, TIMEOUT_S) is None
    assert store.apply(forget, TIMEOUT_S) == Refused(None)


# --- both -------------------------------------------------------------------------------------------------


def test_wishes_do_not_disturb_each_other(store: Store, row: Lease) -> None:
    assert store.apply(pause(row), TIMEOUT_S) == Applied()
    assert store.apply(wish(row, OTHER), TIMEOUT_S) == Applied()
    assert read(store) == replace(row, paused=True, move=OTHER)
    assert store.apply(pause(row, False), TIMEOUT_S) == Applied()
    assert read(store) == replace(row, move=OTHER)


def test_wishes_disturb_no_renewal_and_no_claim_of_what_was_observed_before_them(store: Store, owned: Lease) -> None:
    store.apply(wish(owned, OTHER), TIMEOUT_S)
    store.apply(pause(owned), TIMEOUT_S)
    assert store.renew([renew(owned)], TIMEOUT_S) == [Applied()]
    renewed = read(store)
    assert (renewed.beat, renewed.move, renewed.paused) == (1, OTHER, True)
    store.apply(pause(owned, False), TIMEOUT_S)
    write = claim(replace(renewed, move=None, paused=False), owner=OTHER)
    assert store.apply(write, TIMEOUT_S) == Applied(after_claim(replace(renewed, paused=False), write))


def test_wishes_are_applied_whatever_beat_the_row_has_reached(store: Store, owned: Lease) -> None:
    store.apply(renew(owned), TIMEOUT_S)
    assert store.apply(wish(owned, OTHER), TIMEOUT_S) == Applied()
    assert store.apply(pause(owned), TIMEOUT_S) == Applied()
    assert (read(store).beat, read(store).move, read(store).paused) == (1, OTHER, True)


def test_no_wish_makes_a_row_of_a_missing_one(store: Store, row: Lease) -> None:
    gone = replace(row, shard="gone")
    for write in (wish(gone, OTHER), wish(gone, None), pause(gone), pause(gone, False)):
        assert store.apply(write, TIMEOUT_S) == Refused(None)
    assert store.read("gone", TIMEOUT_S) is None
    assert list(store.snapshot(TIMEOUT_S).leases) == [row.shard]
