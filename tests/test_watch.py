"""Expiry by observation: what starts, keeps and clears a clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.watch import (
    Watch,
    claimable,
    creatable,
    live,
    long_dead,
    missing_ns,
    next_expiry,
    observe,
    open_since_ns,
)
from supervisor.records import Lease, Member, Snapshot
from tests.core import ME, OTHER, free, lease, member, ns, snapshot

GAP_NS = ns(5) - ns(0)
NEW = Watch(longest_ns=ns(10) - ns(0))


def saw(watch: Watch, seconds: float, *rows: Lease | Member, bad: dict[str, str] | None = None) -> Watch:
    return observe(watch, snapshot(*rows, bad=bad), ME, ns(seconds), GAP_NS, ns(1) - ns(0))


def watched(*seen: tuple[float, Lease | None]) -> Watch:
    watch = NEW
    for seconds, row in seen:
        watch = saw(watch, seconds, *([row] if row else []))
    return watch


# --- leases -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "may"), [(0, False), (9.999, False), (10, True), (1000, True)])
def test_a_lease_may_be_claimed_once_it_was_seen_unchanged_for_its_own_duration(seconds: float, may: bool) -> None:
    assert claimable(watched((0, lease())), lease(), 7, ns(seconds)) is may


@pytest.mark.parametrize("change", [{"beat": 4}, {"epoch": 8}, {"owner": ME}])
def test_any_change_of_owner_epoch_or_beat_starts_the_clock_anew(change: dict[str, object]) -> None:
    row = lease(**change)
    watch = watched((0, lease()), (9, row))
    assert not claimable(watch, row, 8, ns(18.9))
    assert claimable(watch, row, 8, ns(19))


def test_a_row_as_just_read_must_be_the_one_that_was_watched() -> None:
    assert not claimable(watched((0, lease())), lease(beat=4), 7, ns(1000))
    assert not claimable(NEW, lease(), 7, ns(1000))


def test_the_row_promises_the_duration_not_our_configuration() -> None:
    row = lease(duration_ms=60_000)
    assert not claimable(watched((0, row)), row, 7, ns(59))
    assert claimable(watched((0, row)), row, 7, ns(60))


def test_a_duration_that_grew_under_the_same_beat_counts() -> None:
    watch = watched((0, lease()), (5, lease(duration_ms=20_000)))
    assert not claimable(watch, lease(), 7, ns(19))
    assert not claimable(watched((0, lease())), lease(duration_ms=30_000), 7, ns(29))


def test_a_row_seen_missing_loses_its_clock() -> None:
    watch = watched((0, lease()), (1, None), (2, lease()))
    assert not claimable(watch, lease(), 7, ns(11.9))
    assert claimable(watch, lease(), 7, ns(12))


def test_a_row_that_does_not_parse_loses_its_clock_and_is_not_missing() -> None:
    watch = saw(saw(NEW, 0, lease()), 1, bad={"s/0": "epoch is 0"})
    assert missing_ns(watch, "s/0") is None
    assert not claimable(saw(watch, 2, lease()), lease(), 7, ns(11))


def test_a_free_row_may_be_claimed_at_once_unless_it_is_older_than_one_that_we_saw() -> None:
    assert claimable(watched((0, free())), free(), 7, ns(0))
    restored = free(epoch=6)
    watch = watched((0, lease()), (3, restored))
    assert not claimable(watch, restored, 7, ns(12.9))
    assert claimable(watch, restored, 7, ns(13))


def test_a_row_whose_owner_was_deposed_waits_as_if_it_had_one() -> None:
    row = free(epoch=8, beat=0, forced=True)
    watch = watched((0, lease()), (3, row))
    assert not claimable(watch, row, 8, ns(12.9))
    assert claimable(watch, row, 8, ns(13))
    assert not claimable(NEW, row, 8, ns(1000))
    assert not claimable(watch, replace(row, paused=True), 8, ns(1000))


def test_a_free_row_is_open_to_all_since_it_was_seen_and_a_deposed_one_since_it_ran_out() -> None:
    watch = watched((0, free()))
    opened = [open_since_ns(watch.leases["s/0"], row) for row in (free(), free(forced=True), lease())]
    assert opened == [ns(0), ns(10), ns(10)]


@pytest.mark.parametrize("row", [free(paused=True), lease(paused=True)])
def test_a_paused_row_is_never_claimed(row: Lease) -> None:
    assert not claimable(watched((0, row)), row, 7, ns(1000))


@given(st.lists(st.tuples(st.floats(0.01, 4), st.integers(0, 3)), min_size=1, max_size=20))
def test_no_row_is_claimed_within_its_duration_of_its_last_change(steps: list[tuple[float, int]]) -> None:
    """Observers that see only some of the beats never expire a lease too early."""
    watch, seconds, changed_s, beat = NEW, 0.0, 0.0, 0
    for pause_s, beats in steps:
        seconds += pause_s
        if beats:
            beat += beats
            changed_s = seconds
        row = lease(beat=beat)
        watch = saw(watch, seconds, row)
        assert not claimable(watch, row, 7, ns(seconds)) or seconds - changed_s >= 10


# --- missing rows -----------------------------------------------------------------------------------------


def test_a_supervisor_that_never_saw_anybody_creates_rows_at_once() -> None:
    watch = saw(NEW, 0, member(ME))
    assert watch.alone
    assert creatable(watch, "s/0", ns(0), False)


@pytest.mark.parametrize("other", [lease(shard="elsewhere"), member(OTHER)])
def test_whoever_saw_another_member_or_a_lease_waits_until_a_deleted_rows_child_must_be_dead(
    other: Lease | Member,
) -> None:
    watch = saw(NEW, 0, other)
    for second in range(1, 10):
        watch = saw(watch, second)
        assert not creatable(watch, "s/0", ns(second), False)
    assert creatable(saw(watch, 10), "s/0", ns(10), False)
    assert creatable(watch, "s/0", ns(1), True), "nobody was there a moment ago"


def test_the_wait_for_a_missing_row_is_the_longest_duration_ever_seen() -> None:
    watch = saw(saw(NEW, 0, lease(shard="x", duration_ms=30_000)), 1)
    for second in range(2, 31):
        watch = saw(watch, second)
        assert creatable(watch, "s/0", ns(second), False) is (second >= 30)


def test_the_clock_of_a_missing_row_bridges_no_gap_between_snapshots() -> None:
    watch = saw(saw(NEW, 0, member(OTHER)), 6)
    assert not creatable(watch, "s/0", ns(6), False)
    for second in range(7, 16):
        watch = saw(watch, second)
        assert not creatable(watch, "s/0", ns(second), False)
    assert creatable(saw(watch, 16), "s/0", ns(16), False)


def test_a_missing_row_that_came_back_is_not_missing() -> None:
    watch = watched((0, None), (1, lease()))
    assert missing_ns(watch, "s/0") is None
    assert missing_ns(watch, "s/1") == ns(0)


def test_a_row_that_never_was_there_is_missing_for_as_long_as_we_have_looked() -> None:
    """So that a shard which a reload brings need not be waited for: whatever once ran it has run out."""
    watch = saw(NEW, 0, member(OTHER))
    for second in range(1, 31):
        watch = saw(watch, second)
    assert missing_ns(watch, "new/0") == ns(0)
    assert creatable(watch, "new/0", ns(30), False)


def test_a_row_that_vanished_is_missing_since_then_whoever_was_configured_for_it() -> None:
    watch = saw(NEW, 0, lease(shard="old/0"))
    for second in range(1, 30):
        watch = saw(watch, second, lease(shard="old/0"))
    watch = saw(watch, 30)
    assert missing_ns(watch, "old/0") == ns(30)
    for second in range(31, 40):
        watch = saw(watch, second)
        assert not creatable(watch, "old/0", ns(second), False)
    assert creatable(saw(watch, 40), "old/0", ns(40), False)


def test_a_row_that_did_not_parse_and_vanished_is_missing_since_then() -> None:
    watch = saw(saw(saw(NEW, 0, member(OTHER)), 1, bad={"s/0": "epoch is 0"}), 2)
    assert missing_ns(watch, "s/0") == ns(2)


def test_what_vanished_long_ago_is_forgotten() -> None:
    watch = saw(saw(NEW, 0, lease(shard="old/0")), 1)
    for second in range(4, 3700, 3):
        watch = saw(watch, second)
    assert watch.gone == {}
    assert missing_ns(watch, "old/0") == ns(0)


def test_a_bad_row_means_that_we_are_not_alone() -> None:
    watch = saw(NEW, 0, bad={"s/0": "epoch is 0"})
    assert not watch.alone
    assert not creatable(watch, "s/1", ns(0), False), "our own duration is the least that we wait"


# --- members ----------------------------------------------------------------------------------------------


def test_a_member_is_live_while_its_row_moves_within_its_duration() -> None:
    watch = saw(NEW, 0, member())
    assert live(watch, snapshot(member()), ns(9.9)) == [member()]
    assert live(watch, snapshot(member()), ns(10)) == []
    moved = member(beat=1)
    assert live(saw(watch, 20, moved), snapshot(moved), ns(20)) == [moved]


def test_a_member_counts_as_long_dead_after_ten_of_its_durations() -> None:
    seen = snapshot(member())
    watch = saw(NEW, 0, member())
    assert long_dead(watch, seen, ns(99.9)) == []
    assert long_dead(watch, seen, ns(100)) == [member()]


# --- blindness --------------------------------------------------------------------------------------------

BLIND_S = 60


@pytest.mark.parametrize(("seconds", "may"), [(BLIND_S, False), (BLIND_S + 1.999, False), (BLIND_S + 2, True)])
def test_after_a_blindness_nobody_counts_as_dead_for_two_polls(seconds: float, may: bool) -> None:
    """All clocks ran out meanwhile; the living need the chance to renew before everybody claims everybody's shards."""
    watch = saw(saw(NEW, 0, lease(), member()), BLIND_S, lease(), member())
    assert claimable(watch, lease(), 7, ns(seconds)) is may
    assert (live(watch, snapshot(member()), ns(seconds)) == []) is may
    assert (next_expiry(watch, ["s/0"], ns(seconds)) is None) is may, "somebody looks when the grace is over"


