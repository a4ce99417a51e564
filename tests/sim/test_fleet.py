"""Fleets of simulated supervisors under random and planned faults: what must hold whatever happens."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.model import SECOND, Ticked
from supervisor.phases import Claiming, Idle, Wanted
from supervisor.records import Applied, Claim, Refused
from tests.sim.chaos import FAULTS, disturb, recover
from tests.sim.world import Host, Weather, World, rules


def settled(world: World, seconds: float = 30) -> World:
    everything = set(world.rules.shards)
    assert world.run(seconds, until=lambda: world.served() == everything), world.report("not all are served")
    return world


# A created row's epoch leans on the wall clock, so that one fleet never sees both a deleted row and a clock set back.
FAULT_SETS = [tuple(fault for fault in FAULTS if fault != without) for without in ("delete_row", "clock_step")]


@pytest.mark.parametrize("block", range(8))
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


def test_a_draining_supervisor_is_out_of_the_membership_before_its_first_release() -> None:
    world = settled(World(13, 2, rules(8)))
    leaving = world.hosts[0]
    held = set(leaving.children)
    world.stop(leaving)
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
    for seed in range(30):
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
    world._feed(host, Ticked(world._reports(host)))
    before = host.state
    world._feed(host, Ticked(world._reports(host)))
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


@pytest.mark.parametrize("peers", [0, 1])
def test_of_two_copies_of_one_machine_one_loses_everything_within_a_renewal_and_takes_a_new_id(peers: int) -> None:
    for seed in range(6):
        world = settled(World(600 + seed, 1 + peers, rules(6)))
        world.run(10 + seed / 3.7)
        original = world.hosts[0]
        copy = world.clone(original)
        world.run((world.rules.renew_every_ns + world.rules.attempt_ns) / SECOND)
        assert not set(original.children) & set(copy.children), world.report("both copies run the same shard")
        settled(world, 25)
        assert len({host.state.me for host in world.hosts}) == 2 + peers


def test_a_copy_that_finds_out_while_it_drains_still_ends() -> None:
    for seed in range(6):
        world = settled(World(620 + seed, 2, rules(6)))
        world.run(10 + seed / 3.7)
        world.stop_ms = 20_000.0
        copy = world.clone(world.hosts[0])
        world.stop(copy)
        assert world.run(60, until=lambda copy=copy: copy.exit_code is not None), world.report("it never ends")
        settled(world, 25)


def partitioned(seed: int) -> tuple[World, Host, str]:
    """Two supervisors, of which one loses the network right after it renewed a shard."""
    world = settled(World(seed, 2, rules(2)))
    world.run(20)
    owner = next(host for host in world.hosts if host.children)
    shard = min(owner.children)
    beat = world.store.leases[shard].beat
    assert world.run(10, until=lambda: world.store.leases[shard].beat > beat)
    world.run(0.05)
    owner.weather = Weather(outage=True)
    return world, owner, shard


def test_a_row_restored_to_an_older_free_state_waits_as_long_as_one_that_was_just_observed() -> None:
    world, owner, shard = partitioned(630)
    row = world.store.leases[shard]
    world.store.leases[shard] = replace(row, owner=None, epoch=row.epoch - 1)
    epoch = owner.children[shard].epoch
    assert world.run(40, until=lambda: world.epochs[shard] > epoch), world.report("never served again")


def test_a_row_that_was_missing_in_between_is_observed_anew() -> None:
    world = settled(World(640, 2, rules(2)))
    world.run(20)
    owner = next(host for host in world.hosts if host.children)
    shard = min(owner.children)
    seen = world.store.leases[shard]
    assert world.run(10, until=lambda: world.store.leases[shard].beat > seen.beat)
    before = world.store.leases[shard]
    watchers = [host for host in world.hosts if host is not owner]
    assert world.run(3, until=lambda: all(mark(host, shard) == before.triple for host in watchers))
    assert world.run(10, until=lambda: world.store.leases[shard].beat > before.beat)
    owner.weather = Weather(outage=True)
    assert all(mark(host, shard) == before.triple for host in watchers), "the newer beat was seen already"
    del world.store.leases[shard]
    assert world.run(3, until=lambda: all(shard in host.state.watch.missing for host in watchers))
    world.store.leases[shard] = before
    assert world.run(40, until=lambda: world.epochs[shard] > seen.epoch), world.report("never served again")


def mark(host: Host, shard: str) -> tuple[object, ...] | None:
    sighting = host.state.watch.leases.get(shard)
    return sighting.mark if sighting else None


def test_a_row_deleted_while_its_owner_is_cut_off_is_not_created_before_the_owners_child_is_dead() -> None:
    world, _, shard = partitioned(650)
    epoch = world.store.leases.pop(shard).epoch
    assert world.run(40, until=lambda: world.epochs[shard] > epoch), world.report("never served again")


def test_a_renewal_that_lands_after_the_observation_beats_the_claim() -> None:
    world = settled(World(660, 2, rules(1, "hold")))
    world.run(20)
    owner, peer = sorted(world.hosts, key=lambda host: not host.children)
    owner.weather = Weather(outage=True)
    peer.weather = Weather(lost_write=1.0)
    assert world.run(30, until=lambda: any(isinstance(write, Claim) for _, write, _ in world.adrift))
    owner.weather = None
    beat = world.store.leases["s/0"].beat
    assert world.run(10, until=lambda: world.store.leases["s/0"].beat > beat), world.report("not renewed")
    assert isinstance(world.land(Claim, 0), Refused), world.report("the claim took a lease that was renewed")
    assert not world.kills


def test_a_late_answer_starts_no_child_for_a_claim_that_was_given_up() -> None:
    world = World(670, 1, rules(1))
    world.run(0.9)
    host = world.hosts[0]
    host.weather = Weather(lost_write=1.0)

    def claims_again() -> bool:
        phase = host.state.shards["s/0"].phase
        return len(host.tried) > 1 and isinstance(phase, Claiming) and phase.unknown_ns is None

    assert world.run(60, until=claims_again), world.report("no second claim")
    assert isinstance(world.land(Claim, 0), Applied)
    assert not world.starts
    host.weather = None
    settled(world, 5)


def test_outage_policy_hold_keeps_the_children_through_an_outage() -> None:
    world = settled(World(690, 1, rules(2, "hold")))
    world.run(10)
    world.weather = Weather(outage=True)
    for _ in range(60):
        world.run(1)
        assert world.served() == set(world.rules.shards), world.report("a child was not kept")
    world.weather = Weather()
    world.run(20)
    assert not world.kills, world.report("a child was killed")


def test_answers_that_come_late_extend_nothing_beyond_their_sending_and_kill_nobody() -> None:
    world = settled(World(691, 1, rules(4)))
    world.weather = Weather(late_answer=0.7)
    world.run(600)
    assert not world.kills, world.report("a child was killed")


def test_a_claim_whose_connection_is_refused_is_tried_again() -> None:
    world = World(692, 2, rules(4))
    world.run(0.9)
    world.weather = Weather(unsent=0.7)
    settled(world, 60)


def test_a_crashed_child_restarts_where_it_was_by_one_write() -> None:
    world = settled(World(700, 2, rules(2)))
    world.run(5)
    owner = world.owner("s/0")
    host = next(host for host in world.hosts if host.name == owner)
    epoch = host.children["s/0"].epoch
    world.crash_child(host, "s/0")
    settled(world, 3)
    assert world.starts[-1][1:] == (owner, "s/0", epoch + 1)
    assert world.store.leases["s/0"].epoch == epoch + 1


def test_a_restart_after_lost_answers_is_one_write() -> None:
    world = settled(World(707, 1, rules(1)))
    world.run(5)
    host = world.hosts[0]
    beat = world.store.leases["s/0"].beat
    world.weather = Weather(lost_answer=1.0)
    assert world.run(10, until=lambda: world.store.leases["s/0"].beat > beat)
    world.weather = Weather(lost_read=1.0)
    world.crash_child(host, "s/0")
    assert world.run(3, until=lambda: len(world.starts) == 2), world.report("no restart")
    assert len(host.tried) == 2, world.report("claimed more than once")


def test_a_row_deleted_is_noticed_by_the_next_snapshot() -> None:
    world = settled(World(701, 1, rules(1)))
    world.run(5)
    world.hosts[0].weather = Weather(lost_write=1.0)
    del world.store.leases["s/0"]
    assert world.run(1.2, until=lambda: not world.hosts[0].children), world.report("the child lives on")


def test_a_claim_that_was_applied_late_is_taken_at_the_next_snapshot() -> None:
    world = World(702, 1, rules(1))
    world.run(0.9)
    host = world.hosts[0]
    host.weather = Weather(lost_write=1.0)
    assert world.run(60, until=lambda: host.tried and isinstance(host.state.shards["s/0"].phase, Idle))
    host.weather = None
    assert isinstance(world.land(Claim, 0), Applied)
    settled(world, 2.5)


def test_a_claim_whose_answer_is_lost_is_settled_by_reading_the_row() -> None:
    world = World(703, 1, rules(1))
    world.run(0.9)
    host = world.hosts[0]
    host.weather = Weather(lost_write=1.0)
    assert world.run(5, until=lambda: bool(host.tried))
    assert isinstance(world.land(Claim, 0, answered=False), Applied)
    host.weather = None
    settled(world, 4)
    assert len(host.tried) == 1, world.report("claimed again instead")


def test_a_release_that_got_lost_is_sent_again() -> None:
    world = settled(World(704, 2, rules(4)))
    world.run(5)
    leaving = world.hosts[0]
    world.stop(leaving)
    world.run(1.0)
    leaving.weather = Weather(lost_write=1.0)
    world.run(1.0)
    leaving.weather = None
    assert world.run(5, until=lambda: leaving.exit_code == 0), world.report("no clean end")
    settled(world, 2)


def test_a_row_missing_before_and_after_an_outage_may_have_been_there_in_between() -> None:
    world = settled(World(705, 2, rules(1)))
    world.run(5)
    owner, blind = sorted(world.hosts, key=lambda host: not host.children)
    row = world.store.leases.pop("s/0")
    assert world.run(3, until=lambda: "s/0" in blind.state.watch.missing and not owner.children)
    blind.weather = Weather(outage=True)
    world.store.leases["s/0"] = replace(row, owner=None, epoch=row.epoch + 10)
    assert world.run(30, until=lambda: bool(owner.children)), world.report("not served in between")
    world.run(12)
    owner.weather = Weather(outage=True)
    del world.store.leases["s/0"]
    blind.weather = None
    epoch = world.epochs["s/0"]
    assert world.run(40, until=lambda: world.epochs["s/0"] > epoch), world.report("never served again")


def test_a_lease_renewed_at_the_last_moment_is_not_taken() -> None:
    world = settled(World(706, 2, rules(1)))
    world.run(20)
    owner, peer = sorted(world.hosts, key=lambda host: not host.children)
    assert world.run(10, until=lambda: mark(peer, "s/0") == world.store.leases["s/0"].triple)
    peer.weather = Weather(lost_request=0.0)
    owner.weather = Weather(outage=True)
    wanted = world.run(20, until=lambda: isinstance(peer.state.shards["s/0"].phase, Wanted))
    assert wanted
    row = world.store.leases["s/0"]
    world.store.leases["s/0"] = replace(row, beat=row.beat + 1)
    world.run(2)
    assert not any(epoch > row.epoch for _, epoch in peer.tried), world.report("claimed")
