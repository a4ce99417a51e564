"""A large fleet on virtual time: the real core of each supervisor, the model store, and what their calls cost.

Of the laws of a simulated world it keeps those that can be kept count of for ten thousand shards at once: at most one
child of a shard lives, and epochs rise. The network is healthy; faults are what `World` is for. What it adds is
what a large fleet runs into: a supervisor makes one call after the other (the CPU time of its client is what bounds
them), a snapshot takes time by its rows, a call that waits beyond its deadline is never made. All calls are counted.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from supervisor.core import leaseset, model
from supervisor.core.model import MS, SECOND, Moment, Report, Rules
from supervisor.core.state import State, begin
from supervisor.writes import Applied, Claim, Create, Refused, Renew, Unknown, Write
from tests.costs import ROW_CPU_S, SNAPSHOT_ATTEMPTS
from tests.sim.store import ModelStore

# CPU time of a client, as measured with boto3.
CALL_NS = 2_500_000
BATCHED_NS = 150_000  # of one renewal in a batch
ROW_NS = round(ROW_CPU_S * SECOND)  # of one row of a snapshot
BATCH = 25
PROBE_WRITES = 3
ENDLESS_NS = 2**62


@dataclass(slots=True, eq=False)
class Host:
    name: str
    state: State
    offset_ns: int
    children: dict[str, Report] = field(default_factory=dict)
    up: bool = True
    wake: int = 0
    renewing_ns: int = 0  # until then its threads for renewals are busy
    calling_ns: int = 0  # and those for all other calls


class Fleet:
    """`counts`: calls by kind, `refused` and `unsent` ones among them; `rows_read`: by snapshots."""

    def __init__(self, seed: int, rules: Rules) -> None:
        self.rng = random.Random(seed)
        self.rules = rules
        self.now_ns = 0
        self.store = ModelStore()
        self.hosts: list[Host] = []
        self.counts: Counter[str] = Counter()
        self.owners: dict[str, Host] = {}  # of the child of each shard that lives
        self.epochs: dict[str, int] = {}
        self.starts: Counter[str] = Counter()
        self.gaps_s: list[float] = []  # for how long a shard was without a child, each time
        self._since: dict[str, int] = dict.fromkeys(rules.shards, 0)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    # --- the fleet ----------------------------------------------------------------------------------------

    def add(self) -> Host:
        number = len(self.hosts)
        offset_ns = self.rng.randrange(10**6 * SECOND)
        me = f"ip-10-0-{number // 256}-{number % 256}:{100 + number}:{self.rng.randrange(16**16):016x}"
        host = Host(me, begin(self.rules, me, offset_ns + self.now_ns), offset_ns)
        self.hosts.append(host)
        self._set_timer(host)
        return host

    def kill(self, host: Host) -> None:
        """The host disappears, with all its children."""
        host.up = False
        for shard in list(host.children):
            self._died(host, shard)

    def stop(self, host: Host) -> None:
        self._feed(host, [model.StopRequested()])

    @property
    def running(self) -> list[Host]:
        return [host for host in self.hosts if host.up]

    def all_owned(self) -> bool:
        return len(self.owners) == len(self.rules.shards)

    # --- time ---------------------------------------------------------------------------------------------

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let virtual time pass; True as soon as `until` holds."""
        end_ns = self.now_ns + int(seconds * SECOND)
        while self._queue and self._queue[0][0] <= end_ns:
            self.now_ns, _, action = heapq.heappop(self._queue)
            action()
            if until and until():
                return True
        self.now_ns = end_ns
        return bool(until and until())

    def at(self, instant_ns: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (instant_ns, self._order, action))

    def _ms(self, low: float, high: float) -> int:
        return int((low + (high - low) * self.rng.random()) * MS)

    # --- steps --------------------------------------------------------------------------------------------

    def _feed(self, host: Host, events: list[model.Event]) -> None:
        if not host.up:
            return
        for event in events:
            boot_ns = host.offset_ns + self.now_ns
            now = Moment(boot_ns, 1_800_000_000_000 + self.now_ns // MS, self.rng.randbytes(8))
            host.state, effects = leaseset.step(host.state, event, now)
            for effect in effects:
                self._perform(host, effect)
        self._set_timer(host)

    def _set_timer(self, host: Host) -> None:
        host.wake = wake = host.wake + 1
        self.at(max(leaseset.due_ns(host.state) - host.offset_ns, self.now_ns) + MS, lambda: self._tick(host, wake))

    def _tick(self, host: Host, wake: int) -> None:
        if host.wake == wake:
            self._feed(host, [model.Ticked(host.children)])

    def _perform(self, host: Host, effect: model.Effect) -> None:
        match effect:
            case model.Renewals(writes):
                for start in range(0, len(writes), BATCH):
                    self._renew(host, writes[start : start + BATCH])
            case model.Apply(write):
                self._call(host, lambda: self._apply(host, write), model.Answered(write, Unknown("late", unsent=True)))
            case model.Read(shard):
                asked_ns = host.offset_ns + self.now_ns
                self._call(host, lambda: self._read(shard, asked_ns), model.ReadFailed(shard, "late"))
            case model.TakeSnapshot():
                self._snapshot(host)
            case model.Prove(member):
                self.counts["writes"] += PROBE_WRITES
                self.store.members[member.id] = member
                self._later(host, self._ms(10, 30), model.Proved(member))
            case model.Start(shard, epoch):
                self._start(host, shard, epoch)
            case model.Kill(shard, epoch) | model.Stop(shard, epoch):
                last_ms = 5 if isinstance(effect, model.Kill) else 300
                self.at(self.now_ns + self._ms(1, last_ms), lambda: self._end(host, shard, epoch))
            case model.Exit():
                assert not host.children, f"{host.name} ends before its children"
                host.up = False

    # --- calls --------------------------------------------------------------------------------------------

    def _later(self, host: Host, delay_ns: int, *events: model.Event) -> None:
        self.at(self.now_ns + delay_ns, lambda: self._feed(host, list(events)))

    def _call(self, host: Host, work: Callable[[], model.Event], unsent: model.Event) -> None:
        """A call that is not about a renewal: it waits for its turn, and is never made if that comes too late."""
        wait_ns = max(0, host.calling_ns - self.now_ns)
        if wait_ns > self.rules.attempt_ns:
            self.counts["unsent"] += 1
            self._later(host, self.rules.attempt_ns, unsent)
            return
        host.calling_ns = self.now_ns + wait_ns + CALL_NS

        def land() -> None:
            self._later(host, self._ms(1, 5), work())

        self.at(self.now_ns + wait_ns + self._ms(2, 5), land)

    def _renew(self, host: Host, writes: tuple[Renew, ...]) -> None:
        begin_ns = max(self.now_ns, host.renewing_ns)
        host.renewing_ns = begin_ns + CALL_NS + len(writes) * BATCHED_NS

        def land() -> None:
            self.counts["renewals"] += len(writes)
            self.counts["writes"] += len(writes)
            answers = [model.Answered(write, self.store.apply(write)) for write in writes]
            self._later(host, self._ms(1, 5), *answers)

        self.at(host.renewing_ns + self._ms(1, 5), land)

    def _apply(self, host: Host, write: Write) -> model.Event:
        outcome = self.store.apply(write)
        kind = {Claim: "claims", Create: "creations"}.get(type(write), "other writes")
        self.counts["writes"] += 1
        self.counts[kind] += 1
        self.counts[f"{kind} refused"] += isinstance(outcome, Refused)
        if isinstance(write, Claim) and isinstance(outcome, Applied):
            assert write.epoch > self.epochs.get(write.shard, 0), f"epoch {write.epoch} of {write.shard} is not new"
            self.epochs[write.shard] = write.epoch
        return model.Answered(write, outcome)

    def _read(self, shard: str, asked_ns: int) -> model.Event:
        self.counts["reads"] += 1
        return model.RowRead(shard, self.store.leases.get(shard), asked_ns)

    def _snapshot(self, host: Host) -> None:
        """Its rows are read one page after the other; here all of them at one instant in between."""
        asked_ns = host.offset_ns + self.now_ns
        takes_ns = self._ms(2, 10) + (len(self.store.leases) + len(self.store.members)) * ROW_NS
        allowed_ns = SNAPSHOT_ATTEMPTS * self.rules.attempt_ns

        def land() -> None:
            snapshot = self.store.snapshot()
            rows = len(snapshot.leases) + len(snapshot.members)
            self.counts.update({"snapshots": 1, "rows read": rows})
            late = takes_ns > allowed_ns
            event = model.SnapshotFailed("late") if late else model.Snapshotted(snapshot, asked_ns)
            self.at(instant_ns, lambda: self._feed(host, [event]))

        instant_ns = self.now_ns + min(takes_ns, allowed_ns)
        self.at(self.now_ns + int(takes_ns * self.rng.random()), land)

    # --- children -----------------------------------------------------------------------------------------

    def _start(self, host: Host, shard: str, epoch: int) -> None:
        other = self.owners.get(shard)
        assert other is None, f"{shard} starts on {host.name} while it runs on {other and other.name}"
        assert epoch == self.epochs[shard], f"{shard} starts under epoch {epoch}, not {self.epochs[shard]}"
        self.owners[shard] = host
        self.starts[shard] += 1
        self.gaps_s.append((self.now_ns - self._since[shard]) / SECOND)
        host.children[shard] = Report(epoch, heartbeat_ns=ENDLESS_NS, started=True, open=1, want=1)

    def _end(self, host: Host, shard: str, epoch: int) -> None:
        report = host.children.get(shard)
        if host.up and report and report.epoch == epoch:
            self._died(host, shard)
            self._feed(host, [model.Exited(shard, epoch, report)])

    def _died(self, host: Host, shard: str) -> None:
        del host.children[shard], self.owners[shard]
        self._since[shard] = self.now_ns