def test_the_grace_is_for_those_who_were_not_seen_not_for_those_seen_dead_between_two_looks() -> None:
    watch = saw(saw(saw(NEW, 0, lease()), 5, lease()), 10, lease())
    assert claimable(watch, lease(), 7, ns(10)), "a gap that is no longer than allowed is no blindness"


def test_a_row_that_moved_in_the_dark_starts_its_clock_when_it_is_seen_again() -> None:
    moved = lease(beat=4)
    watch = saw(saw(NEW, 0, lease()), BLIND_S, moved)
    assert not claimable(watch, moved, 7, ns(BLIND_S + 9.9))
    assert claimable(watch, moved, 7, ns(BLIND_S + 10))


def test_after_a_blindness_a_lease_under_hold_gets_its_whole_duration_again() -> None:
    """Its child need not be dead: its owner may have been as blind as we were."""
    row = lease(policy="hold")
    watch = saw(saw(NEW, 0, row), BLIND_S, row)
    assert not claimable(watch, row, 7, ns(BLIND_S + 9.9))
    assert claimable(watch, row, 7, ns(BLIND_S + 10))
    seeing = saw(saw(saw(NEW, 0, row), 5, row), 10, row)
    assert claimable(seeing, row, 7, ns(10)), "who was not blind waits no longer than for any other lease"


