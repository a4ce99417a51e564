"""A whole fleet on virtual time: the real core, a model store, a network that misbehaves, children with fences.

Every host runs `leaseset.step` on a clock of its own (offset and rate). The world carries out its effects with
delays drawn from one seeded generator, and checks after every event what must hold. A violation raises
`AssertionError` with the seed and the last events, so that a failing run can be read and repeated.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from supervisor import leaseset, model
from supervisor.model import MS, SECOND, Moment, Report, Rules
from supervisor.state import begin
from supervisor.writes import Claim, Release
from tests.sim import laws
from tests.sim.network import Network
from tests.sim.parts import Child, Host, Weather
from tests.sim.store import ModelStore


class World:
    def __init__(self, seed: int, hosts: int, rules: Rules, drift: float = 0.0) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.rules = rules
        self.drift = drift
        self.now_ns = 0
        self.wall_ms = 1_800_000_000_000
        self.store = ModelStore()
        self.weather = Weather()
        self.kernel_timers = True  # False: nothing but the supervisor ends a child at its deadline
        self.stop_ms = 300.0  # the longest that a child takes to end when asked to
        self.hosts: list[Host] = []
        self.history: deque[str] = deque(maxlen=200)
        self.steps = 0
        self.epochs: dict[str, int] = {}
        self.delivered: dict[str, int] = {}
        self.starts: list[tuple[int, str, str, int]] = []
        self.kills: list[tuple[int, str, str, int, str]] = []
        self.logs: list[tuple[int, str, model.Log]] = []
        self.served_ns: dict[str, int] = {}
        self.claimed: dict[tuple[str, int], Host] = {}  # whose claim made each epoch
        self.twins_until_ns = 0  # until then two copies of one supervisor may not know of each other
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.network = Network(self)
        for _ in range(hosts):
            self.add_host()

    # --- the fleet ----------------------------------------------------------------------------------------

    def add_host(self) -> Host:
        number = len(self.hosts)
        rate = 1.0 + self.drift * self.rng.uniform(-1, 1)
        offset_ns = self.rng.randrange(10**6 * SECOND)
        me = f"h{number}:{100 + number}:{self.rng.randrange(16**8):08x}"
        host = Host(me, begin(self.rules, me, 0), offset_ns, rate)
        host.state = begin(self.rules, me, host.clock(self.now_ns))
        self.hosts.append(host)
        self._schedule_tick(host)
        return host

    def crash(self, host: Host) -> None:
        """kill -9 of a supervisor: its children die with it."""
        self.note(f"{host.name} crashes")
        host.up = False
        host.children.clear()

    def pause(self, host: Host) -> None:
        """SIGSTOP of a supervisor: its children go on until their kernel timers end them."""
        self.note(f"{host.name} is stopped")
        host.paused = True

    def clone(self, host: Host) -> Host:
        """A restored snapshot of a machine that runs on: the same state, the same children, the same clock. The calls
        that were under way bring no answer to the copy."""
        self.note(f"{host.name} is copied")
        copy = replace(
            host,
            children={name: replace(child) for name, child in host.children.items()},
            inbox=deque(event for event in host.inbox if isinstance(event, model.Exited)),
            proofs=dict(host.proofs),
            tried=set(host.tried),
            last_words=dict(host.last_words),
        )
        self.hosts.append(copy)
        for child in copy.children.values():
            self._arm(copy, child)
            self._begin_work(child)
        self._schedule_tick(copy)
        self.twins_until_ns = self.now_ns + self.rules.renew_every_ns + 2 * self.rules.attempt_ns
        return copy

    def resume(self, host: Host) -> None:
        self.note(f"{host.name} goes on")
        host.paused = False
        self._deliver(host)

    def stop(self, host: Host) -> None:
        self.feed(host, model.StopRequested())

    def crash_child(self, host: Host, shard: str) -> None:
        child = host.children.get(shard)
        if host.up and child:
            self.note(f"{host.name} child {shard} {child.epoch} crashes")
            self._die(host, child)

    def hang_child(self, host: Host, shard: str) -> None:
        if shard in host.children:
            host.children[shard].hung_ns = host.clock(self.now_ns)

    def owner(self, shard: str) -> str | None:
        row = self.store.leases.get(shard)
        return row.owner if row else None

    def live(self, shard: str) -> list[tuple[Host, Child]]:
        """The children of a shard that could deliver at this instant."""
        return [
            (host, child)
            for host in self.hosts
            if (child := host.children.get(shard)) and host.clock(self.now_ns) < child.deadline_ns
        ]

    def served(self) -> set[str]:
        return {shard for shard in self.rules.shards if any(child.started for _, child in self.live(shard))}

    # --- time ---------------------------------------------------------------------------------------------

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let virtual time pass; True as soon as `until` holds (False: it never did)."""
        end_ns = self.now_ns + int(seconds * SECOND)
        while self._queue and self._queue[0][0] <= end_ns:
            self.now_ns, _, action = heapq.heappop(self._queue)
            action()
            laws.instant(self)
            if until and until():
                return True
        self.now_ns = end_ns
        return bool(until and until())

    def _at(self, instant_ns: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (max(instant_ns, self.now_ns), self._order, action))

    def after(self, low_ms: float, high_ms: float, action: Callable[[], None]) -> None:
        self._at(self.now_ns + int(self.rng.uniform(low_ms, high_ms) * MS), action)

    def note(self, text: str) -> None:
        self.history.append(f"{self.now_ns / SECOND:10.4f} {text}")

    # --- stepping a host ----------------------------------------------------------------------------------

    def feed(self, host: Host, event: model.Event) -> None:
        host.inbox.append(event)
        self._deliver(host)

    def _deliver(self, host: Host) -> None:
        while host.inbox and host.up and not host.paused and host.exit_code is None:
            event = host.inbox.popleft()
            now = Moment(host.clock(self.now_ns), self.wall_ms + self.now_ns // MS, self.rng.randbytes(8))
            self.steps += 1
            host.state, effects = leaseset.step(host.state, event, now)
            for effect in effects:
                self._perform(host, effect)
        self._schedule_tick(host)

    def _schedule_tick(self, host: Host) -> None:
        if not host.up or host.exit_code is not None:
            return
        host.wake += 1
        wake = host.wake
        wait_ns = max(0, leaseset.due_ns(host.state) - host.clock(self.now_ns))
        self._at(self.now_ns + int(wait_ns / host.rate) + MS, lambda: self._tick(host, wake))

    def _tick(self, host: Host, wake: int) -> None:
        if wake == host.wake and not host.paused:
            self.feed(host, model.Ticked(self.reports(host)))

    def reports(self, host: Host) -> dict[str, Report]:
        now_ns = host.clock(self.now_ns)
        return {shard: self._report(child, now_ns) for shard, child in host.children.items()}

    def _report(self, child: Child, now_ns: int) -> Report:
        child.checkpoint += child.started and child.hung_ns is None
        return Report(
            epoch=child.epoch,
            heartbeat_ns=now_ns if child.hung_ns is None else child.hung_ns,
            started=child.started,
            open=int(child.started),
            want=1,
            checkpoint=f"{child.epoch} {child.checkpoint}" if child.started else None,
        )

    # --- effects ------------------------------------------------------------------------------------------

    def _perform(self, host: Host, effect: model.Effect) -> None:
        match effect:
            case model.Kill(shard, epoch, reason):
                laws.child_killed(self, host, effect)
                self.kills.append((self.now_ns, host.name, shard, epoch, reason))
                self.note(f"{host.name} kills {shard} {epoch}: {reason}")
                self.after(1, 5, lambda: self._die_of(host, shard, epoch))
            case model.Stop(shard, epoch, _):
                self.after(self.stop_ms / 2, self.stop_ms, lambda: self._die_of(host, shard, epoch))
            case model.Start(shard, epoch, deadline_ns, _):
                self._start(host, shard, epoch, deadline_ns)
            case model.Extend(shard, epoch, deadline_ns):
                child = host.children.get(shard)
                if child and child.epoch == epoch:
                    assert deadline_ns >= child.deadline_ns, self.report("a deadline moves back")
                    laws.deadline_set(self, host, shard, epoch, deadline_ns)
                    child.deadline_ns = deadline_ns
                    self._arm(host, child)
            case model.Renewals(writes):
                assert len({write.shard for write in writes}) == len(writes), self.report("a row twice in a batch")
                for write in writes:
                    child = host.children.get(write.shard)
                    vouched = child is not None and self._beats(host, child)
                    assert vouched, self.report(f"{write.shard} is renewed for a child that does not live")
                    self.network.send(host, write)
            case model.Apply(write):
                if isinstance(write, Release):
                    alive = [child for _, child in self._children(write.shard) if child.epoch == write.epoch]
                    assert not alive, self.report(f"{write.shard} released before its child was dead")
                if isinstance(write, Claim):
                    key = (write.shard, write.epoch)
                    assert key not in host.tried, self.report(f"epoch {write.epoch} of {write.shard} is tried again")
                    host.tried.add(key)
                self.network.send(host, write)
            case model.Read(shard):
                self.network.read(host, shard)
            case model.TakeSnapshot():
                self.network.snapshot(host)
            case model.Prove(member):
                self.network.prove(host, member)
            case model.Log():
                self.logs.append((self.now_ns, host.name, effect))
                self.note(f"{host.name} {effect.event} {effect.shard} {effect.epoch or ''} {effect.reason}")
            case model.Exit(code, reason):
                self.note(f"{host.name} exits {code}: {reason}")
                host.exit_code = code

    def _beats(self, host: Host, child: Child) -> bool:
        return child.hung_ns is None or host.clock(self.now_ns) < child.hung_ns + self.rules.hang_ns

    def _children(self, shard: str) -> list[tuple[Host, Child]]:
        return [(host, host.children[shard]) for host in self.hosts if shard in host.children]

    def _start(self, host: Host, shard: str, epoch: int, deadline_ns: int) -> None:
        assert shard not in host.children, self.report(f"two children of {shard} on {host.name}")
        assert epoch > self.epochs.get(shard, 0), self.report(f"epoch {epoch} of {shard} is not new")
        assert self.claimed.get((shard, epoch)) is host, self.report(f"{shard} starts under an epoch it did not win")
        valid_ns = deadline_ns - host.clock(self.now_ns)
        assert valid_ns >= self.rules.renew_every_ns, self.report(f"{shard} starts with {valid_ns / SECOND} s left")
        laws.deadline_set(self, host, shard, epoch, deadline_ns)
        self.epochs[shard] = epoch
        self.starts.append((self.now_ns, host.name, shard, epoch))
        child = Child(shard, epoch, deadline_ns, self.now_ns)
        host.children[shard] = child
        self._arm(host, child)
        self._begin_work(child)

    def _begin_work(self, child: Child) -> None:
        def begin() -> None:
            child.started = True

        self.after(5, 200, begin)

    def _arm(self, host: Host, child: Child) -> None:
        """The kernel's timer: it fires on the host's clock whatever the supervisor does."""
        deadline_ns = child.deadline_ns
        real_ns = int((deadline_ns - host.offset_ns) / host.rate) + 1

        def fire() -> None:
            alive = host.children.get(child.shard) is child and child.deadline_ns == deadline_ns
            if alive and self.kernel_timers:
                self.kills.append((self.now_ns, host.name, child.shard, child.epoch, "timer"))
                self.note(f"{host.name} timer ends {child.shard} {child.epoch}")
                self._die(host, child)

        self._at(real_ns, fire)

    def _die_of(self, host: Host, shard: str, epoch: int) -> None:
        child = host.children.get(shard)
        if host.up and child and child.epoch == epoch:
            self._die(host, child)

    def _die(self, host: Host, child: Child) -> None:
        del host.children[child.shard]
        report = self._report(child, host.clock(self.now_ns))
        if report.checkpoint:
            host.last_words[child.shard, child.epoch] = report.checkpoint
        self.feed(host, model.Exited(child.shard, child.epoch, report))

    def report(self, what: str) -> str:
        lines = "\n".join(self.history)
        return f"{what} (seed {self.seed}, {self.now_ns / SECOND:.4f} s)\n{lines}"
