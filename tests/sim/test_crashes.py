"""A supervisor that crashes at any step, in the middle of what the step carries out: its shards are served again.

A scenario is played once to learn which steps the victim takes in it and how many effects each step has. Then it is
played again for every step, and every number of effects carried out before the crash. Afterwards either a peer takes
over, or the same machine starts a new incarnation: with the proof that the old one is dead it waits for no lease to run
out, without it does. The world checks all laws meanwhile, `service` among them, that nobody waits too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from supervisor.core import leaseset, model
from supervisor.core.model import SECOND
from supervisor.core.state import State
from tests.sim.chaos import disturb_row, settled
from tests.sim.parts import CLEAR, Host, Weather, rules
from tests.sim.world import World

RECLAIM_S = 2
RESTART_MS = 100
SETTLED_S = 26  # T and two polls, twice where a row is missing, and the calls

Doomed = Callable[[Host], None]
Scenario = Callable[[World, Doomed], None]  # tells who the victim is


def begins(world: World, doomed: Doomed) -> None:
    """From nothing to children that were renewed twice."""
    doomed(world.hosts[0])
    world.run(8)


def restarts_children(world: World, doomed: Doomed) -> None:
    settled(world)
    doomed(world.hosts[0])
    for shard in sorted(world.hosts[0].children):
        world.crash_child(world.hosts[0], shard)
        world.run(1)


def settles_claims(world: World, doomed: Doomed) -> None:
    """The answers to its claims are lost."""
    doomed(world.hosts[0])
    world.run(0.9)
    world.change_weather(Weather(lost_answer=1.0), world.hosts[0])
    world.run(3)
    world.change_weather(CLEAR, world.hosts[0])
    world.run(5)


def loses_rows(world: World, doomed: Doomed) -> None:
    """One is deleted, one is paused for a while."""
    settled(world)
    doomed(world.hosts[0])
    shards = sorted(world.hosts[0].children)
    disturb_row(world, shards[0], "delete_row")
    disturb_row(world, shards[1], "pause_row")
    world.run(6)
    disturb_row(world, shards[1], "resume_row")
    world.run(10)


def is_cut_off(world: World, doomed: Doomed) -> None:
    """Its children are fenced, and it claims what is left to claim when it is back."""
    settled(world)
    world.run(5)
    doomed(world.hosts[0])
    world.change_weather(Weather(outage=True), world.hosts[0])
    world.run(12)
    world.change_weather(CLEAR, world.hosts[0])
    world.run(5)


def stops(world: World, doomed: Doomed) -> None:
    settled(world)
    doomed(world.hosts[0])
    world.stop(world.hosts[0])
    world.run(5)


def gives(world: World, doomed: Doomed) -> None:
    """Somebody joins and asks for shards."""
    settled(world)
    doomed(world.hosts[0])
    world.add_host()
    world.run(8)


def asks(world: World, doomed: Doomed) -> None:
    settled(world)
    doomed(world.add_host())
    world.run(8)


def takes_over(world: World, doomed: Doomed) -> None:
    settled(world)
    world.crash(world.hosts[1])
    doomed(world.hosts[0])
    world.run(14)


def reclaims(world: World, doomed: Doomed) -> None:
    """It is itself a new incarnation that knows the dead."""
    settled(world)
    world.crash(world.hosts[0])
    doomed(world.restart(world.hosts[0], proof=True))
    world.run(5)


@dataclass(slots=True)
class Crash:
    """Of a victim in its next step of that number, after so many effects; its machine may start it again."""

    world: World
    step: int
    effects: int
    proof: bool | None = None  # None: nobody starts it again
    back_ns: int = 0
    owned: set[str] = field(default_factory=set)  # by the victim, when its next incarnation starts

    def doomed(self, victim: Host) -> None:
        self.world.doom(victim, self.step, self.effects, lambda: self._crashed(victim))

    def _crashed(self, victim: Host) -> None:
        if self.proof is not None:
            self.world.after(RESTART_MS, RESTART_MS, lambda: self._restart(victim))

    def _restart(self, victim: Host) -> None:
        rows = self.world.store.leases.values()
        self.owned = {row.shard for row in rows if row.owner == victim.name and not row.paused}
        self.back_ns = self.world.now_ns
        self.world.restart(victim, bool(self.proof))

    def wait_s(self, shard: str) -> float:
        """From the start of the next incarnation to that of the shard's child."""
        return next(
            (at - self.back_ns) / SECOND for at, _, name, _ in self.world.starts if name == shard and at > self.back_ns
        )


def fleet(hosts: int) -> World:
    world = World(hosts, hosts, rules(4))
    world.service.watch()
    return world


def points(scenario: Scenario, hosts: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The victim's steps, and for each every number of effects that a crash can leave carried out."""
    world = fleet(hosts)
    victims: list[Host] = []
    counts: list[int] = []
    step = leaseset.step

    def counting(state: State, event: model.Event, now: model.Moment) -> tuple[State, model.Effects]:
        after, effects = step(state, event, now)
        if victims and state.me == victims[0].name:
            counts.append(len(effects))
        return after, effects

    with monkeypatch.context() as patch:
        patch.setattr(leaseset, "step", counting)
        scenario(world, victims.append)
    assert counts, "the victim takes no step"
    return [(number, effects) for number, count in enumerate(counts, 1) for effects in range(max(1, count))]


@pytest.mark.parametrize(
    "scenario", [begins, restarts_children, settles_claims, loses_rows, is_cut_off, stops, gives, asks]
)
def test_peers_take_over_wherever_a_supervisor_crashes(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    for step, effects in points(scenario, 2, monkeypatch):
        crash = Crash(fleet(2), step, effects)
        scenario(crash.world, crash.doomed)
        settled(crash.world, SETTLED_S)


@pytest.mark.parametrize(
    "scenario", [begins, restarts_children, settles_claims, loses_rows, stops, takes_over, reclaims]
)
def test_wherever_a_supervisor_crashes_its_next_incarnation_takes_up_what_it_owned_at_once(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = 2 if scenario is takes_over else 1
    reclaimed = 0
    for step, effects in points(scenario, hosts, monkeypatch):
        crash = Crash(fleet(hosts), step, effects, proof=True)
        scenario(crash.world, crash.doomed)
        settled(crash.world, SETTLED_S)
        waits = {shard: crash.wait_s(shard) for shard in crash.owned}
        assert all(wait_s < RECLAIM_S for wait_s in waits.values()), crash.world.report(f"it waited: {waits}")
        reclaimed += len(waits)
    assert reclaimed


@pytest.mark.parametrize("scenario", [begins, restarts_children, reclaims])
def test_wherever_a_supervisor_crashes_its_next_incarnation_waits_without_a_proof(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = 0
    for step, effects in points(scenario, 1, monkeypatch):
        crash = Crash(fleet(1), step, effects, proof=False)
        scenario(crash.world, crash.doomed)
        settled(crash.world, SETTLED_S)
        waits = {shard: crash.wait_s(shard) for shard in crash.owned}
        duration_s = crash.world.rules.duration_ns / SECOND
        assert all(wait_s >= duration_s for wait_s in waits.values()), crash.world.report(f"it did not wait: {waits}")
        waited += len(waits)
    assert waited
