"""Fleets of simulated supervisors under random and planned faults: what must hold whatever happens."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.core.model import SECOND, Ticked
from tests.sim.chaos import FAULTS, disturb, recover, settled
from tests.sim.parts import CLEAR, Weather, rules
from tests.sim.world import World

# A created row's epoch leans on the wall clock, so that one fleet never sees both a deleted row and a clock set back.
FAULT_SETS = [tuple(fault for fault in FAULTS if fault != without) for without in ("delete_row", "clock_step")]


@pytest.mark.parametrize("block", range(4))
def test_random_faults_never_give_a_shard_two_live_children_and_all_are_served_again(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        world = World(seed, 2, rules(3), drift=0.02 * (seed % 2))
        dice = random.Random(seed)
        for _ in range(dice.randrange(5, 40)):
            world.run(dice.expovariate(1 / 4))
            disturb(world, dice.choice(FAULT_SETS[seed % 2]))
        recover(world)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    supervisors=st.integers(1, 3),
    faults=st.lists(st.tuples(st.floats(0.01, 12), st.sampled_from(FAULT_SETS[1])), max_size=12),
)
def test_any_schedule_of_faults_that_hypothesis_finds_keeps_ownership_exclusive(
    seed: int, supervisors: int, faults: list[tuple[float, str]]
) -> None:
    world = World(seed, supervisors, rules(2), drift=0.02)
    for pause_s, fault in faults:
        world.run(pause_s)
        disturb(world, fault)
    recover(world)


def test_supervisors_that_start_together_on_an_empty_store_serve_everything_within_three_polls() -> None:
    for seed in range(40):
        settled(World(400 + seed, 2 + seed % 2, rules(16)), 3)


def test_answers_that_are_lost_while_the_write_is_applied_kill_nobody() -> None:
    world = settled(World(7, 1, rules(4)))
    world.weather = Weather(lost_answer=1.0)
    world.run(900)
    assert sum(row.beat for row in world.store.leases.values()) > 1000
    assert not world.kills, world.report("a child was killed")


def test_a_write_that_a_proxy_sends_twice_kills_nobody() -> None:
    world = settled(World(8, 1, rules(4)))
    world.weather = Weather(repeated=1.0)
    world.run(600)
    assert not world.kills, world.report("a child was killed")
    assert world.served() == set(world.rules.shards)


def test_writes_that_land_after_newer_ones_move_nothing_back_and_kill_nobody() -> None:
    world = settled(World(9, 1, rules(4)))
    world.weather = Weather(late_request=0.5)
    world.run(600)
    assert not [kill for kill in world.kills if kill[4] == "lost"], world.report("a late write lost a lease")


@pytest.mark.parametrize("phase_s", [0.0, 0.4, 0.9, 1.5, 2.1, 2.8, 3.2])
def test_throttling_shorter_than_the_slack_kills_nothing_at_any_phase(phase_s: float) -> None:
    world = settled(World(10, 2, rules(4)))
    world.run(20 + phase_s)
    limits = world.rules
    slack_ns = limits.duration_ns - limits.margin_ns - limits.renew_every_ns - limits.attempt_ns
    world.weather = Weather(throttled=1.0)
    world.run(slack_ns / SECOND)
    world.weather = Weather()
    world.run(30)
    assert not world.kills, world.report("throttling killed a child")


def test_a_throttled_claim_is_never_held_and_backs_off() -> None:
    world = World(11, 1, rules(4))
    world.run(0.9)
    world.weather = Weather(throttled=1.0)
    before = world.steps
    world.run(60)
    assert not world.starts
    assert world.steps - before < 60 * 20
    world.weather = Weather()
    settled(world)


@pytest.mark.parametrize("kernel_timers", [True, False])
def test_an_outage_fences_at_the_deadline_neither_earlier_nor_later(kernel_timers: bool) -> None:
    world = settled(World(12, 1, rules(4)))
    world.kernel_timers = kernel_timers
    world.run(20)
    last_round_ns = world.hosts[0].state.round_ns - world.rules.renew_every_ns - world.hosts[0].offset_ns
    world.weather = Weather(outage=True)
    world.run(15)
    fence_ns = world.rules.duration_ns - world.rules.margin_ns
    assert [kill[4] for kill in world.kills] == ["timer" if kernel_timers else "fenced"] * 4
    assert {round((kill[0] - last_round_ns - fence_ns) / SECOND, 1) for kill in world.kills} == {0.0}
    assert not world.served()
    world.weather = Weather()
    settled(world, 5)


def test_a_dead_owner_is_replaced_within_its_duration_and_one_poll() -> None:
    for seed in range(20):
        world = settled(World(100 + seed, 2, rules(8)))
        world.run(10 + seed / 7)
        world.crash(world.hosts[seed % 2])
        bound_s = (world.rules.duration_ns + world.rules.poll_every_ns) / SECOND + 0.5
        settled(world, bound_s)


def test_a_planned_stop_gives_each_shard_to_the_peer_within_a_second_of_its_childs_death() -> None:
    for seed in range(20):
        world = settled(World(200 + seed, 2, rules(16)))
        world.run(5)
        leaving = world.hosts[0]
        gone: dict[str, int] = {}
        world.stop(leaving)
        held = set(leaving.children)

        def watch(world: World = world, leaving: object = leaving, gone: dict[str, int] = gone) -> bool:
            for shard in held - set(world.hosts[0].children):  # noqa: B023
                gone.setdefault(shard, world.now_ns)
            return world.hosts[0].exit_code is not None and world.served() == set(world.rules.shards)

        assert world.run(20, until=watch), world.report("not taken over")
        assert leaving.exit_code == 0
        taken = {shard: start for start, _, shard, _ in world.starts if start > min(gone.values())}
        assert all(taken[shard] - gone[shard] < SECOND for shard in held), world.report("a slow handover")


@pytest.mark.parametrize("crashing", [False, True])
def test_a_draining_supervisor_is_out_of_the_membership_before_its_first_release(crashing: bool) -> None:
    world = settled(World(13, 2, rules(8)))
    leaving = world.hosts[0]
    held = set(leaving.children)
    world.stop(leaving)
    if crashing:
        for shard in held:
            world.crash_child(leaving, shard)
    released = world.run(20, until=lambda: any(world.owner(shard) != leaving.name for shard in held))
    assert released
    assert world.store.members[leaving.name].state == "draining"


def test_a_deleted_row_kills_its_child_and_is_served_again_under_a_higher_epoch() -> None:
    world = settled(World(14, 2, rules(4)))
    world.run(20)
    before = world.store.leases.pop("s/0").epoch
    limits = world.rules
    bound_s = 2 * (limits.duration_ns + limits.poll_every_ns) / SECOND
    world.run(limits.renew_every_ns / SECOND + 0.5)
    assert any(kill[2] == "s/0" and kill[4] == "lost" for kill in world.kills), world.report("not killed")
    settled(world, bound_s)
    assert world.store.leases["s/0"].epoch > before


@pytest.mark.parametrize("days", [-1, 1, 400])
def test_steps_of_the_wall_clock_change_no_decision(days: int) -> None:
    world = settled(World(21, 3, rules(6)))
    starts = len(world.starts)
    for _ in range(4):
        world.wall_ms += days * 86_400_000
        world.run(10)
        world.wall_ms -= days * 86_400_000
        world.run(10)
    world.wall_ms += days * 86_400_000
    assert not world.kills, world.report("a child was killed")
    assert len(world.starts) == starts, world.report("a shard moved")
    world.crash(world.hosts[0])
    died_ns = world.now_ns
    settled(world, 11.5)
    assert world.now_ns - died_ns > 6 * SECOND, world.report("taken before it had expired")


def test_a_failed_snapshot_starts_no_expiry_clock_and_triggers_no_claim() -> None:
    world = settled(World(15, 2, rules(4)))
    starts = len(world.starts)
    world.weather = Weather(lost_read=1.0)
    world.run(60)
    assert len(world.starts) == starts, world.report("somebody claimed")
    world.crash(world.hosts[0])
    orphans = {shard for shard in world.rules.shards if world.owner(shard) == world.hosts[0].name}
    world.run(60)
    assert len(world.starts) == starts, world.report("claimed without having seen anything")
    world.weather = Weather()
    back_ns = world.now_ns
    settled(world, 12)
    assert all(start - back_ns > 9 * SECOND for start, _, shard, _ in world.starts[starts:] if shard in orphans)


def test_a_refused_renewal_means_no_further_start_for_that_epoch() -> None:
    world = settled(World(16, 1, rules(1)))
    world.run(5)
    stolen = world.store.leases["s/0"]
    disturb(world, "steal_row")
    assert world.run(60, until=lambda: len(world.starts) == 2), world.report("never served again")
    epochs = [epoch for _, _, _, epoch in world.starts]
    assert epochs == sorted(set(epochs))
    assert epochs[-1] > stolen.epoch + 1


def test_a_child_that_hangs_is_not_renewed_and_is_replaced() -> None:
    world = settled(World(17, 1, rules(1, hang_ns=5 * SECOND)))
    host = world.hosts[0]
    # So that the renewals of a round are due just when the child counts as hung.
    hung_ns = host.state.round_ns + 3 * world.rules.renew_every_ns - world.rules.hang_ns
    world.run((hung_ns - host.clock(world.now_ns)) / SECOND)
    world.hang_child(host, "s/0")
    hung_ns = world.now_ns
    assert world.run(60, until=lambda: len(world.starts) == 2), world.report("not replaced")
    assert world.kills[-1][4] == "hung"
    assert world.kills[-1][0] - hung_ns < 7 * SECOND


def test_a_child_that_crashes_at_once_is_started_at_most_sixteen_times_in_five_minutes() -> None:
    for seed in range(8):
        world = settled(World(300 + seed, 1, rules(2)))
        start = len(world.starts)
        end_ns = world.now_ns + 300 * SECOND
        while world.now_ns < end_ns:
            world.run(0.5)
            for host in world.hosts:
                world.crash_child(host, "s/0")
        hot = [entry for entry in world.starts[start:] if entry[2] == "s/0"]
        assert len(hot) <= 16, f"{len(hot)} starts with seed {world.seed}"
        assert not [entry for entry in world.starts[start:] if entry[2] == "s/1"], world.report("s/1 was touched")


def test_a_shard_that_crashed_for_an_hour_runs_again_within_the_ceiling_once_it_is_healthy() -> None:
    world = settled(World(18, 1, rules(1)))
    for _ in range(3600):
        world.run(1)
        world.crash_child(world.hosts[0], "s/0")
    settled(world, 62 + 300)
    assert world.run(1) or world.served() == {"s/0"}


def test_a_shard_that_never_becomes_ready_does_not_delay_the_others() -> None:
    world = World(19, 1, rules(6))
    others = {f"s/{index}" for index in range(1, 6)}

    def stall_first() -> bool:
        for host in world.hosts:
            if "s/0" in host.children:
                host.children["s/0"].started = False
        return others <= world.served()

    assert world.run(3, until=stall_first), world.report("the others wait")


def test_a_tick_before_anything_is_due_changes_nothing() -> None:
    world = settled(World(20, 1, rules(2)))
    host = world.hosts[0]
    world.feed(host, Ticked(world.reports(host)))
    before = host.state
    world.feed(host, Ticked(world.reports(host)))
    assert host.state == before


def test_supervisors_that_start_together_share_everything_evenly() -> None:
    for seed in range(12):
        world = settled(World(500 + seed, 2 + seed % 3, rules(24)), 5)
        loads = [len(host.children) for host in world.hosts]
        assert max(loads) - min(loads) == 0, world.report(f"loads are {loads}")


def test_children_that_are_slow_to_stop_are_taken_over_quickly_by_two_peers() -> None:
    for seed in range(10):
        world = settled(World(seed, 3, rules(24)))
        world.stop_ms = 6000.0
        world.run(5)
        leaving = world.hosts[0]
        dead: dict[str, int] = {}
        world.stop(leaving)

        def gone(
            held: frozenset[str] = frozenset(leaving.children), world: World = world, dead: dict[str, int] = dead
        ) -> bool:
            for shard in held - set(world.hosts[0].children):
                dead.setdefault(shard, world.now_ns)
            return world.hosts[0].exit_code is not None and world.served() == set(world.rules.shards)

        assert world.run(30, until=gone), world.report("not taken over")
        taken = {shard: start for start, _, shard, _ in world.starts}
        assert all(taken[shard] - death < SECOND // 2 for shard, death in dead.items()), world.report("too slow")


@pytest.mark.parametrize("lease_s", [3, 10, 15, 30, 60])
def test_an_outage_that_leaves_room_for_one_attempt_fences_nobody_at_any_phase(lease_s: int) -> None:
    renew_ns = lease_s * SECOND // 3
    attempt_ns = min(2 * SECOND, renew_ns // 2)
    margin_ns = max(SECOND // 4, lease_s * SECOND // 10)
    promised_s = (lease_s * SECOND - margin_ns - renew_ns - attempt_ns) / SECOND
    made = rules(3, duration_ns=lease_s * SECOND, renew_every_ns=renew_ns, attempt_ns=attempt_ns, margin_ns=margin_ns)
    for phase in range(36):
        world = settled(World(7000 + phase, 1, made))
        world.run(lease_s + renew_ns / SECOND * phase / 36)
        world.change_weather(Weather(outage=True))
        world.run(promised_s * 0.98)
        world.change_weather(CLEAR)
        world.run(lease_s)
        assert not world.kills, world.report(f"a child was killed at phase {phase}")
