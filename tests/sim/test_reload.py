"""Simulated fleets whose configuration changes while they run."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from supervisor.core.model import MS, SECOND, Rules, ShardRule
from tests.sim.chaos import FAULTS, disturb, recover, settled
from tests.sim.parts import CLEAR, Host, Weather, rules
from tests.sim.world import World

SHARDS = 6


def fleet(seed: int, hosts: int = 2) -> World:
    return settled(World(seed, hosts, rules(SHARDS)))


def epochs(world: World) -> dict[str, int]:
    return {name: row.epoch for name, row in world.store.leases.items()}


def reload_all(world: World, new: Rules, outdated: frozenset[str] = frozenset()) -> None:
    for host in world.hosts:
        world.reload(host, new, outdated)


def test_an_unchanged_configuration_replaces_no_child() -> None:
    world = fleet(1)
    before, starts = epochs(world), len(world.starts)
    for _ in range(50):
        reload_all(world, world.rules)
        world.run(0.2)
    assert (epochs(world), len(world.starts)) == (before, starts)


@pytest.mark.parametrize("seed", range(4))
def test_all_outdated_children_are_replaced_where_they_are_one_at_a_time(seed: int) -> None:
    world = fleet(10 + seed)
    before, owners = epochs(world), {name: row.owner for name, row in world.store.leases.items()}
    reload_all(world, world.rules, frozenset(world.rules.shards))

    def replaced() -> bool:
        for host in world.hosts:
            assert sum(not child.started for child in host.children.values()) <= 1
            assert sum(shard not in host.children for shard in served_by(host)) <= 1, world.report("two at once")
        return all(epochs(world)[name] > epoch for name, epoch in before.items()) and world.served() == set(before)

    def served_by(host: Host) -> list[str]:
        return [name for name, owner in owners.items() if owner == host.state.me]

    assert world.run(30, until=replaced), world.report("not all were replaced")
    assert {name: row.owner for name, row in world.store.leases.items()} == owners
    assert not world.kills, world.report("a child was killed")


def test_a_shard_that_one_host_drops_moves_to_the_other() -> None:
    world = fleet(20)
    first, second = world.hosts
    fewer = replace(world.rules, shards={"s/0": ShardRule(), "s/1": ShardRule()})
    world.reload(first, fewer)
    assert world.run(15, until=lambda: len(second.children) >= SHARDS - 2 and world.served() == set(world.rules.shards))
    assert first.children.keys() <= {"s/0", "s/1"}


def test_a_shard_that_everybody_drops_stops_and_a_new_one_is_served() -> None:
    world = fleet(30)
    others = {name: rule for name, rule in world.rules.shards.items() if name != "s/3"} | {"t/0": ShardRule()}
    reload_all(world, replace(world.rules, shards=others))
    served = world.run(30, until=lambda: bool(world.live("t/0")) and not world.live("s/3"))
    assert served, world.report("the new shard is not served, or the old one is")
    assert world.store.leases["s/3"].owner is None
    reload_all(world, world.rules)
    settled(world)


def test_a_new_shard_is_served_within_a_few_polls_by_those_who_have_looked_for_long() -> None:
    world = fleet(32)
    world.run(20)
    reload_all(world, replace(world.rules, shards=world.rules.shards | {"t/0": ShardRule()}))
    assert world.run(4, until=lambda: bool(world.live("t/0"))), world.report("the new shard waits for a lease duration")


def test_a_dropped_shard_whose_row_was_deleted_waits_for_the_children_that_it_may_have_had() -> None:
    world = fleet(33)
    world.run(20)
    owner = next(host for host in world.hosts if "s/3" in host.children)
    world.pause(owner)  # its child goes on until its deadline
    others = {name: rule for name, rule in world.rules.shards.items() if name != "s/3"}
    watcher = next(host for host in world.hosts if host is not owner)
    world.reload(watcher, replace(world.rules, shards=others))
    world.run(2)
    del world.store.leases["s/3"]
    world.run(2)
    world.reload(watcher, world.rules)  # the laws see to it that no second child lives beside the first
    assert world.run(25, until=lambda: "s/3" in watcher.children), world.report("nobody serves it")


def test_a_host_that_drops_a_shard_leaves_it_although_it_was_to_move_there() -> None:
    world = fleet(35, hosts=3)
    owner = next(host for host in world.hosts if "s/0" in host.children)
    target, other = [host for host in world.hosts if host is not owner]
    fewer = replace(world.rules, shards={name: rule for name, rule in world.rules.shards.items() if name != "s/0"})
    for host in (owner, target):
        world.reload(host, fewer)
    assert world.run(15, until=lambda: world.owner("s/0") is None)
    world.store.leases["s/0"] = replace(world.store.leases["s/0"], move=target.state.me)
    assert world.run(15, until=lambda: "s/0" in other.children), world.report("nobody serves it")


def test_a_lowered_capacity_is_obeyed_one_shard_at_a_time_while_others_have_room() -> None:
    world = fleet(36)
    first, second = world.hosts
    starts = len(world.starts)
    world.reload(first, replace(world.rules, capacity=1))

    def obeyed() -> bool:
        return len(first.children) == 1 and world.served() == set(world.rules.shards)

    assert world.run(20, until=obeyed), world.report(f"{len(first.children)} are still there")
    assert len(world.starts) - starts == len(second.children) - SHARDS // 2, world.report("more moved than had to")
    world.reload(second, replace(world.rules, capacity=2))
    world.run(20)
    assert world.served() == set(world.rules.shards), world.report("a shard was given up that nobody has room for")
    assert not world.kills


def test_a_longer_lease_duration_fences_nobody_and_holds_after_the_next_claim() -> None:
    world = fleet(40)
    longer = replace(
        world.rules, duration_ns=60 * SECOND, renew_every_ns=20 * SECOND, attempt_ns=2000 * MS, margin_ns=6 * SECOND
    )
    reload_all(world, longer)
    world.run(60)
    assert not world.kills, world.report("a child was killed")
    assert {row.duration_ms for row in world.store.leases.values()} == {10_000}
    reload_all(world, longer, frozenset(world.rules.shards))
    world.run(60)
    assert not world.kills, world.report("a child was killed")
    assert {row.duration_ms for row in world.store.leases.values()} == {60_000}


@pytest.mark.parametrize("phase", range(6))
def test_a_longer_lease_duration_makes_no_held_lease_more_fragile(phase: int) -> None:
    """An outage that they would have survived before."""
    world = fleet(60 + phase)
    longer = replace(world.rules, duration_ns=60 * SECOND, renew_every_ns=20 * SECOND, attempt_ns=2000 * MS)
    reload_all(world, replace(longer, margin_ns=6 * SECOND))
    world.run(5 + 0.6 * phase)
    world.change_weather(Weather(outage=True))
    world.run(3.5)
    world.change_weather(CLEAR)
    world.run(15)
    assert not world.kills, world.report("a child was killed")


def test_hold_under_a_longer_duration_neither_spins_nor_tells_of_outages_that_are_none() -> None:
    world = settled(World(70, 1, rules(2, policy="hold")))
    longer = replace(world.rules, duration_ns=60 * SECOND, renew_every_ns=20 * SECOND, margin_ns=6 * SECOND)
    reload_all(world, longer)
    logs, steps = len(world.logs), world.steps
    world.run(60)
    assert not [log for _, _, log in world.logs[logs:] if log.event == "store.unreachable"]
    assert world.steps - steps < 2000
    world.change_weather(Weather(outage=True))
    steps = world.steps
    world.run(30)
    assert world.steps - steps < 2000, world.report("a loop")


def test_a_shorter_lease_duration_fences_nobody() -> None:
    world = fleet(50)
    shorter = replace(
        world.rules, duration_ns=2 * SECOND, renew_every_ns=600 * MS, attempt_ns=300 * MS, margin_ns=250 * MS
    )
    reload_all(world, shorter, frozenset(world.rules.shards))
    world.run(60)
    assert not world.kills, world.report("a child was killed")
    assert {row.duration_ms for row in world.store.leases.values()} == {2_000}


@pytest.mark.parametrize("block", range(3))
def test_reloads_among_random_faults_keep_ownership_exclusive(block: int) -> None:
    faults = (*(fault for fault in FAULTS if fault != "delete_row"), *("reload",) * 6)
    for seed in range(block * 20, block * 20 + 20):
        world = World(900 + seed, 2, rules(3), drift=0.02 * (seed % 2))
        dice = random.Random(seed)
        for _ in range(dice.randrange(5, 40)):
            world.run(dice.expovariate(1 / 3))
            disturb(world, dice.choice(faults))
        recover(world)
