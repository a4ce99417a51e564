"""Simulated fleets that grow, shrink, restart and are told to move shards: who gets what, and how often it moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.core.model import SECOND, ShardRule
from supervisor.core.wishes import of_peer
from supervisor.records import Lease, Member
from supervisor.writes import Applied, Claim, Outcome, Refused, Write
from tests.sim.chaos import settled
from tests.sim.parts import Host, Weather, rules
from tests.sim.world import World

SEEDS = range(4)


def running(world: World) -> list[Host]:
    return [host for host in world.hosts if host.up and host.exit_code is None]


def loads(world: World) -> list[int]:
    return sorted(len(host.children) for host in running(world))


def is_even(world: World) -> bool:
    return world.served() == set(world.rules.shards) and max(loads(world)) - min(loads(world)) <= 1


def wait_even(world: World, seconds: float = 30) -> None:
    assert world.run(seconds, until=lambda: is_even(world)), world.report(f"loads are {loads(world)}")


def moves_since(world: World, start: int) -> Counter[str]:
    return Counter(shard for _, _, shard, _ in world.starts[start:])


def count_claims(world: World) -> Counter[type[Outcome]]:
    """How the claims that reach the store end from now on."""
    counts: Counter[type[Outcome]] = Counter()
    apply = world.store.apply

    def counted(write: Write) -> Outcome:
        outcome = apply(write)
        if isinstance(write, Claim):
            counts[type(outcome)] += 1
        return outcome

    world.store.apply = counted
    return counts


def wish(world: World, shard: str, move: str | None) -> None:
    world.store.leases[shard] = replace(world.store.leases[shard], move=move)


def by_name(world: World, name: str | None) -> Host:
    return next(host for host in world.hosts if host.state.me == name)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_more_supervisor_gets_its_share_within_thirty_seconds_and_no_shard_moves_twice(seed: int) -> None:
    world = settled(World(seed, 3, rules(60)))
    world.run(20)
    start = len(world.starts)
    world.add_host()
    wait_even(world)
    world.run(60)
    moves = moves_since(world, start)
    assert 14 <= moves.total() <= 16, world.report(f"{moves.total()} moves")
    assert set(moves.values()) == {1}
    assert not world.kills, world.report("a move killed somebody")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cold_start_begins_hardly_any_shard_twice(seed: int) -> None:
    world = settled(World(seed, 4, rules(60)))
    world.run(60)
    assert len(world.starts) <= 1.2 * 60, world.report(f"{len(world.starts)} starts")
    assert is_even(world), world.report(f"loads are {loads(world)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cold_start_with_more_shards_than_are_claimed_at_once_waits_for_who_paces_itself(seed: int) -> None:
    world = settled(World(seed, 3, rules(60)))
    world.run(60)
    assert len(world.starts) <= 61, world.report(f"{len(world.starts)} starts")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rolling_restart_moves_no_shard_more_than_twice(seed: int) -> None:
    world = settled(World(seed, 4, rules(60)))
    world.run(20)
    start = len(world.starts)
    for host in running(world):
        world.stop(host)
        assert world.run(30, until=lambda host=host: host.exit_code is not None)
        world.restart(host, proof=True)
        wait_even(world, 40)
    assert max(moves_since(world, start).values()) <= 2, world.report(f"{moves_since(world, start)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_survivors_of_a_death_share_its_shards_and_hardly_ever_claim_the_same(seed: int) -> None:
    world = settled(World(seed, 4, rules(60)))
    world.run(20 + seed / 3)
    claims, start = count_claims(world), len(world.starts)
    world.crash(world.hosts[1])
    wait_even(world)
    assert claims[Applied] >= 15
    assert claims[Refused] <= 0.1 * claims.total(), world.report(f"{claims}")
    world.run(60)
    assert len(world.starts) - start == 15, world.report("others moved too")


def test_members_that_differ_in_capacity_fill_up_and_then_stay_as_they_are() -> None:
    world = World(30, 1, rules(20, capacity=5))
    world.run(10)
    assert len(world.served()) == 5
    assert [log for _, _, log in world.logs if log.event == "shard.homeless" and "15 shards" in log.reason]
    world.rules = rules(20)
    world.add_host()
    settled(world)
    assert loads(world) == [5, 15]
    start = len(world.starts)
    world.run(120)
    assert len(world.starts) == start, world.report("a shard moved without need")


def test_an_unowned_shard_is_taken_by_anyone_with_room_also_above_its_share() -> None:
    """The shards of a dead supervisor fall to two others, of which one is stopped but cannot be taken for dead yet."""
    world = settled(World(31, 3, rules(12)))
    world.run(10)
    able, stopped, dead = world.hosts
    orphans = set(dead.children)
    world.crash(dead)
    world.run(8)
    world.pause(stopped)
    assert world.run(6, until=lambda: orphans <= set(able.children)), world.report("left to one that is stopped")


def clutter_with_strangers(world: World) -> None:
    """Free shards of a stream for which only members without room are configured, as many of them as of us."""
    for index in range(200):
        world.store.leases[f"x/{index}"] = Lease(f"x/{index}", None, 1, 0, "theirs", 10_000)
    for index in range(10):
        full = Member(f"full{index}:1:{index}", "sim", "active", 0, "n", 60_000, 0, ("x/0-199",))
        world.store.members[full.id] = full


def clutter_with_crashed(world: World) -> None:
    """Free shards that crashed everywhere, and wait for their backoff."""
    crashed = {f"x/{index}": ShardRule() for index in range(200)}
    for name in crashed:
        world.store.leases[name] = Lease(name, None, 1, 0, "crashed", 10_000)
    for host in running(world):
        world.reload(host, replace(world.rules, shards={**world.rules.shards, **crashed}))
        far_ns = host.clock(world.now_ns) + 3600 * SECOND
        host.state = host.state.with_shards(replace(host.state.shards[name], start_ns=far_ns) for name in crashed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("clutter", [clutter_with_strangers, clutter_with_crashed])
def test_free_shards_that_cannot_be_taken_keep_nobody_from_those_that_can(
    clutter: Callable[[World], None], seed: int
) -> None:
    world = settled(World(seed, 3, rules(12)))
    world.run(10)
    able, stopped, dead = world.hosts
    orphans = set(dead.children)
    clutter(world)
    world.run(5)
    world.crash(dead)
    world.run(6.2)  # no lease of it runs out before 6.7 s; and who is stopped now counts as live for 6.7 s and longer
    world.pause(stopped)
    assert world.run(6.5, until=lambda: orphans <= set(able.children)), world.report("left to one that is stopped")


def test_loads_that_differ_by_one_stay_as_they_are() -> None:
    world = settled(World(32, 4, rules(61)))
    world.run(30)
    start = len(world.starts)
    world.run(60)
    assert len(world.starts) == start, world.report("a shard moved for nothing")
    assert loads(world) == [15, 15, 15, 16]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_with_proof_of_death_streams_again_within_two_seconds_and_without_it_waits(seed: int) -> None:
    for proof in (True, False):
        world = settled(World(seed, 1, rules(8)))
        world.run(10 + seed / 7)
        host = world.hosts[0]
        crashed_ns = world.now_ns
        world.crash(host)
        world.restart(host, proof)
        settled(world)
        took_s = (world.now_ns - crashed_ns) / SECOND
        assert took_s < 2 if proof else took_s > 6, world.report(f"{took_s} s")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_with_proof_takes_its_own_back_and_leaves_none_to_peers_that_have_to_wait(seed: int) -> None:
    world = settled(World(seed, 3, rules(11)))
    world.run(20)
    host = max(world.hosts, key=lambda host: len(host.children))
    held = set(host.children)
    start = len(world.starts)
    world.crash(host)
    again = world.restart(host, proof=True)
    settled(world, 2)
    assert set(again.children) == held
    world.run(30)
    assert len(world.starts) - start == len(held), world.report("more than its own shards started")


# --- wishes -----------------------------------------------------------------------------------------------


def test_an_operators_move_is_made_and_stays_though_the_loads_differ_then() -> None:
    world = settled(World(33, 2, rules(8)))
    world.run(10)
    source, target = world.hosts
    shards = sorted(source.children)[:2]
    for shard in shards:
        wish(world, shard, target.state.me)
    assert world.run(5, until=lambda: set(shards) <= set(target.children)), world.report("not moved")
    world.run(120)
    assert set(shards) <= set(target.children), world.report("a peer asked for it")
    assert is_even(world), world.report("others make up for it")
    assert not any(row.move for row in world.store.leases.values())


def test_a_move_to_anybody_goes_to_a_peer() -> None:
    world = settled(World(34, 3, rules(6)))
    world.run(10)
    source = world.hosts[0]
    shard = sorted(source.children)[0]
    wish(world, shard, "any")
    assert world.run(5, until=lambda: any(shard in host.children for host in world.hosts[1:])), world.report("stays")
    assert world.store.leases[shard].move is None


@pytest.mark.parametrize("target", ["nobody:1:00", "any", "itself"])
def test_a_wish_that_cannot_be_granted_is_taken_back_and_disturbs_nobody(target: str) -> None:
    world = settled(World(35, 1, rules(2)))
    start = len(world.starts)
    wish(world, "s/0", world.hosts[0].state.me if target == "itself" else target)
    assert world.run(5, until=lambda: world.store.leases["s/0"].move is None), world.report("the wish is stuck")
    assert len(world.starts) == start
    assert any(log.event == "wish.refused" for _, _, log in world.logs)


def test_the_wish_of_a_peer_that_died_is_taken_back() -> None:
    world = settled(World(36, 2, rules(8)))
    world.run(10)
    owner, peer = world.hosts
    shard = sorted(owner.children)[0]
    world.crash(peer)
    wish(world, shard, of_peer(peer.state.me))
    assert world.run(20, until=lambda: world.store.leases[shard].move is None), world.report("the wish is stuck")
    settled(world)


def test_a_free_shard_is_reserved_for_its_target_for_two_polls_and_then_anybodys() -> None:
    world = settled(World(37, 3, rules(9)))
    world.run(20)
    owner, target, third = world.hosts
    shard = sorted(owner.children)[0]
    wish(world, shard, target.state.me)
    assert world.run(5, until=lambda: world.owner(shard) is None), world.report("not released")
    target.weather = Weather(outage=True)
    assert not world.run(2, until=lambda: world.owner(shard) is not None), world.report("somebody else took it")
    assert world.run(3, until=lambda: shard in third.children), world.report("kept for a target that does not come")


def test_a_free_shard_is_not_kept_for_a_target_that_is_not_there() -> None:
    world = settled(World(39, 1, rules(2)))
    row = world.store.leases["s/0"]
    world.store.leases["s/0"] = replace(row, paused=True)
    assert world.run(5, until=lambda: world.owner("s/0") is None), world.report("not released")
    world.store.leases["s/0"] = replace(world.store.leases["s/0"], paused=False, move="nobody:1:00")
    settled(world, 1.5)


@pytest.mark.parametrize("crashing", [False, True])
def test_a_paused_shard_stops_is_released_and_runs_again_when_it_may(crashing: bool) -> None:
    world = settled(World(38, 2, rules(4)))
    host = by_name(world, world.owner("s/0"))
    if crashing:
        for _ in range(3):
            world.crash_child(host, "s/0")
            world.run(0.3)
    world.store.leases["s/0"] = replace(world.store.leases["s/0"], paused=True)
    assert world.run(20, until=lambda: world.owner("s/0") is None), world.report("not released")
    assert "s/0" not in world.served()
    world.run(60)
    assert "s/0" not in world.served()
    world.store.leases["s/0"] = replace(world.store.leases["s/0"], paused=False)
    settled(world, 10)


# --- the end of an outage ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_after_an_outage_all_stream_within_two_seconds_where_they_were(seed: int) -> None:
    world = settled(World(seed, 3, rules(12)))
    world.run(20 + seed / 3)
    before = {shard: world.owner(shard) for shard in world.rules.shards}
    world.weather = Weather(outage=True)
    world.run(15 + seed * 1.7)
    assert not world.served()
    world.weather = Weather()
    settled(world, 2)
    world.run(30)
    assert {shard: world.owner(shard) for shard in world.rules.shards} == before, world.report("shards moved")


def test_a_release_that_could_not_be_made_before_the_lease_ran_out_is_made_when_the_store_is_back() -> None:
    world = settled(World(41, 1, rules(1, crash_limit=1)))
    world.run(10)
    world.weather = Weather(outage=True)
    world.crash_child(world.hosts[0], "s/0")
    world.run(40)
    world.weather = Weather()
    settled(world, 3)


@pytest.mark.parametrize("seed", range(10))
def test_under_hold_nobody_dies_in_an_outage_and_at_its_end(seed: int) -> None:
    world = settled(World(seed, 3, rules(12, policy="hold")))
    world.run(20 + seed / 3)
    world.weather = Weather(outage=True)
    world.run(25 + seed * 1.7)
    assert world.served() == set(world.rules.shards)
    world.weather = Weather()
    world.run(40)
    assert not world.kills, world.report("a child was killed")
    assert world.served() == set(world.rules.shards)


@pytest.mark.parametrize("seed", range(4))
def test_a_holder_has_its_whole_lease_to_come_back(seed: int) -> None:
    """The store may be back for its peers many polls before it is for the holder."""
    slow = rules(4, policy="hold", duration_ns=60 * SECOND, renew_every_ns=20 * SECOND, attempt_ns=9 * SECOND)
    world = settled(World(seed, 2, replace(slow, margin_ns=6 * SECOND)))
    world.run(30)
    world.weather = Weather(outage=True)
    world.run(150 + seed * 3)
    world.weather = Weather()
    late = world.hosts[seed % 2]
    late.weather = Weather(outage=True)
    world.run(10)
    late.weather = None
    world.run(90)
    assert not world.kills, world.report("a child was killed")


def test_a_holder_that_died_in_an_outage_is_replaced_once_its_lease_ran_out_after_the_end() -> None:
    world = settled(World(40, 2, rules(6, policy="hold")))
    world.run(10)
    world.weather = Weather(outage=True)
    world.run(20)
    world.crash(world.hosts[0])
    world.run(20)
    world.weather = Weather()
    settled(world, 13)
