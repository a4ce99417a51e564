"""A whole fleet on virtual time: the real core, a model store, a network that misbehaves, children with fences.

Every host runs `leaseset.step` on a clock of its own (offset and rate). The world carries out its effects with
delays drawn from one seeded generator, and checks with every event what must hold of all that the event touched. A
violation raises `AssertionError` with the seed and the last events, so that a failing run can be read and repeated.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from supervisor.core import leaseset, model
from supervisor.core.model import MS, SECOND, Moment, Report, Rules
from supervisor.core.state import begin
from tests.sim import laws
from tests.sim.children import Children
from tests.sim.network import Network
from tests.sim.parts import CLEAR, Child, Doom, Host, Weather
from tests.sim.service import Service
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
        self.weather = CLEAR
        self.kernel_timers = True  # False: nothing but the supervisor ends a child at its deadline
        self.stop_ms = 300.0  # the longest that a child takes to end when asked to
        self.hosts: list[Host] = []
        self.history: deque[str] = deque(maxlen=200)
        self.digest = blake2b()  # of all that was ever noted
        self.steps = 0
        self.faults: Counter[str] = Counter()
        self.epochs: dict[str, int] = {}
        self.delivered: dict[str, int] = {}
        self.starts: list[tuple[int, str, str, int]] = []
        self.kills: list[tuple[int, str, str, int, str]] = []
        self.logs: list[tuple[int, str, model.Log]] = []
        self.changed_ns: dict[str, int] = {}  # when owner, epoch or beat of a row changed last
        self.claimed: dict[tuple[str, int], Host] = {}  # whose claim made each epoch
        self.promised: dict[tuple[str, int], tuple[int, str]] = {}  # duration and policy of each
        self.calmed_ns = 0  # commands of operators that were given before are not carried out any more
        self.twins_until_ns = 0  # until then two copies of one supervisor may not know of each other
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.network = Network(self)
        self.children = Children(self)
        self.service = Service(self)
        for _ in range(hosts):
            self.add_host()

    # --- the fleet ----------------------------------------------------------------------------------------

    def add_host(self) -> Host:
        machine = len({host.machine for host in self.hosts})
        rate = 1.0 + self.drift * self.rng.uniform(-1, 1)
        return self._boot(f"h{machine}", self.rng.randrange(10**6 * SECOND), rate)

    def _boot(self, machine: str, offset_ns: int, rate: float, dead: frozenset[str] = frozenset()) -> Host:
        me = f"{machine}:{100 + len(self.hosts)}:{self.rng.randrange(16**8):08x}"
        state = begin(self.rules, me, offset_ns + int(self.now_ns * rate), dead)
        host = Host(me, state, offset_ns, rate, dead=dead, disturbed_ns=self.now_ns)
        self.hosts.append(host)
        self.note(f"{me} starts{', knowing the dead' if dead else ''}")
        self._schedule_tick(host)
        return host

    def restart(self, host: Host, proof: bool) -> Host:
        """The next incarnation on the machine of one that is dead, which the machine's lock may prove."""
        assert not host.running, f"{host.name} still runs"
        # One that took a new id, because of a second copy of itself, has dropped what it knew.
        known = host.dead | {host.name} if host.state.me == host.name else frozenset((host.state.me,))
        return self._boot(host.machine, host.offset_ns, host.rate, known if proof else frozenset())

    def crash(self, host: Host) -> None:
        """kill -9 of a supervisor: its children die with it."""
        self.note(f"{host.name} crashes")
        self.service.disturb_host(host)
        host.up = False
        self.children.die_all(host)

    def doom(self, host: Host, steps: int, effects: int, then: Callable[[], object] = lambda: None) -> None:
        """Let it crash in the middle of one of its next steps (1: the next), when so many effects are carried out."""
        host.doom = Doom(host.steps + steps, effects, then)

    def pause(self, host: Host) -> None:
        """SIGSTOP of a supervisor: its children go on until their kernel timers end them."""
        self.note(f"{host.name} is stopped")
        self.service.disturb_host(host)
        host.paused = True

    def resume(self, host: Host) -> None:
        self.note(f"{host.name} goes on")
        host.paused = False
        self.service.disturb_host(host)
        self._wake(host)

    def freeze(self, host: Host) -> None:
        """The whole machine stops, its children and their timers too; only its clock goes on."""
        self.note(f"{host.name} is frozen with its machine")
        self.service.disturb_host(host)
        host.frozen = True
        for shard in host.children:
            self.service.lost(shard)

    def thaw(self, host: Host) -> None:
        """It goes on: what was due comes first, so that an overdue timer has fired before anything runs."""
        self.note(f"{host.name} goes on with its machine")
        host.frozen = False
        self.service.disturb_host(host)
        for shard in host.children:
            laws.shard_moved(self, shard)
            self.service.gained(shard)
        due, host.thaw = host.thaw, []
        for action in due:
            action()
        self._wake(host)

    def _wake(self, host: Host) -> None:
        """A process that goes on finds answers and an overdue timer, in either order; but its loop hears of deaths
        before it looks at its timers, so that these come first."""
        if host.awake and self.rng.random() < 0.5:
            deaths = [event for event in host.inbox if isinstance(event, model.Exited)]
            answers = [event for event in host.inbox if not isinstance(event, model.Exited)]
            host.inbox = deque([*deaths, model.Ticked(self.reports(host)), *answers])
        self._deliver(host)

    def clone(self, host: Host) -> Host:
        """A restored snapshot of a machine that runs on: the same state, the same children, the same clock. The calls
        that were under way bring no answer to the copy."""
        self.note(f"{host.name} is copied")
        copy = replace(
            host,
            children={name: replace(child) for name, child in host.children.items()},
            inbox=deque(event for event in host.inbox if isinstance(event, model.Exited)),
            thaw=[],
            proofs=dict(host.proofs),
            tried=set(host.tried),
            last_words=dict(host.last_words),
        )
        self.twins_until_ns = self.now_ns + self.rules.renew_every_ns + 2 * self.rules.attempt_ns
        self.hosts.append(copy)
        for child in copy.children.values():
            self.children.adopt(copy, child)
        self._schedule_tick(copy)
        return copy

    def stop(self, host: Host) -> None:
        self.note(f"{host.name} is asked to stop")
        self.service.disturb_host(host)
        self.feed(host, model.StopRequested())

    def reload(self, host: Host, rules: Rules, outdated: frozenset[str] = frozenset()) -> None:
        self.note(f"{host.name} reloads, outdated: {' '.join(sorted(outdated)) or 'none'}")
        self.service.disturb_host(host)
        self.feed(host, model.Reconfigured(rules))
        self.feed(host, model.Outdated(outdated))

    def crash_child(self, host: Host, shard: str) -> None:
        child = host.children.get(shard)
        if host.up and child:
            self.note(f"{host.name} child {shard} {child.epoch} crashes")
            self.service.disturb_shard(shard)
            self.children.die(host, child)

    def hang_child(self, host: Host, shard: str) -> None:
        child = host.children.get(shard)
        if child and child.hung_ns is None:
            self.note(f"{host.name} child {shard} {child.epoch} hangs")
            child.hung_ns = host.clock(self.now_ns)
            self.service.expect_hang(host, child)

    def change_weather(self, weather: Weather, host: Host | None = None) -> None:
        """For the whole fleet (and then for each host of it), or for one host."""
        for other in [host] if host else self.hosts:
            if other.running:
                self.service.disturb_host(other)
            other.weather = weather if host else None
        if host is None:
            self.weather = weather
        self.note(f"{host.name if host else 'all'}: {weather}")

    def weather_of(self, host: Host) -> Weather:
        return host.weather or self.weather

    def owner(self, shard: str) -> str | None:
        row = self.store.leases.get(shard)
        return row.owner if row else None

    def live(self, shard: str) -> list[tuple[Host, Child]]:
        """The children of a shard that could deliver at this instant."""
        return self.children.live(shard)

    def served(self) -> set[str]:
        return {shard for shard in self.rules.shards if any(child.started for _, child in self.live(shard))}

    # --- time ---------------------------------------------------------------------------------------------

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let virtual time pass; True as soon as `until` holds (False: it never did)."""
        end_ns = self.now_ns + int(seconds * SECOND)
        queue = self._queue
        while queue and queue[0][0] <= end_ns:
            self.now_ns, _, action = heapq.heappop(queue)
            action()
            if until and until():
                return True
        self.now_ns = end_ns
        return bool(until and until())

    def at(self, instant_ns: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (max(instant_ns, self.now_ns), self._order, action))

    def after(self, low_ms: float, high_ms: float, action: Callable[[], None]) -> None:
        self.at(self.now_ns + int((low_ms + (high_ms - low_ms) * self.rng.random()) * MS), action)

    def note(self, text: str) -> None:
        line = f"{self.now_ns / SECOND:10.4f} {text}"
        self.digest.update(line.encode())
        self.history.append(line)

    def report(self, what: str) -> str:
        lines = "\n".join(self.history)
        return f"{what} (seed {self.seed}, {self.now_ns / SECOND:.4f} s)\n{lines}"

    # --- stepping a host ----------------------------------------------------------------------------------

    def feed(self, host: Host, event: model.Event) -> None:
        host.inbox.append(event)
        self._deliver(host)

    def _deliver(self, host: Host) -> None:
        while host.inbox and host.awake:
            event = host.inbox.popleft()
            now = Moment(host.clock(self.now_ns), self.wall_ms + self.now_ns // MS, self.rng.randbytes(8))
            self.steps += 1
            host.steps += 1
            stage = host.state.stage
            host.state, effects = leaseset.step(host.state, event, now)
            if host.state.stage != stage:
                self.service.disturb_host(host)
            if host.doom and host.doom.step == host.steps:
                self._perish(host, host.doom, effects)
                return
            for effect in effects:
                self._perform(host, effect)
            if not isinstance(event, model.Ticked):
                laws.lost_are_killed(self, host)
        self._schedule_tick(host)

    def _perish(self, host: Host, doom: Doom, effects: model.Effects) -> None:
        for effect in effects[: doom.effects]:
            self._perform(host, effect)
        self.crash(host)
        doom.then()

    def _schedule_tick(self, host: Host) -> None:
        if not host.running:
            return
        host.wake += 1
        wake = host.wake
        due_ns = host.world_ns(leaseset.due_ns(host.state))
        self.at(max(due_ns, self.now_ns) + MS, lambda: self._tick(host, wake))

    def _tick(self, host: Host, wake: int) -> None:
        if wake == host.wake and host.awake:
            self.feed(host, model.Ticked(self.reports(host)))

    def reports(self, host: Host) -> dict[str, Report]:
        return {shard: self.children.report(host, child) for shard, child in host.children.items()}

    # --- effects ------------------------------------------------------------------------------------------

    def _perform(self, host: Host, effect: model.Effect) -> None:
        match effect:
            case model.Log():
                self.logs.append((self.now_ns, host.name, effect))
                self.note(f"{host.name} {effect.event} {effect.shard} {effect.epoch or ''} {effect.reason}")
            case model.Renewals(writes):
                laws.renewals_sent(self, host, writes)
                for write in writes:
                    self.network.send(host, write)
            case model.Apply(write):
                laws.write_sent(self, host, write)
                self.network.send(host, write)
            case model.Extend(shard, epoch, deadline_ns):
                self.children.extend(host, shard, epoch, deadline_ns)
            case model.TakeSnapshot():
                self.network.snapshot(host)
            case model.Read(shard):
                self.network.read(host, shard)
            case model.Start(shard, epoch, deadline_ns, _):
                self.note(f"{host.name} starts {shard} {epoch}")
                self.children.start(host, shard, epoch, deadline_ns)
                self.starts.append((self.now_ns, host.name, shard, epoch))
            case model.Kill(shard, epoch, reason):
                laws.child_killed(self, host, effect)
                self.kills.append((self.now_ns, host.name, shard, epoch, reason))
                self.note(f"{host.name} kills {shard} {epoch}: {reason}")
                self.children.soon(host, 1, 5, lambda: self.children.die_of(host, shard, epoch))
            case model.Stop(shard, epoch, reason):
                self.note(f"{host.name} stops {shard} {epoch}: {reason}")
                self.children.stop(host, shard, epoch)
            case model.Prove(member):
                self.network.prove(host, member)
            case model.Exit(code, reason):
                self.note(f"{host.name} exits {code}: {reason}")
                host.exit_code = code
