"""Simulated fleets under the hands of operators who take shards away by force, and forget what nobody serves."""

from __future__ import annotations

import random

import pytest

from supervisor.core.phases import Claiming
from supervisor.writes import Applied, Forget, Refused, Wish
from tests.sim.chaos import FAULTS, disturb, recover, settled
from tests.sim.operators import depose, land, operate, pause
from tests.sim.parts import Host, Weather, rules
from tests.sim.test_sharing import by_name, count_claims, loads
from tests.sim.world import World

SEEDS = range(4)
COMMANDS = ("depose", "resume_row", "wish", "pause_row", "forget")
# What is deleted by hand comes back under an epoch that leans on the wall clock.
FAULT_SETS = [tuple(fault for fault in FAULTS if fault != without) for without in ("delete_row", "clock_step")]


def deposed(world: World, shard: str = "s/0") -> Host:
    """Its owner until now."""
    row = world.store.leases[shard]
    assert isinstance(land(world, depose(row)), Applied)
    return by_name(world, row.owner)


def resume(world: World, shard: str = "s/0") -> None:
    assert isinstance(land(world, pause(world.store.leases[shard], False)), Applied)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_deposed_owner_kills_its_child_at_its_next_look_and_nobody_claims_the_shard(seed: int) -> None:
    world = settled(World(900 + seed, 3, rules(6)))
    world.run(10)
    owner = deposed(world)
    assert world.run(1.5, until=lambda: "s/0" not in owner.children), world.report("its child lives")
    world.run(60)
    assert "s/0" not in world.served()
    assert len(world.served()) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_deposed_shard_that_is_resumed_at_once_is_served_after_its_duration_and_not_before(seed: int) -> None:
    """Its owner may be stopped, or cut off from the store: until its deadline its child delivers."""
    world = settled(World(910 + seed, 3, rules(6), drift=0.05))
    world.run(10)
    world.kernel_timers = seed % 2 == 0
    row = world.store.leases["s/0"]
    owner = by_name(world, row.owner)
    owner.weather = Weather(outage=True)
    deposed(world)
    resume(world)
    rate = max(host.rate for host in world.hosts)
    assert not world.run(9.9 / rate, until=lambda: world.owner("s/0") is not None), world.report("claimed too early")
    assert world.run(3.5, until=lambda: world.owner("s/0") is not None), world.report("claimed by nobody")
    assert world.store.leases["s/0"].epoch > row.epoch + 1
    assert not world.store.leases["s/0"].forced


def test_a_shard_that_was_deposed_once_is_handed_over_at_once_later() -> None:
    world = settled(World(920, 2, rules(2)))
    world.run(10)
    deposed(world)
    resume(world)
    assert world.run(20, until=lambda: world.owner("s/0") is not None), world.report("not claimed again")
    world.run(10)
    row = world.store.leases["s/0"]
    target = next(host for host in world.hosts if host.state.me != row.owner)
    assert isinstance(land(world, Wish("s/0", row.owner, row.epoch, row.move, target.state.me)), Applied)
    assert world.run(5, until=lambda: "s/0" in target.children), world.report("it waits")


def test_a_deposed_shard_is_reserved_for_the_target_of_a_wish_when_it_may_be_claimed() -> None:
    for seed in range(6):
        world = settled(World(930 + seed, 4, rules(8)))
        world.run(15)
        owner = deposed(world)
        resume(world)
        row = world.store.leases["s/0"]
        target = world.rng.choice([host for host in world.hosts if host is not owner])
        assert isinstance(land(world, Wish("s/0", None, row.epoch, row.move, target.state.me)), Applied)
        assert world.run(15, until=lambda world=world: world.owner("s/0") is not None), world.report(
            "claimed by nobody"
        )
        assert world.owner("s/0") == target.state.me, world.report("another took it")


def test_deposed_shards_are_shared_out_and_hardly_ever_claimed_by_two() -> None:
    for seed in range(3):
        world = settled(World(940 + seed, 4, rules(24)))
        world.run(15)
        counts = count_claims(world)
        for shard in sorted(world.rules.shards):
            deposed(world, shard)
            resume(world, shard)
        world.run(10)
        settled(world, 10)
        assert counts[Refused] <= 3, world.report(f"claims: {counts}")
        assert max(loads(world)) - min(loads(world)) <= 2, world.report(f"loads are {loads(world)}")


def test_a_restart_of_its_owner_that_is_under_way_loses_against_a_deposition_or_wins_for_good() -> None:
    ended = set()
    for seed in range(12):
        world = settled(World(960 + seed, 1, rules(1)))
        world.run(5)
        host = world.hosts[0]
        world.crash_child(host, "s/0")
        first = world.store.leases["s/0"].epoch
        # From before the claim to after its answer: the row is read when it is sent, and when it lands.
        assert world.run(60, until=lambda host=host: isinstance(host.state.shards["s/0"].phase, Claiming))
        seen = world.store.leases["s/0"]
        world.run(seed * 0.001)
        if land(world, depose(seen)) != Applied():
            assert isinstance(land(world, depose(world.store.leases["s/0"])), Applied)
        ended.add(world.store.leases["s/0"].epoch - first)
        world.run(5)
        assert "s/0" not in world.served()
        assert not host.children
        resume(world)
        settled(world, 15)
    assert ended == {1, 2}, "the deposition always came at the same moment"


def test_a_row_that_is_owned_is_never_forgotten_and_one_that_nobody_serves_disturbs_nobody() -> None:
    world = settled(World(980, 2, rules(2)))
    start = len(world.starts)
    row = world.store.leases["s/0"]
    assert land(world, Forget("s/0", row.epoch)) == Refused(row)
    operate("forget", world, "s/0")
    world.run(30)
    assert operate("forget", world, "s/0")
    world.run(30)
    assert len(world.starts) == start
    assert sorted(world.store.leases) == ["s/0", "s/1"]


def test_a_free_row_that_was_forgotten_is_made_again_under_a_higher_epoch() -> None:
    world = settled(World(990, 2, rules(2)))
    world.run(10)
    land(world, pause(world.store.leases["s/0"]))
    assert world.run(10, until=lambda: world.owner("s/0") is None)
    epoch = world.store.leases["s/0"].epoch
    assert isinstance(land(world, Forget("s/0", epoch)), Applied)
    assert world.run(15, until=lambda: world.served() == {"s/0", "s/1"}), world.report("never served again")
    assert world.store.leases["s/0"].epoch > epoch


@pytest.mark.parametrize("block", range(4))
def test_random_commands_amid_faults_never_give_a_shard_two_live_children_and_all_are_served_again(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        world = World(5000 + seed, 3, rules(2), drift=0.02 * (seed % 2))
        dice = random.Random(seed)
        for _ in range(dice.randrange(10, 50)):
            world.run(dice.expovariate(1 / 3))
            disturb(world, dice.choice(COMMANDS if dice.random() < 0.6 else FAULT_SETS[seed % 2]))
        recover(world)
