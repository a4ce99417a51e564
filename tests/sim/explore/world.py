"""A fleet as a value: one shard, a few supervisors that run the real core, their calls under way, and a store.

What may happen next is listed by `moves`, what comes of it is in `take`. Time passes in quanta:

- within a quantum everything that is due happens, in any order: ticks, requests that land, answers, deaths. Only then
  may time go on. A supervisor that is stopped hears nothing; its requests land, its child ends at its deadline;
- a request or an answer that is later than that costs a fault and comes in any later quantum; so does one that is lost
  or repeated. The caller hears `Unknown` at the attempt's deadline, and the late answer too;
- writes to member rows and the probe are done at once, and so is their answer unless it ends a silence. All clocks
  agree. Nobody deletes a row twice, nor while a write that creates one is late;
- nonces say what they name. Owner, epoch and beat determine them, which `laws.attempt` guards.

`legs`: a landing and its answer are two moves, between which others come; otherwise one, unless a fault parts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from supervisor.core import model
from supervisor.core.model import SECOND, Rules, ShardRule
from supervisor.core.state import State, begin
from supervisor.records import Lease, Member, Snapshot
from supervisor.writes import Outcome, Write

QUANTUM_NS = SECOND
SHARD = "s/0"
RULES = Rules(
    fleet="sim",
    shards={SHARD: ShardRule()},
    capacity=10,
    duration_ns=3 * QUANTUM_NS,
    renew_every_ns=QUANTUM_NS,
    poll_every_ns=QUANTUM_NS,
    attempt_ns=QUANTUM_NS // 2,
    margin_ns=QUANTUM_NS // 4,
    start_ns=2 * QUANTUM_NS,
    hang_ns=2 * QUANTUM_NS,
    stop_ns=QUANTUM_NS,
    crash_limit=2,
    crash_window_ns=4 * QUANTUM_NS,
)
WRITES = frozenset({"lose", "hold", "eat", "linger", "repeat", "echo", "unsent"})  # what becomes of a write
READS = frozenset({"miss", "stale"})  # a read that is lost, one that is answered late
LATE = frozenset({"hold", "echo"})
SILENT = frozenset({"lose", "hold"})  # what can become of a write whose answer nobody hears
PROCESSES = frozenset({"crash", "pause", "exit", "hang", "stop"})
ROWS = frozenset({"delete"})

Move = tuple[str, int]
Payload = Outcome | Lease | Snapshot | None


@dataclass(frozen=True, slots=True)
class Instant:
    """A `Moment` whose nonces can be read and whose dice always fall in the middle."""

    boot_ns: int
    who: str

    @property
    def unix_ms(self) -> int:
        """A thousand seconds a quantum, so that a created row's epoch is above all that claims can have reached."""
        return 1000 * 1000 * (1 + self.boot_ns // QUANTUM_NS)

    def nonce(self, salt: str) -> str:
        return f"{self.who} {salt}"

    def fraction(self, salt: str) -> float:
        return 0.5


@dataclass(frozen=True, slots=True)
class Child:
    epoch: int
    deadline_ns: int
    doomed: bool = False  # a signal is on its way
    hung_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """A supervisor. `attempt`: the highest epoch and beat that it wrote; `proof`: the epoch of its last write that was
    applied, and when it was sent; `ended`: the death of its child, while it is stopped."""

    me: str
    state: State
    child: Child | None = None
    paused: bool = False
    attempt: tuple[int, int] = (0, 0)
    proof: tuple[int, int] = (0, 0)
    ended: model.Exited | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call under way. `stage`: out (the request), back (the answer, which is `payload`), lost. `free_ns`: 0, or since
    a fault held it up, when it may go on. `silent`: nobody waits for its answer."""

    host: int
    asked: Write | str  # a write, "read" or "snapshot"
    sent_ns: int
    stage: str = "out"
    payload: Payload = None
    free_ns: int = 0
    told: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """`started`: the highest epoch that a child was started with; `reached`: the highest that the row had; `beats`: the
    last beat of each epoch that the store saw; `born`: how many supervisors there have been; `deleted`: somebody has
    deleted the row."""

    hosts: tuple[Host | None, ...]
    faults: int
    allowed: frozenset[str]
    legs: bool
    now_ns: int = 100 * QUANTUM_NS
    lease: Lease | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    started: int = 0
    reached: int = 0
    beats: Mapping[int, int] = field(default_factory=dict)
    born: int = 0
    deleted: bool = False


def fleet(supervisors: int, faults: int, allowed: frozenset[str], legs: bool) -> World:
    """An empty store and supervisors that have just started."""
    world = World((None,) * supervisors, faults, allowed, legs)
    for index in range(supervisors):
        world = start(world, index)
    return world


def with_host(world: World, index: int, host: Host | None) -> World:
    return replace(world, hosts=(*world.hosts[:index], host, *world.hosts[index + 1 :]))


def with_call(world: World, index: int, call: Call | None) -> World:
    kept = () if call is None else (call,)
    return replace(world, calls=(*world.calls[:index], *kept, *world.calls[index + 1 :]))


def start(world: World, index: int) -> World:
    me = f"{'abc'[index]}:1:{'abc'[index]}{world.born}"
    host = Host(me, begin(RULES, me, world.now_ns))
    return replace(with_host(world, index, host), born=world.born + 1)


def served(world: World) -> bool:
    """A child that can deliver, of a supervisor that owns the row and runs."""
    return any(
        host.child is not None
        and not host.child.doomed
        and not host.paused
        and host.child.hung_ns is None
        and world.now_ns < host.child.deadline_ns
        and world.lease is not None
        and (world.lease.owner, world.lease.epoch) == (host.me, host.child.epoch)
        for host in world.hosts
        if host is not None
    )
