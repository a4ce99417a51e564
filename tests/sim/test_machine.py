"""A fleet as a state machine: hypothesis looks for a sequence of faults that breaks a rule, and shortens what it finds.

Safety is checked by the world after every event; at the end of every run calm returns, and everything must be served.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.sim import laws
from tests.sim.chaos import disturb, recover
from tests.sim.parts import Host, Weather, rules
from tests.sim.world import World

SHARDS = 2
HOSTS_MAX = 4
CHANCES = st.sampled_from((0.0, 0.2, 0.5, 1.0))
HOST = st.integers(0, HOSTS_MAX - 1)
SHARD = st.sampled_from([f"s/{index}" for index in range(SHARDS)])


class Fleet(RuleBasedStateMachine):
    world: World

    @initialize(seed=st.integers(0, 2**32), hosts=st.integers(1, 3), kernel_timers=st.booleans())
    def begin(self, seed: int, hosts: int, kernel_timers: bool) -> None:
        self.world = World(seed, hosts, rules(SHARDS), drift=0.02)
        self.world.kernel_timers = kernel_timers

    def host(self, number: int) -> Host:
        return self.world.hosts[number % len(self.world.hosts)]

    @property
    def running(self) -> list[Host]:
        return [host for host in self.world.hosts if host.up and host.exit_code is None]

    @rule(seconds=st.floats(0.001, 15))
    def time_passes(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule(number=HOST)
    def a_supervisor_is_killed(self, number: int) -> None:
        self.world.crash(self.host(number))

    @precondition(lambda self: self.world.kernel_timers)
    @rule(number=HOST, seconds=st.floats(0.001, 20))
    def a_supervisor_is_stopped_for_a_while(self, number: int, seconds: float) -> None:
        host = self.host(number)
        self.world.pause(host)
        self.world.run(seconds)
        if host.up:
            self.world.resume(host)

    @rule(number=HOST)
    def a_stop_is_requested(self, number: int) -> None:
        host = self.host(number)
        if host in self.running:
            self.world.stop(host)

    @precondition(lambda self: len(self.running) < HOSTS_MAX)
    @rule()
    def a_supervisor_joins(self) -> None:
        self.world.add_host()

    @rule(number=HOST, shard=SHARD)
    def a_child_crashes(self, number: int, shard: str) -> None:
        self.world.crash_child(self.host(number), shard)

    @rule(number=HOST, shard=SHARD)
    def a_child_hangs(self, number: int, shard: str) -> None:
        self.world.hang_child(self.host(number), shard)

    @rule(
        weather=st.builds(
            Weather,
            lost_request=CHANCES,
            lost_write=CHANCES,
            lost_read=CHANCES,
            lost_answer=CHANCES,
            late_request=CHANCES,
            late_answer=CHANCES,
            unsent=CHANCES,
            repeated=CHANCES,
            throttled=CHANCES,
        ),
        number=st.none() | HOST,
    )
    def the_network_misbehaves(self, weather: Weather, number: int | None) -> None:
        if number is None:
            self.world.weather = weather
        else:
            self.host(number).weather = weather

    @rule(number=HOST)
    def a_host_is_cut_off(self, number: int) -> None:
        self.host(number).weather = Weather(outage=True)

    @rule()
    def the_network_is_calm(self) -> None:
        disturb(self.world, "calm")

    @rule(shard=SHARD)
    def somebody_else_takes_a_row(self, shard: str) -> None:
        if row := self.world.store.leases.get(shard):
            thief = replace(row, owner="thief:1:00", epoch=row.epoch + 1, beat=0, nonce="x")
            self.world.store.leases[shard] = thief

    @rule(shard=SHARD, paused=st.booleans())
    def a_shard_is_paused_or_resumed(self, shard: str, paused: bool) -> None:
        if row := self.world.store.leases.get(shard):
            self.world.store.leases[shard] = replace(row, paused=paused)

    @rule(days=st.sampled_from((-1, 1)))
    def the_wall_clock_steps(self, days: int) -> None:
        self.world.wall_ms += days * 86_400_000

    @invariant()
    def nobody_breaks_a_rule(self) -> None:
        if hasattr(self, "world"):
            laws.instant(self.world)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            recover(self.world)


# A failure takes long: hypothesis makes it as short as it can.
TestFleet = pytest.mark.timeout(600)(Fleet.TestCase)
TestFleet.settings = settings(
    max_examples=200, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
