"""How long a shard may go without service once somebody is able to give it.

The clock of a shard without service starts at the latest of: the end of its service; the last fault that touched its
row, its owner or its child, or a write of a disturbed supervisor to its row; and the instant from which *one*
supervisor has been able all the time. Able is: it runs and has joined; neither it nor its machine is stopped; its
network has been clear for an attempt, and no late answer has reached it since; it has room; it waits for no backoff of
the shard, nor gave the shard up; and the row is neither paused nor nonsense. From then on the shard must be served
within T + 2 p of that supervisor's own clock and the time that calls and the start of a child take; T more if the row
is missing, since a deleted row may have a live child somewhere; T less if its owner is proven dead.

All of this is told by the world as it happens, at the end of each wait exactly, and by a look once a second. Nothing is
checked before `watch` was called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.model import MS, SECOND
from supervisor.core.phases import Idle, Shard
from supervisor.core.state import owned
from supervisor.records import Lease
from tests.sim.parts import Child, Host
from tests.sim.wishes import Wishes

if TYPE_CHECKING:
    from tests.sim.world import World

CALLS_NS = 500 * MS  # a few calls of at most 60 ms, and at most 200 ms until a child is ready
STEPS_MAX = 500  # of one supervisor in a second; more is a loop


class Service:
    def __init__(self, world: World) -> None:
        self._world = world
        self.worst_ns = 0  # the longest wait that counted
        self.worst_missing_ns = 0  # the longest for a row that was missing
        self.since: dict[str, int] = dict.fromkeys(world.rules.shards, 0)  # shards without service, and since when
        self._disturbed: dict[str, int] = dict.fromkeys(world.rules.shards, 0)
        self._missing: dict[str, int] = {}  # when the row was last seen missing
        self._company_ns = 0  # the last look at which not just one supervisor ran
        self.wishes = Wishes(world)
        self._steps = 0
        self._watching = False

    # --- what the world tells -----------------------------------------------------------------------------

    def lost(self, shard: str) -> None:
        """One of its children ended or cannot serve; there may be another, if that one was out of date."""
        if not self._is_served(shard):
            self.since.setdefault(shard, self._world.now_ns)

    def gained(self, shard: str) -> None:
        if shard in self.since and self._is_served(shard):
            self._judge(shard)
            del self.since[shard]

    def disturbed_ns(self, shard: str) -> int:
        return self._disturbed[shard]

    def disturb_shard(self, shard: str) -> None:
        self._disturbed[shard] = self._world.now_ns
        if shard not in self._world.store.leases:
            self._missing[shard] = self._world.now_ns

    def disturb_host(self, host: Host) -> None:
        host.disturbed_ns = self._world.now_ns
        for shard, row in self._world.store.leases.items():
            if row.owner == host.state.me or shard in host.children:
                self.disturb_shard(shard)

    def expect_hang(self, host: Host, child: Child) -> None:
        """A child that hangs counts as serving until it must have been found out."""
        assert child.hung_ns is not None

        def found_out() -> None:
            if host.children.get(child.shard) is child:
                self.disturb_shard(child.shard)
                self.lost(child.shard)

        self._world.at(host.world_ns(child.hung_ns + self._world.rules.hang_ns), found_out)

    # --- judging ------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Look once a second from now on."""
        self._watching = True
        self._look()

    def _look(self) -> None:
        world = self._world
        running = [host for host in world.hosts if host.running]
        assert world.steps - self._steps <= STEPS_MAX * (len(running) + 1), world.report("a loop")
        self._steps = world.steps
        if len(running) != 1:
            self._company_ns = world.now_ns
        for host in running:
            self._look_at(host)
        for shard in self.since:
            self._judge(shard)
        self.wishes.look()
        world.at(world.now_ns + SECOND, self._look)

    def _look_at(self, host: Host) -> None:
        world, rules = self._world, self._world.rules
        if owned(host.state) >= rules.capacity:
            host.full_ns = world.now_ns
        if host.state.stage in ("looking", "proving") and host.awake and world.weather_of(host).clear:
            patience_ns = 3 * (rules.attempt_ns + rules.poll_every_ns)
            joined = world.now_ns <= host.disturbed_ns + patience_ns
            assert joined, world.report(f"{host.name} does not join")

    def _is_served(self, shard: str) -> bool:
        rules = self._world.rules
        return any(
            child.started and (child.hung_ns is None or host.clock(self._world.now_ns) < child.hung_ns + rules.hang_ns)
            for host, child in self._world.children.live(shard)
        )

    def _judge(self, shard: str) -> None:
        world = self._world
        row = world.store.leases.get(shard)
        stalled = any(child.stalled for _, child in world.children.of[shard])
        if shard in world.store.spoiled or stalled or (row and row.paused):
            self.disturb_shard(shard)
        if row is None:
            self._missing[shard] = world.now_ns
        if not self._watching:
            return
        from_ns = max(self.since[shard], self._disturbed[shard])
        for host in world.hosts:
            able_ns = self._able_ns(host, shard) if host.awake else None
            if able_ns is None:
                continue
            waited_ns = world.now_ns - max(from_ns, able_ns)
            missing = self._missing.get(shard, -1) >= from_ns
            bound_ns = self._bound_ns(host, missing, self._waits_for_nobody(host, row))
            if missing:
                self.worst_missing_ns = max(self.worst_missing_ns, waited_ns)
            else:
                self.worst_ns = max(self.worst_ns, waited_ns)
            assert waited_ns <= bound_ns, world.report(
                f"{shard} is not served after {waited_ns / SECOND:.2f} s, although {host.name} is able to: "
                f"its row is {row}, the supervisors stand at {self._stand(shard)}"
            )

    def _stand(self, shard: str) -> dict[str, object]:
        return {host.name: host.state.shards[shard] for host in self._world.hosts if host.running}

    def _able_ns(self, host: Host, shard: str) -> int | None:
        """Since when this supervisor, which is awake, could serve the shard; None: it cannot."""
        world, state = self._world, host.state
        if state.stage != "active" or not world.weather_of(host).clear:
            return None
        free_ns = self._free_ns(host, state.shards[shard])
        if free_ns > world.now_ns:
            return None
        return max(free_ns, host.disturbed_ns + world.rules.attempt_ns, host.full_ns)

    def _free_ns(self, host: Host, shard: Shard) -> int:
        """When it need not wait any longer because of crashes, nor leave the shard to others because it gave it up; the
        last of the others is out of its sight after T and two polls."""
        start_ns, rules = host.world_ns(shard.start_ns), self._world.rules
        if shard.gave_up_ns is None:
            return start_ns
        forgotten_ns = host.world_ns(shard.gave_up_ns + min(rules.duration_ns, rules.crash_window_ns))
        alone_ns = self._company_ns + int((rules.duration_ns + 2 * host.state.poll_ns) / host.rate)
        return max(start_ns, min(forgotten_ns, alone_ns))

    def _waits_for_nobody(self, host: Host, row: Lease | None) -> bool:
        """Whether the owner is known to be dead, or is the supervisor itself, by a claim that was applied late and of
        which it was never told that it was refused."""
        world = self._world
        if row is None or row.owner in host.dead:
            return row is not None
        started = row.epoch <= world.epochs.get(row.shard, 0)
        refused = row.shard in world.store.ever_spoiled or (row.shard, row.epoch) in world.network.revived
        if row.owner != host.state.me or started or refused:
            return False
        return isinstance(host.state.shards[row.shard].phase, Idle)

    def _bound_ns(self, host: Host, missing: bool, at_once: bool) -> int:
        rules = self._world.rules
        durations = 0 if at_once else 2 if missing else 1
        bound_ns = durations * rules.duration_ns + 2 * host.state.poll_ns
        return int(bound_ns / host.rate) + CALLS_NS
