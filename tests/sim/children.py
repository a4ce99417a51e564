"""The kernels of the simulated hosts: what they run, and that they end a child at its deadline.

A child dies of a kill, of its own timer, by itself, or with its supervisor. While a machine is frozen its
children do nothing and nothing happens to them; what was due meanwhile happens when it goes on, timers first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from supervisor.core import model
from supervisor.core.model import MS, Report
from tests.sim import laws
from tests.sim.parts import Child, Host

if TYPE_CHECKING:
    from tests.sim.world import World


class Children:
    def __init__(self, world: World) -> None:
        self._world = world
        self.of: dict[str, list[tuple[Host, Child]]] = defaultdict(list)
        self.stalls: set[str] = set()  # shards whose next child never becomes ready

    def live(self, shard: str) -> list[tuple[Host, Child]]:
        """Those that could deliver at this instant."""
        now_ns = self._world.now_ns
        return [
            (host, child)
            for host, child in self.of[shard]
            if not host.frozen and host.clock(now_ns) < child.deadline_ns
        ]

    def start(self, host: Host, shard: str, epoch: int, deadline_ns: int) -> None:
        world = self._world
        laws.child_started(world, host, shard, epoch, deadline_ns)
        child = Child(shard, epoch, deadline_ns, world.now_ns, stalled=shard in self.stalls)
        self.stalls.discard(shard)
        host.children[shard] = child
        self.adopt(host, child)

    def adopt(self, host: Host, child: Child) -> None:
        self.of[child.shard].append((host, child))
        self._arm(host, child)
        laws.shard_moved(self._world, child.shard)
        if not child.stalled:
            self.soon(host, 5, 200, lambda: self._begin(host, child))

    def _begin(self, host: Host, child: Child) -> None:
        if host.children.get(child.shard) is child and not child.started:
            child.started = True
            laws.shard_moved(self._world, child.shard)
            self._world.service.gained(child.shard)

    def extend(self, host: Host, shard: str, epoch: int, deadline_ns: int) -> None:
        child = host.children.get(shard)
        if child and child.epoch == epoch:
            child.held = laws.deadline_set(self._world, host, shard, epoch, deadline_ns)
            assert deadline_ns >= child.deadline_ns, self._world.report("a deadline moves back")
            child.deadline_ns = deadline_ns
            laws.shard_moved(self._world, shard)
            self._world.service.gained(shard)

    def stop(self, host: Host, shard: str, epoch: int) -> None:
        child = host.children.get(shard)
        if child and child.epoch == epoch:
            child.stop_ns = host.clock(self._world.now_ns)
            self.soon(host, self._world.stop_ms / 2, self._world.stop_ms, lambda: self.die_of(host, shard, epoch))

    def report(self, host: Host, child: Child) -> Report:
        now_ns = host.clock(self._world.now_ns)
        child.checkpoint += child.started and child.hung_ns is None
        return Report(
            epoch=child.epoch,
            heartbeat_ns=now_ns if child.hung_ns is None else child.hung_ns,
            started=child.started,
            open=int(child.started),
            want=1,
            checkpoint=f"{child.epoch} {child.checkpoint}" if child.started else None,
        )

    # --- dying --------------------------------------------------------------------------------------------

    def _arm(self, host: Host, child: Child) -> None:
        """The kernel's timer: it fires on the host's clock whatever the supervisor does."""
        self._world.at(host.world_ns(child.deadline_ns), lambda: self._fire(host, child))

    def _fire(self, host: Host, child: Child) -> None:
        if host.children.get(child.shard) is not child:
            return
        if host.clock(self._world.now_ns) < child.deadline_ns:
            self._arm(host, child)
        elif host.frozen:
            host.thaw.insert(0, lambda: self._fire(host, child))
        elif self._world.kernel_timers:
            self._world.kills.append((self._world.now_ns, host.name, child.shard, child.epoch, "timer"))
            self._world.note(f"{host.name} timer ends {child.shard} {child.epoch}")
            self.die(host, child)
        else:
            late_ms = laws.LATE_NS / MS
            self._world.after(late_ms, late_ms, lambda: laws.deadline_passed(self._world, host, child))

    def die_of(self, host: Host, shard: str, epoch: int) -> None:
        child = host.children.get(shard)
        if host.up and child and child.epoch == epoch:
            self.die(host, child)

    def die(self, host: Host, child: Child) -> None:
        self._forget(host, child)
        report = self.report(host, child)
        if report.checkpoint:
            host.last_words[child.shard, child.epoch] = report.checkpoint
        self._world.service.lost(child.shard)
        self._world.feed(host, model.Exited(child.shard, child.epoch, report))

    def die_all(self, host: Host) -> None:
        """Everything dies with the supervisor."""
        for child in list(host.children.values()):
            self._forget(host, child)
            self._world.service.lost(child.shard)

    def _forget(self, host: Host, child: Child) -> None:
        del host.children[child.shard]
        self.of[child.shard] = [pair for pair in self.of[child.shard] if pair[1] is not child]

    # --- frozen machines ----------------------------------------------------------------------------------

    def soon(self, host: Host, low_ms: float, high_ms: float, action: Callable[[], None]) -> None:
        """Something that happens on a host, unless it is frozen at that instant: then as soon as it goes on."""

        def happen() -> None:
            if host.frozen:
                host.thaw.append(action)
            else:
                action()

        self._world.after(low_ms, high_ms, happen)
