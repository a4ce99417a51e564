"""Planned scenarios on single rows: copies of a machine, restored and missing rows, writes that come late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.model import SECOND
from supervisor.core.phases import Claiming, Idle, Wanted
from supervisor.records import Member
from supervisor.writes import Applied, Claim, Refused
from tests.sim.chaos import settled
from tests.sim.parts import Host, Weather, rules
from tests.sim.world import World


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
    assert world.run(3, until=lambda: all(shard in host.state.watch.gone for host in watchers))
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
    assert world.run(30, until=lambda: any(isinstance(write, Claim) for _, write, _ in world.network.adrift))
    owner.weather = None
    beat = world.store.leases["s/0"].beat
    assert world.run(10, until=lambda: world.store.leases["s/0"].beat > beat), world.report("not renewed")
    assert isinstance(world.network.land(Claim, 0), Refused), world.report("the claim took a lease that was renewed")
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
    assert isinstance(world.network.land(Claim, 0), Applied)
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
    assert isinstance(world.network.land(Claim, 0), Applied)
    settled(world, 2.5)


def test_a_claim_whose_answer_is_lost_is_settled_by_reading_the_row() -> None:
    world = World(703, 1, rules(1))
    world.run(0.9)
    host = world.hosts[0]
    host.weather = Weather(lost_write=1.0)
    assert world.run(5, until=lambda: bool(host.tried))
    assert isinstance(world.network.land(Claim, 0, answered=False), Applied)
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
    assert world.run(3, until=lambda: "s/0" in blind.state.watch.gone and not owner.children)
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


def test_rows_of_members_that_died_long_ago_are_deleted_and_slow_nobody_down() -> None:
    world = World(40, 1, rules(4))
    for number in range(200):
        dead = Member(f"gone:{number}:x", "sim", "active", 7, "n", 10_000, 0, ())
        world.store.members[dead.id] = dead
    settled(world, 15)
    world.run(10 * 10 - 20)
    assert len(world.store.members) == 201
    world.run(60)
    assert set(world.store.members) == {world.hosts[0].name}


def test_a_row_that_does_not_parse_is_said_once_and_hurts_no_other() -> None:
    world = settled(World(41, 1, rules(2)))
    world.store.spoiled = {"s/9": "epoch is 'x', expected a whole number"}
    world.run(30)
    said = [log for _, _, log in world.logs if log.event == "row.rejected"]
    assert [(log.shard, log.reason) for log in said] == list(world.store.spoiled.items())
    assert world.served() == set(world.rules.shards)


def test_a_store_that_was_empty_long_before_the_first_snapshot_may_have_been_used_since() -> None:
    world = World(42, 1, rules(2))
    (late,) = world.hosts
    assert world.run(5, until=lambda: late.state.stage == "proving")
    late.weather = Weather(lost_read=1.0)
    world.run(20)
    assert (late.state.stage, late.state.polls) == ("active", 0)
    world.add_host()
    settled(world)
    world.store.leases.clear()
    late.weather = None
    assert world.run(10, until=lambda: late.state.polls == 1)
    world.run(0.5)
    assert not world.store.leases, world.report("created while a last child may still live")
