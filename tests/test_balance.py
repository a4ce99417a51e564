"""Who takes what: every peer comes to the same answer, nothing is left over while there is room."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.balance import Peer, assign, fair_share

CAPACITIES = st.lists(st.integers(0, 60), min_size=1, max_size=8)
SHARDS = [f"s/{index}" for index in range(40)]


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[str], list[Peer], dict[str, int], int]:
    unowned = draw(st.lists(st.sampled_from(SHARDS), unique=True))
    peers = [
        Peer(f"h{number}", draw(st.integers(0, 30)), frozenset(draw(st.lists(st.sampled_from(SHARDS), unique=True))))
        for number in range(draw(st.integers(1, 5)))
    ]
    loads = {peer.id: draw(st.integers(0, 30)) for peer in peers}
    return unowned, peers, loads, draw(st.integers(0, 40))


@given(CAPACITIES, st.integers(0, 300))
def test_the_fair_share_is_the_smallest_that_gives_every_shard_a_place(capacities: list[int], shards: int) -> None:
    share = fair_share(capacities, shards)
    if sum(capacities) < shards:
        assert share == max(capacities)
        return
    assert sum(min(share, capacity) for capacity in capacities) >= shards
    assert share == 0 or sum(min(share - 1, capacity) for capacity in capacities) < shards


@given(fleets())
def test_nobody_gets_more_than_it_can_hold_or_what_it_is_not_configured_for(
    fleet: tuple[list[str], list[Peer], dict[str, int], int],
) -> None:
    unowned, peers, loads, share = fleet
    taken = assign(unowned, peers, loads, share)
    got = Counter(taken.values())
    for peer in peers:
        assert got[peer.id] == 0 or loads[peer.id] + got[peer.id] <= peer.capacity
        assert all(shard in peer.shards for shard, winner in taken.items() if winner == peer.id)
    assert set(taken) <= set(unowned)


@given(fleets())
def test_a_shard_is_left_out_only_if_everybody_who_could_run_it_is_full(
    fleet: tuple[list[str], list[Peer], dict[str, int], int],
) -> None:
    unowned, peers, loads, share = fleet
    taken = assign(unowned, peers, loads, share)
    got = Counter(taken.values())
    for shard in set(unowned) - set(taken):
        assert all(loads[peer.id] + got[peer.id] >= peer.capacity for peer in peers if shard in peer.shards)


@given(fleets(), st.randoms(use_true_random=False))
def test_every_peer_comes_to_the_same_assignment_whatever_the_order_of_what_it_saw(
    fleet: tuple[list[str], list[Peer], dict[str, int], int], dice: object
) -> None:
    unowned, peers, loads, share = fleet
    shuffled, others = list(unowned), list(peers)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    dice.shuffle(others)  # type: ignore[attr-defined]
    assert assign(unowned, peers, loads, share) == assign(shuffled, others, dict(reversed(loads.items())), share)


@given(st.integers(1, 6), st.lists(st.sampled_from(SHARDS), unique=True))
def test_equal_peers_end_up_no_further_apart_than_their_fair_share_allows(hosts: int, unowned: list[str]) -> None:
    peers = [Peer(f"h{number}", 100, frozenset(SHARDS)) for number in range(hosts)]
    share = fair_share([100] * hosts, len(unowned))
    got = Counter(assign(unowned, peers, {}, share).values())
    assert max(got.values(), default=0) <= share == -(-len(unowned) // hosts)
    assert sum(got.values()) == len(unowned)


def test_a_member_that_leaves_moves_only_its_own_shards() -> None:
    peers = [Peer(f"h{number}", 100, frozenset(SHARDS)) for number in range(4)]
    before = assign(SHARDS, peers, {}, 100)
    after = assign(SHARDS, peers[:3], {}, 100)
    assert {shard for shard in SHARDS if before[shard] != after[shard]} == {
        shard for shard in SHARDS if before[shard] == "h3"
    }


def test_capacity_bounds_a_small_member_and_the_others_take_the_rest() -> None:
    peers = [Peer("small", 2, frozenset(SHARDS)), Peer("big", 100, frozenset(SHARDS))]
    share = fair_share([2, 100], 40)
    assert share == 38
    assert Counter(assign(SHARDS, peers, {}, share).values()) == {"small": 2, "big": 38}