def test_the_first_look_of_all_ends_no_blindness() -> None:
    assert not saw(NEW, 1000, lease()).leases["s/0"].spared


def test_nobody_is_spared_twice_so_that_one_who_sees_seldom_still_replaces_the_dead() -> None:
    for policy in ("fence", "hold"):
        row = lease(policy=policy)
        watch = watched((0, row), (BLIND_S, row), (2 * BLIND_S, row))
        assert claimable(watch, row, 7, ns(2 * BLIND_S))


def test_a_gap_shorter_than_the_lease_spares_nobody() -> None:
    watch = watched((0, lease()), (3, lease()), (12.9, lease()))
    assert claimable(watch, lease(), 7, ns(12.9))


# --- the dead of our own house ----------------------------------------------------------------------------

WIDOWED = replace(NEW, dead=frozenset({OTHER}))


def test_what_a_dead_incarnation_owned_may_be_claimed_at_once_but_not_what_an_operator_paused() -> None:
    watch = saw(WIDOWED, 0, lease(), lease(shard="s/1", owner="else:3:c"))
    assert claimable(watch, lease(), 7, ns(0))
    assert not claimable(watch, lease(shard="s/1", owner="else:3:c"), 7, ns(0))
    assert not claimable(watch, lease(paused=True), 7, ns(0))


