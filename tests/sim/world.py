"""A whole fleet on virtual time: the real core, a model store, a network that misbehaves, children with fences.

Every host runs `leaseset.step` on a clock of its own (offset and rate). The world carries out its effects with
delays drawn from one seeded generator, and checks after every event what must hold. A violation raises
`AssertionError` with the seed and the last events, so that a failing run can be read and repeated.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from supervisor import leaseset, model
from supervisor.model import MS, SECOND, Moment, Report, Rules, ShardRule
from supervisor.records import Applied, Claim, Lease, Member, Outcome, Refused, Release, Renew, Unknown, Write
from supervisor.state import State, begin
from tests.sim.store import ModelStore


class Answer(Protocol):
    """Lets the answer of a call arrive within `high_ms`, or late if the weather wants it."""

    def __call__(self, event: model.Event, high_ms: float = 10) -> None: ...


@dataclass(slots=True)
class Weather:
    """How the network behaves. Probabilities per call; `outage` lets nothing through."""

    lost_request: float = 0.0
    lost_write: float = 0.0  # reads go through
    lost_read: float = 0.0
    lost_answer: float = 0.0  # of a write, which was applied
    late_request: float = 0.0  # lands after the caller stopped waiting
    late_answer: float = 0.0  # done in time, but the answer comes after the caller stopped waiting; reads too
    unsent: float = 0.0  # the connection is refused: the write certainly did nothing
    repeated: float = 0.0  # a proxy sends it twice; the second answer is what arrives
    throttled: float = 0.0
    outage: bool = False


@dataclass(slots=True)
class Child:
    shard: str
    epoch: int
    deadline_ns: int  # on its host's clock
    born_ns: int
    started: bool = False
    hung_ns: int | None = None
    checkpoint: int = 0


@dataclass(slots=True, eq=False)
class Host:
    name: str
    state: State
    offset_ns: int
    rate: float
    children: dict[str, Child] = field(default_factory=dict)
    up: bool = True
    paused: bool = False
    inbox: deque[model.Event] = field(default_factory=deque)
    exit_code: int | None = None
    wake: int = 0
    weather: Weather | None = None  # this host's own, instead of the world's
    proofs: dict[tuple[str, int], int] = field(default_factory=dict)  # sending of the last write that was applied
    tried: set[tuple[str, int]] = field(default_factory=set)  # shards and epochs of all claims that were sent
    last_words: dict[tuple[str, int], str] = field(default_factory=dict)  # checkpoints that dying children handed in

    def clock(self, now_ns: int) -> int:
        return self.offset_ns + int(now_ns * self.rate)


def rules(shards: int = 4, policy: str = "fence", **changes: object) -> Rules:
    """Rules with T = 10 s and the defaults of the configuration, scaled."""
    defaults = Rules(
        fleet="sim",
        shards={f"s/{index}": ShardRule(policy) for index in range(shards)},
        capacity=1000,
        duration_ns=10 * SECOND,
        renew_every_ns=10 * SECOND // 3,
        poll_every_ns=SECOND,
        attempt_ns=1600 * MS,
        margin_ns=SECOND,
        start_ns=10 * SECOND,
        hang_ns=30 * SECOND,
        stop_ns=8 * SECOND,
        crash_limit=5,
        crash_window_ns=300 * SECOND,
    )
    return replace(defaults, **changes)


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
        self.adrift: list[tuple[Host, Write, int]] = []  # writes that were lost on their way, with their sending
        self.twins_until_ns = 0  # until then two copies of one supervisor may not know of each other
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
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
        self._note(f"{host.name} crashes")
        host.up = False
        host.children.clear()

    def pause(self, host: Host) -> None:
        """SIGSTOP of a supervisor: its children go on until their kernel timers end them."""
        self._note(f"{host.name} is stopped")
        host.paused = True

    def clone(self, host: Host) -> Host:
        """A restored snapshot of a machine that runs on: the same state, the same children, the same clock. The calls
        that were under way bring no answer to the copy."""
        self._note(f"{host.name} is copied")
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
        self._note(f"{host.name} goes on")
        host.paused = False
        self._deliver(host)

    def stop(self, host: Host) -> None:
        self._feed(host, model.StopRequested())

    def crash_child(self, host: Host, shard: str) -> None:
        child = host.children.get(shard)
        if host.up and child:
            self._note(f"{host.name} child {shard} {child.epoch} crashes")
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
            self.check()
            if until and until():
                return True
        self.now_ns = end_ns
        return bool(until and until())

    def _at(self, instant_ns: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (max(instant_ns, self.now_ns), self._order, action))

    def _after(self, low_ms: float, high_ms: float, action: Callable[[], None]) -> None:
        self._at(self.now_ns + int(self.rng.uniform(low_ms, high_ms) * MS), action)

    def _note(self, text: str) -> None:
        self.history.append(f"{self.now_ns / SECOND:10.4f} {text}")

    # --- stepping a host ----------------------------------------------------------------------------------

    def _feed(self, host: Host, event: model.Event) -> None:
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
            self._feed(host, model.Ticked(self._reports(host)))

    def _reports(self, host: Host) -> dict[str, Report]:
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
                self._check_kill(host, effect)
                self.kills.append((self.now_ns, host.name, shard, epoch, reason))
                self._note(f"{host.name} kills {shard} {epoch}: {reason}")
                self._after(1, 5, lambda: self._die_of(host, shard, epoch))
            case model.Stop(shard, epoch, _):
                self._after(self.stop_ms / 2, self.stop_ms, lambda: self._die_of(host, shard, epoch))
            case model.Start(shard, epoch, deadline_ns, _):
                self._start(host, shard, epoch, deadline_ns)
            case model.Extend(shard, epoch, deadline_ns):
                child = host.children.get(shard)
                if child and child.epoch == epoch:
                    assert deadline_ns >= child.deadline_ns, self.report("a deadline moves back")
                    self._check_deadline(host, shard, epoch, deadline_ns)
                    child.deadline_ns = deadline_ns
                    self._arm(host, child)
            case model.Renewals(writes):
                assert len({write.shard for write in writes}) == len(writes), self.report("a row twice in a batch")
                for write in writes:
                    child = host.children.get(write.shard)
                    vouched = child is not None and self._beats(host, child)
                    assert vouched, self.report(f"{write.shard} is renewed for a child that does not live")
                    self._send(host, write)
            case model.Apply(write):
                if isinstance(write, Release):
                    alive = [child for _, child in self._children(write.shard) if child.epoch == write.epoch]
                    assert not alive, self.report(f"{write.shard} released before its child was dead")
                if isinstance(write, Claim):
                    key = (write.shard, write.epoch)
                    assert key not in host.tried, self.report(f"epoch {write.epoch} of {write.shard} is tried again")
                    host.tried.add(key)
                self._send(host, write)
            case model.Read(shard):
                self._read(host, shard)
            case model.TakeSnapshot():
                self._snapshot(host)
            case model.Prove(member):
                self._prove(host, member)
            case model.Log():
                self.logs.append((self.now_ns, host.name, effect))
                self._note(f"{host.name} {effect.event} {effect.shard} {effect.epoch or ''} {effect.reason}")
            case model.Exit(code, reason):
                self._note(f"{host.name} exits {code}: {reason}")
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
        self._check_deadline(host, shard, epoch, deadline_ns)
        self.epochs[shard] = epoch
        self.starts.append((self.now_ns, host.name, shard, epoch))
        child = Child(shard, epoch, deadline_ns, self.now_ns)
        host.children[shard] = child
        self._arm(host, child)
        self._begin_work(child)

    def _begin_work(self, child: Child) -> None:
        def begin() -> None:
            child.started = True

        self._after(5, 200, begin)

    def _arm(self, host: Host, child: Child) -> None:
        """The kernel's timer: it fires on the host's clock whatever the supervisor does."""
        deadline_ns = child.deadline_ns
        real_ns = int((deadline_ns - host.offset_ns) / host.rate) + 1

        def fire() -> None:
            alive = host.children.get(child.shard) is child and child.deadline_ns == deadline_ns
            if alive and self.kernel_timers:
                self.kills.append((self.now_ns, host.name, child.shard, child.epoch, "timer"))
                self._note(f"{host.name} timer ends {child.shard} {child.epoch}")
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
        self._feed(host, model.Exited(child.shard, child.epoch, report))

    # --- the network --------------------------------------------------------------------------------------

    def _weather(self, host: Host) -> Weather:
        return host.weather or self.weather

    def _attempt(self, host: Host, silence: model.Event) -> Answer:
        """A call begins: how its answer comes back, after a delay. The caller is told `silence` at its deadline
        unless the answer came before; a later answer is passed on too."""
        attempt_ms = self.rules.attempt_ns / MS
        answered = False

        def give_up() -> None:
            if not answered:
                self._feed(host, silence)

        def arrive(event: model.Event) -> None:
            nonlocal answered
            answered = True
            self._feed(host, event)

        self._after(attempt_ms, attempt_ms, give_up)
        late = self.rng.random() < self._weather(host).late_answer

        def answer(event: model.Event, high_ms: float = 10) -> None:
            self._after(*((attempt_ms, 3 * attempt_ms) if late else (1, high_ms)), lambda: arrive(event))

        return answer

    def _send(self, host: Host, write: Write) -> None:
        weather, rng = self._weather(host), self.rng
        sent_ns = host.clock(self.now_ns)
        answer = self._attempt(host, model.Answered(write, Unknown("timeout")))
        if rng.random() < weather.unsent:
            host.tried.discard((getattr(write, "shard", ""), getattr(write, "epoch", 0)))
            answer(model.Answered(write, Unknown("refused", unsent=True)))
            return
        if weather.outage or rng.random() < weather.lost_request + weather.lost_write:
            self.adrift.append((host, write, sent_ns))
            return
        if rng.random() < weather.throttled:
            answer(model.Answered(write, Unknown("throttled")), 20)
            return
        late = rng.random() < weather.late_request
        eaten = rng.random() < weather.lost_answer
        repeated = rng.random() < weather.repeated

        def land() -> None:
            outcome = self._apply(host, write, sent_ns)
            if repeated:
                outcome = self._apply(host, write, sent_ns)
            if not eaten:
                answer(model.Answered(write, outcome))

        attempt_ms = self.rules.attempt_ns / MS
        self._after(*((500, 3 * attempt_ms) if late else (1, 10)), land)

    def _apply(self, host: Host, write: Write, sent_ns: int) -> Outcome:
        before = getattr(write, "shard", None) and self.store.leases.get(write.shard)
        outcome = self.store.apply(write)
        if isinstance(write, Claim | Release | Renew) and isinstance(outcome, Applied):
            self._check_row(host, write, before, self.store.leases[write.shard])
        if isinstance(write, Claim | Renew) and isinstance(outcome, Applied):
            key = (write.shard, write.epoch)
            host.proofs[key] = max(sent_ns, host.proofs.get(key, sent_ns))
        if isinstance(write, Claim | Release) or isinstance(outcome, Refused):
            epoch = getattr(write, "epoch", "")
            self._note(
                f"store: {host.name} {type(write).__name__} {getattr(write, 'shard', '')} {epoch} "
                f"-> {type(outcome).__name__}"
            )
        return outcome

    def land(self, kind: type[Claim] | type[Renew], number: int, answered: bool = True) -> Outcome:
        """A lost write of this kind (0: the first) was only delayed: it lands now, and its answer may come."""
        host, write, sent_ns = [entry for entry in self.adrift if isinstance(entry[1], kind)][number]
        outcome = self._apply(host, write, sent_ns)
        if answered:
            self._feed(host, model.Answered(write, outcome))
        return outcome

    def _read(self, host: Host, shard: str) -> None:
        asked_ns = host.clock(self.now_ns)
        answer = self._attempt(host, model.ReadFailed(shard, "timeout"))
        if self._lost(host):
            return

        def land() -> None:
            answer(model.RowRead(shard, self.store.leases.get(shard), asked_ns))

        self._after(1, 10, land)

    def _snapshot(self, host: Host) -> None:
        asked_ns = host.clock(self.now_ns)
        answer = self._attempt(host, model.SnapshotFailed("timeout"))
        if self._lost(host):
            return
        self._after(1, 10, lambda: answer(model.Snapshotted(self.store.snapshot(), asked_ns), 50))

    def _prove(self, host: Host, member: Member) -> None:
        answer = self._attempt(host, model.ProofFailed("timeout"))
        if self._lost(host):
            return

        def land() -> None:
            self.store.members[member.id] = member
            answer(model.Proved(member))

        self._after(1, 10, land)

    def _lost(self, host: Host) -> bool:
        weather = self._weather(host)
        return weather.outage or self.rng.random() < weather.lost_request + weather.lost_read

    # --- what must hold -----------------------------------------------------------------------------------

    def _check_row(self, host: Host, write: Write, before: Lease | None, after: Lease) -> None:
        assert before is not None
        if isinstance(write, Claim):
            assert after.epoch > before.epoch, self.report("a claim does not raise the epoch")
            self.claimed[write.shard, write.epoch] = host
        last_words = None
        if isinstance(write, Release) or (isinstance(write, Claim) and write.keep_move):
            last_words = host.last_words.get((after.shard, before.epoch))
        known = [_token(text) for text in (before.checkpoint, last_words) if text]
        assert all(_token(after.checkpoint) >= token for token in known), self.report(
            f"the checkpoint of {after.shard} moves back from {max(known)} to {after.checkpoint}"
        )

    def _check_deadline(self, host: Host, shard: str, epoch: int, deadline_ns: int) -> None:
        """A deadline counts from the sending of a write that was applied; only `hold` may go beyond."""
        latest_ns = host.proofs[shard, epoch] + self.rules.duration_ns - self.rules.margin_ns
        held = self.rules.shards[shard].policy == "hold"
        assert deadline_ns <= latest_ns or held, self.report(
            f"the deadline of {shard} {epoch} is {(deadline_ns - latest_ns) / SECOND} s too late"
        )

    def _check_kill(self, host: Host, kill: model.Kill) -> None:
        row = self.store.leases.get(kill.shard)
        child = host.children.get(kill.shard)
        if kill.reason == "lost" and self.now_ns > self.twins_until_ns:
            ours = row is not None and (row.owner, row.epoch) == (host.state.me, kill.epoch)
            assert not ours, self.report(f"{kill.shard} {kill.epoch} is killed as lost while it is ours")
        if kill.reason == "fenced" and child and child.epoch == kill.epoch:
            assert host.clock(self.now_ns) >= child.deadline_ns, self.report(f"{kill.shard} is fenced too early")

    def check(self) -> None:
        """At most one child of a shard can deliver, and none with an epoch below one that already has."""
        for shard in self.rules.shards:
            live = self.live(shard)
            if not live:
                continue
            if len(live) > 1 and not self._may_be_twins(live):
                raise AssertionError(self.report(f"{shard} has {len(live)} children that can deliver"))
            if live[0][1].started:
                epoch = live[0][1].epoch
                if epoch < self.delivered.get(shard, 0):
                    raise AssertionError(self.report(f"{shard} delivers under the old epoch {epoch}"))
                self.delivered[shard] = epoch
                self.served_ns[shard] = self.now_ns

    def _may_be_twins(self, live: Iterable[tuple[Host, Child]]) -> bool:
        """Two copies of one supervisor run the same epoch until the first renewal of one is refused."""
        return self.now_ns < self.twins_until_ns and len({child.epoch for _, child in live}) == 1

    def report(self, what: str) -> str:
        lines = "\n".join(self.history)
        return f"{what} (seed {self.seed}, {self.now_ns / SECOND:.4f} s)\n{lines}"


def _token(checkpoint: str | None) -> tuple[int, ...]:
    """Checkpoints of the simulated children grow: `epoch count`."""
    return tuple(map(int, checkpoint.split())) if checkpoint else ()
