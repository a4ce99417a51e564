"""Simulated fleets that are unwell for long: children that crash again and again, stores that answer now and then."""

from __future__ import annotations

from collections import Counter

import pytest

from supervisor.core import model
from supervisor.core.model import MS, SECOND
from supervisor.writes import Claim
from tests.sim.chaos import settled
from tests.sim.parts import Child, Host, Weather, rules
from tests.sim.world import World


def poison(world: World, shards: set[str], machine: str | None = None, until_s: float = 1e9) -> None:
    """From now on the children of these shards crash 50 ms after their start, on one machine or on all, for a time."""
    begin = world.children._begin

    def begun(host: Host, child: Child) -> None:
        begin(host, child)
        struck = child.shard in shards and machine in (None, host.machine) and world.now_ns < until_s * SECOND
        if struck:
            world.after(50, 60, lambda: world.crash_child(host, child.shard))

    world.children._begin = begun


def starts_by_machine(world: World, since: int) -> Counter[str]:
    return Counter(name.partition(":")[0] for _, name, _, _ in world.starts[since:])


@pytest.mark.parametrize("seed", range(3))
def test_a_host_where_every_child_crashes_pulls_hardly_any_stream_away_from_where_it_runs_well(seed: int) -> None:
    world = settled(World(seed, 2, rules(9)))
    world.run(20)
    poison(world, set(world.rules.shards), "h2")
    world.add_host()
    start = len(world.starts)
    world.run(600)
    starts = starts_by_machine(world, start)
    assert starts["h0"] + starts["h1"] <= 8, world.report(f"{starts}")
    assert world.served() == set(world.rules.shards)


@pytest.mark.parametrize("seed", range(3))
def test_a_shard_that_crashed_everywhere_for_a_minute_runs_again_within_the_longest_backoff(seed: int) -> None:
    world = settled(World(seed, 2, rules(4)))
    world.run(20)
    poison(world, {"s/0"}, until_s=world.now_ns / SECOND + 60)
    for host in world.hosts:
        world.crash_child(host, "s/0")
    world.run(60)
    settled(world, 62)


@pytest.mark.parametrize("seed", range(3))
def test_who_sees_seldom_still_replaces_the_dead(seed: int) -> None:
    """Every other snapshot is lost, and with a short lease each gap is longer than that."""
    short = rules(4, duration_ns=2 * SECOND, renew_every_ns=660 * MS, attempt_ns=800 * MS, margin_ns=250 * MS)
    world = settled(World(seed, 2, short))
    world.run(20)
    living, dying = world.hosts
    orphans = set(dying.children)
    snapshot, asked = world.network.snapshot, Counter[str]()

    def every_other(host: Host) -> None:
        asked[host.name] += 1
        if asked[host.name] % 2:
            silence_ms = 2 * short.attempt_ns / MS
            world.after(silence_ms, silence_ms, lambda: world.feed(host, model.SnapshotFailed("timeout")))
        else:
            snapshot(host)

    world.network.snapshot = every_other
    world.run(10)
    world.crash(dying)
    assert world.run(20, until=lambda: orphans <= set(living.children)), world.report("not replaced")


def test_after_a_restart_with_less_capacity_the_rest_is_homeless_and_that_is_told() -> None:
    world = settled(World(5, 1, rules(10)))
    world.run(20)
    host = world.hosts[0]
    world.crash(host)
    world.rules = rules(10, capacity=4)
    again = world.restart(host, proof=True)
    world.run(20)
    assert len(again.children) == 4
    assert again.state.homeless == 6
    assert any(log.event == "shard.homeless" for _, _, log in world.logs)


@pytest.mark.parametrize("outage_s", [25, 60, 120])
def test_the_first_claim_of_a_long_outage_may_land_when_it_ends(outage_s: float) -> None:
    world = settled(World(3, 1, rules(1)))
    world.run(20)
    world.change_weather(Weather(outage=True))
    world.run(outage_s)
    world.change_weather(Weather())
    world.network.land(Claim, 0, answered=False)
    settled(world, 2)
    assert not [log for _, _, log in world.logs if log.event == "lease.lost"], world.report("lost to itself")


@pytest.mark.parametrize("seed", range(2))
def test_a_holder_knows_its_last_renewal_again_after_an_hour_without_the_store(seed: int) -> None:
    """The answer of that renewal was lost, as it begins with many an outage."""
    world = settled(World(seed, 1, rules(2, "hold")))
    world.run(20)
    beat = world.store.leases["s/0"].beat
    world.change_weather(Weather(lost_answer=1.0))
    assert world.run(10, until=lambda: world.store.leases["s/0"].beat > beat)
    world.change_weather(Weather(unsent=1.0, lost_read=1.0))
    world.run(3600)
    world.change_weather(Weather())
    world.run(20)
    assert not world.kills, world.report("a held child was killed")


def test_a_first_start_that_was_killed_before_it_made_rows_keeps_nobody_waiting() -> None:
    world = World(6, 1, rules(4))
    host = world.hosts[0]
    assert world.run(5, until=lambda: bool(world.store.members))
    assert not world.store.leases
    world.crash(host)
    world.restart(host, proof=True)
    settled(world, 3)
