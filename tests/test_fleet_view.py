"""What one snapshot shows of the fleet: loads, shares, reservations, and who takes what looks for an owner."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.fleet import RESERVED_POLLS, Fleet, fleet_of, target_of
from supervisor.core.phases import Claiming, Dying, Idle, Phase, Releasing, Vacant, Wanted
from supervisor.core.state import State
from supervisor.core.watch import live
from supervisor.core.wishes import of_peer
from supervisor.records import Lease, Member
from tests.core import ME, OTHER, claim, free, lease, member, mine, ns, saw, shard, snapshot, state, tenure, turn
from tests.sim.parts import rules

THIRD = "else:3:cccccccc"
ALL = ("s/0-9",)
TEN = rules(10)
POLL_NS = ns(1) - ns(0)


def seen(known: State, *rows: Lease | Member, seconds: float = 0) -> Fleet:
    shown = snapshot(*rows)
    known = saw(known, seconds, shown)
    now = replace(turn(seconds), me=known.me)
    return fleet_of(known, now, shown, live(known.watch, shown, now.ns))


def row(index: int, owner: str | None = OTHER, **changes: object) -> Lease:
    return lease(shard=f"s/{index}", owner=owner, **changes)


# --- who counts -------------------------------------------------------------------------------------------


def test_we_count_by_our_own_rules_whatever_our_row_says_or_whether_it_is_there() -> None:
    for rows in ([], [member(ME, capacity=1, shards=())]):
        fleet = seen(state(), *rows)
        assert (fleet.peers[ME].capacity, fleet.peers[ME].shards) == (1000, {"s/0", "s/1"})


def test_who_drains_or_belongs_to_another_fleet_takes_nothing() -> None:
    fleet = seen(state(), member(), member("d:1:d", state="draining"), member("f:1:f", fleet="other"))
    assert fleet.peers.keys() == {ME, OTHER}


def test_retired_and_paused_shards_count_nowhere() -> None:
    rows = [row(0), row(1), row(2, None, paused=True), row(3, paused=True), lease(shard="gone/0")]
    fleet = seen(state(rules=TEN), member(shards=ALL), *rows)
    assert [each.shard for each in fleet.rows] == ["s/0", "s/1"]
    assert (fleet.loads, fleet.share, fleet.free) == ({OTHER: 2, ME: 0}, 1, frozenset())


def test_a_shard_that_only_a_peer_is_configured_for_counts_too() -> None:
    fleet = seen(state(), member(shards=("far",)), lease(shard="far", owner=None))
    assert fleet.taken == {"far": OTHER}


@pytest.mark.parametrize(
    ("phase", "load"),
    [
        (Idle(), 0),
        (Wanted(ns(5), ns(1)), 0),
        (Claiming(claim(), ns(0), None), 1),
        (Vacant(tenure(), ns(9)), 1),
        (Releasing(tenure(), "stopped", ns(9)), 0),
        (Dying(8, ns(0), "lost"), 0),
    ],
)
def test_our_load_is_what_we_have_or_are_about_to_have_whatever_the_rows_say(phase: Phase, load: int) -> None:
    assert seen(state(shard(phase)), row(0), row(1)).loads[ME] == load
    assert seen(state(shard(phase), mine("s/1")), row(0), row(1, ME, epoch=8)).loads[ME] == load + 1


@pytest.mark.parametrize("phase", [Claiming(claim(), ns(0), None), Releasing(tenure(), "stopped", ns(9))])
def test_what_we_get_or_give_up_by_now_is_not_given_out_again(phase: Phase) -> None:
    fleet = seen(state(shard(phase)), member(), row(0, None), row(1, None))
    assert (fleet.free, fleet.taken.keys(), fleet.homeless) == ({"s/1"}, {"s/1"}, 0)


def test_what_a_draining_member_owns_is_looked_after_before_it_is_free() -> None:
    fleet = seen(state(), member(state="draining"), row(0), row(1))
    assert (fleet.leaving, fleet.free, fleet.loads) == ({"s/0", "s/1"}, frozenset(), {ME: 0})
    assert fleet.taken == {"s/0": ME, "s/1": ME}
    assert fleet.homeless == 0


def test_what_has_run_out_is_free_and_no_load_of_its_owner() -> None:
    known = saw(saw(state(), 0, snapshot(row(0), row(1, beat=5))), 5, snapshot(row(0), row(1, beat=6)))
    fleet = seen(known, member(), row(0), row(1, beat=6), seconds=10)
    assert (fleet.free, fleet.loads[OTHER]) == ({"s/0"}, 1)


def test_the_shards_of_an_owner_that_is_not_seen_live_are_given_to_nobody_before_they_run_out() -> None:
    fleet = seen(state(), member(), row(0), row(1, THIRD))
    assert (fleet.taken, fleet.free, fleet.leaving, fleet.homeless) == ({}, frozenset(), frozenset(), 0)


def test_free_shards_that_everybody_is_too_full_for_are_homeless() -> None:
    small = replace(TEN, capacity=1)
    fleet = seen(state(mine("s/0"), rules=small), member(capacity=2, shards=ALL), row(0, ME), row(1), row(2, None))
    assert (fleet.homeless, fleet.taken) == (0, {"s/2": OTHER})
    fleet = seen(state(mine("s/0"), rules=small), member(capacity=1, shards=ALL), row(0, ME), row(1), row(2, None))
    assert fleet.homeless == 1


# --- reservations -----------------------------------------------------------------------------------------

ABLE = frozenset({ME, OTHER})


@pytest.mark.parametrize(
    ("found", "target"),
    [
        (free(), None),
        (free(move=OTHER), OTHER),
        (free(move=of_peer(ME)), ME),
        (free(move="any"), None),
        (free(move=THIRD), None),
        (free(move=""), None),
        (lease(move=ME), None),
    ],
)
def test_a_free_row_is_reserved_for_the_live_target_of_its_wish(found: Lease, target: str | None) -> None:
    known = saw(state(), 0, snapshot(found))
    assert target_of(known.watch, found, ABLE, ME, ns(0.1), POLL_NS) == target


def test_a_reservation_ends_after_two_polls() -> None:
    found = free(move=OTHER)
    known = saw(saw(state(), 0, snapshot(found)), 1, snapshot(found))
    assert target_of(known.watch, found, ABLE, ME, ns(RESERVED_POLLS - 0.001), POLL_NS) == OTHER
    assert target_of(known.watch, found, ABLE, ME, ns(RESERVED_POLLS), POLL_NS) is None


def test_a_row_that_was_released_since_the_last_snapshot_is_reserved_from_its_first_sight() -> None:
    known = saw(state(), 0, snapshot(lease()))
    for now_s in (0, 9):
        assert target_of(known.watch, free(move=OTHER), ABLE, ME, ns(now_s), POLL_NS) == OTHER
    assert target_of(state().watch, free(move=OTHER), ABLE, ME, ns(0), POLL_NS) == OTHER


def test_what_a_dead_incarnation_of_ours_owned_is_reserved_for_us() -> None:
    known = state(rules=TEN)
    known = replace(known, watch=replace(known.watch, dead=frozenset({THIRD})))
    fleet = seen(known, member(shards=ALL), row(0, THIRD), row(1, THIRD), row(2, OTHER))
    assert fleet.reserved == {"s/0": ME, "s/1": ME}
    assert (fleet.taken, fleet.loads) == ({}, {OTHER: 1, ME: 2})


def test_what_is_reserved_counts_as_its_targets_and_is_given_to_nobody_else() -> None:
    fleet = seen(state(), member(), row(0, None, move=of_peer(OTHER)), row(1, None))
    assert fleet.reserved == {"s/0": OTHER}
    assert fleet.taken == {"s/1": ME}, "the other one has its part by now"
    assert fleet.loads == {OTHER: 1, ME: 0}
    assert fleet.homeless == 0


# --- what holds for every fleet ---------------------------------------------------------------------------

MEMBERS = [f"h{number}:1:{number}" for number in range(4)]
MOVES = st.sampled_from([None, None, "any", *MEMBERS, of_peer(MEMBERS[0])])


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Member], list[Lease]]:
    members = [
        member(
            name,
            capacity=draw(st.integers(1, 8)),
            shards=tuple(draw(st.lists(st.sampled_from([f"s/{index}" for index in range(10)]), unique=True))),
            state=draw(st.sampled_from(["active", "active", "active", "draining"])),
        )
        for name in draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True))
    ]
    owners = st.sampled_from([None, None, *MEMBERS])
    rows = [
        row(index, draw(owners), epoch=8, move=draw(MOVES), paused=draw(st.sampled_from([False, False, True])))
        for index in range(draw(st.integers(0, 10)))
    ]
    return members, rows


def as_seen_by(me: Member, members: list[Member], rows: list[Lease]) -> Fleet:
    """How an active member of this fleet sees it: it holds what the rows say that it owns."""
    own = [mine(each.shard) for each in rows if each.owner == me.id]
    mapped = {name: rule for name, rule in TEN.shards.items() if name in me.shards}
    known = state(*own, me=me.id, rules=replace(TEN, shards=mapped, capacity=me.capacity))
    return seen(known, *members, *rows)


@given(fleets())
def test_each_free_shard_is_reserved_or_taken_by_somebody_with_room_or_homeless(
    made: tuple[list[Member], list[Lease]],
) -> None:
    members, rows = made
    for me in members:
        fleet = as_seen_by(me, members, rows)
        assert not fleet.taken.keys() & fleet.reserved.keys()
        assert fleet.taken.keys() | fleet.reserved.keys() <= fleet.free | fleet.leaving
        got = Counter(fleet.taken.values())
        for name, winner in fleet.taken.items():
            assert name in fleet.peers[winner].shards
            assert fleet.loads.get(winner, 0) + got[winner] <= fleet.peers[winner].capacity
        for name in fleet.free - fleet.taken.keys() - fleet.reserved.keys():
            for peer in fleet.peers.values():
                full = fleet.loads.get(peer.id, 0) + got[peer.id] >= peer.capacity
                assert full or name not in peer.shards
        assert 0 <= fleet.homeless <= len(fleet.free)


@given(fleets())
def test_every_active_member_comes_to_the_same_view(made: tuple[list[Member], list[Lease]]) -> None:
    """So that claims rarely collide."""
    members, rows = made
    # An owner that drains, or holds what was paused or is not configured any more, counts what it still has to stop.
    active = [each for each in members if each.state == "active"]
    names = {each.id: each.shards for each in active}
    rows = [each for each in rows if not each.owner or each.shard in names.get(each.owner, ())]
    rows = [each for each in rows if not (each.owner and each.paused)]
    views = [as_seen_by(me, members, rows) for me in active]
    assert len({(view.share, *sorted(view.taken.items())) for view in views}) <= 1
    assert len({tuple(sorted(view.reserved.items())) for view in views}) <= 1