def test_a_restored_row_of_a_dead_incarnation_waits_like_any_row_below_what_we_saw() -> None:
    old = lease(epoch=6)
    watch = saw(saw(WIDOWED, 0, lease()), 1, old)
    assert not claimable(watch, old, 7, ns(10.9))
    assert claimable(watch, old, 7, ns(11))


def test_a_dead_incarnation_is_no_live_member_and_its_row_is_to_be_deleted() -> None:
    seen = snapshot(member(), member("else:3:c"))
    watch = saw(WIDOWED, 0, *seen.members.values())
    assert live(watch, seen, ns(0)) == [member("else:3:c")]
    assert long_dead(watch, seen, ns(0)) == [member()]


def test_the_member_rows_of_the_dead_are_no_company() -> None:
    assert saw(WIDOWED, 0, member()).alone
    assert not saw(WIDOWED, 0, member(), member("else:3:c")).alone


def test_who_is_dead_stays_dead_in_every_later_watch() -> None:
    watch = saw(saw(WIDOWED, 0, lease()), BLIND_S, lease())
    assert watch.dead == {OTHER}
    assert claimable(watch, lease(), 7, ns(BLIND_S)), "there is no grace for whoever is proven dead"


# --- the next look ----------------------------------------------------------------------------------------


def test_the_next_look_is_due_at_the_earliest_expiry_still_to_come() -> None:
    watch = saw(saw(NEW, 0, lease(), member()), 3, lease(beat=4), member())
    assert next_expiry(watch, ["s/0", "s/1"], ns(3)) == ns(10), "of the member and the missing row"
    assert next_expiry(watch, ["s/0"], ns(10)) == ns(13)
    assert next_expiry(watch, ["s/0"], ns(13)) is None


def test_what_was_observed_is_a_value_that_later_snapshots_do_not_change() -> None:
    first = saw(NEW, 0, lease())
    copy = replace(first, leases=dict(first.leases))
    observe(first, Snapshot({}, {}, {}), ME, ns(1), GAP_NS, 0)
    assert first == copy


def test_a_row_that_does_not_parse_is_known_with_since_when_until_it_does() -> None:
    watch = NEW
    for seconds in (1, 2, 3):
        watch = saw(watch, seconds, bad={"s/0": "no epoch"} | ({"s/1": "no beat"} if seconds > 2 else {}))
    assert watch.bad == {"s/0": ns(1), "s/1": ns(3)}
    watch = saw(watch, 4, free(), bad={"s/1": "no beat"})
    assert watch.bad == {"s/1": ns(3)}
    assert saw(saw(watch, 5, free()), 6, free(), bad={"s/1": "no beat"}).bad == {"s/1": ns(6)}
