"""A fleet as a value: one shard, a few supervisors that run the real core, and every next step that it could take.

`moves` lists what may happen next, `take` gives the world after it and checks the laws. Time passes in quanta:

- within a quantum everything that is due happens, in any order: ticks, requests that land, answers, deaths. Only then
  may time go on. A supervisor that is stopped hears nothing; its requests land, its child ends at its deadline;
- a request or an answer that is later than that costs a fault and comes in any later quantum; so does one that is lost
  or repeated. The caller hears `Unknown` at the attempt's deadline, and the late answer too;
- writes to member rows and the probe are done at once, and so is their answer unless it ends a silence. All clocks
  agree;
- nonces say what they name. Owner, epoch and beat determine them, which `laws.attempt` guards.

`legs`: a landing and its answer are two moves, between which others come; otherwise one, unless a fault parts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from supervisor import leaseset, model
from supervisor.model import MS, SECOND, Report, Rules, ShardRule
from supervisor.records import Lease, Member, Snapshot
from supervisor.state import State, begin
from supervisor.writes import Applied, Claim, DeleteMember, Outcome, PutMember, Refused, Release, Renew, Unknown, Write
from tests.sim import explore_laws as laws
from tests.sim.store import ModelStore

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
NETWORK = frozenset({"lose", "hold", "eat", "linger", "repeat", "echo", "unsent"})
PROCESSES = frozenset({"crash", "pause", "exit", "hang", "stop"})
ROWS = frozenset({"delete"})

CALM_MOVES_MAX = 100  # in one quantum

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
    last beat of each epoch that the store saw; `born`: how many supervisors there have been."""

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


def fleet(supervisors: int, faults: int, allowed: frozenset[str], legs: bool) -> World:
    """An empty store and supervisors that have just started."""
    world = World((None,) * supervisors, faults, allowed, legs)
    for index in range(supervisors):
        world = _start(world, index)
    return world


# --- what may happen --------------------------------------------------------------------------------------


def moves(world: World) -> list[Move]:
    """Everything that may happen next; faults come last, so that the first is always one of a calm schedule."""
    urgent: list[Move] = []
    free: list[Move] = []
    for index, host in enumerate(world.hosts):
        if host is None:
            free.append(("start", index))
            continue
        if host.paused:
            free.append(("resume", index))
        elif leaseset.due_ns(host.state) <= world.now_ns:
            urgent.append(("tick", index))
        if host.child and (host.child.doomed or host.child.deadline_ns <= world.now_ns):
            urgent.append(("die", index))
    for index, call in enumerate(world.calls):
        _call_moves(world, index, call, urgent, free)
    if not urgent:
        free.append(("advance", 0))
    return urgent + free + (_faults(world) if world.faults else [])


def _call_moves(world: World, index: int, call: Call, urgent: list[Move], free: list[Move]) -> None:
    host = world.hosts[call.host]
    deaf = host is None or host.paused
    if call.stage != "lost" and world.now_ns >= call.free_ns and (call.stage == "out" or not deaf):
        (free if call.free_ns else urgent).append(("land" if call.stage == "out" else "deliver", index))
    if not (deaf or call.told or call.silent) and world.now_ns >= call.sent_ns + RULES.attempt_ns:
        urgent.append(("tell", index))


def _faults(world: World) -> list[Move]:
    found: list[Move] = []
    for index, call in enumerate(world.calls):
        if call.stage == "out" and not call.free_ns:
            writes = not isinstance(call.asked, str)
            kinds = ("lose", "hold", "eat", "linger", "repeat", "echo", "unsent") if writes else ("lose", "linger")
            if call.silent:
                kinds = ("lose", "hold")
            found += [(kind, index) for kind in kinds]
    for index, host in enumerate(world.hosts):
        if host is None:
            continue
        found.append(("crash", index))
        if not host.paused:
            found.append(("pause", index))
            if host.state.stage == "active" or (host.state.drain and not host.state.drain.stopping):
                found.append(("stop", index))
        if host.child and not host.child.doomed:
            found.append(("exit", index))
            if host.child.hung_ns is None:
                found.append(("hang", index))
    if world.lease:
        found.append(("delete", 0))
    return [move for move in found if move[0] in world.allowed]


# --- what comes of it -------------------------------------------------------------------------------------


def take(world: World, move: Move) -> World:
    """The world after a move. Raises `AssertionError` if a law is broken, by the core's own assertions too."""
    kind, index = move
    if kind in world.allowed:
        world = replace(world, faults=world.faults - 1)
    world = _take_host(world, kind, index) or _take_call(world, kind, index)
    laws.instant(world)
    return world


def _take_host(world: World, kind: str, index: int) -> World | None:
    host = world.hosts[index] if kind in PROCESSES or kind in ("tick", "die", "resume") else None
    match kind:
        case "advance":
            return replace(world, now_ns=world.now_ns + QUANTUM_NS)
        case "start":
            return _start(world, index)
        case "delete":
            return replace(world, lease=None)
        case "tick":
            world = _step(world, index, model.Ticked(_reports(world, host)))
            laws.ticked(world, host, world.hosts[index])
            return world
        case "die" | "exit":
            ended = model.Exited(SHARD, host.child.epoch)
            host = replace(host, child=None, ended=ended if host.paused else None)
            world = _with_host(world, index, host)
            return world if host.paused else _step(world, index, ended)
        case "resume":
            world = _with_host(world, index, replace(host, paused=False, ended=None))
            return _step(world, index, host.ended) if host.ended else world
        case "crash":
            return _end(world, index)
        case "pause":
            return _with_host(world, index, replace(host, paused=True))
        case "hang":
            return _with_host(world, index, replace(host, child=replace(host.child, hung_ns=world.now_ns)))
        case "stop":
            return _step(world, index, model.StopRequested())
    return None


def _take_call(world: World, kind: str, index: int) -> World:
    call = world.calls[index]
    later_ns = world.now_ns + QUANTUM_NS
    match kind:
        case "land":
            world, call = _land(world, call)
            if call.silent:
                return _with_call(world, index, None)
            deaf = world.hosts[call.host].paused
            return _with_call(world, index, call) if world.legs or deaf else _answer(world, index, call)
        case "deliver":
            return _answer(world, index, call)
        case "tell":
            gone = call.stage == "lost"
            world = _with_call(world, index, None if gone else replace(call, told=True))
            return _step(world, call.host, _silence(call))
        case "lose":
            return _with_call(world, index, None if call.silent else replace(call, stage="lost"))
        case "hold":
            return _with_call(world, index, replace(call, free_ns=later_ns))
        case "eat":
            world, call = _land(world, call)
            return _with_call(world, index, replace(call, stage="lost", payload=None))
        case "linger":
            world, call = _land(world, call)
            return _with_call(world, index, replace(call, free_ns=later_ns))
        case "repeat":
            world, _ = _land(world, call)
            world, call = _land(world, call)
            return _with_call(world, index, call)
        case "echo":
            echo = replace(call, free_ns=later_ns, silent=True)
            world, call = _land(world, call)
            world = _with_call(world, index, call)
            return replace(world, calls=(*world.calls, echo))
        case "unsent":
            world = _with_call(world, index, None)
            host = world.hosts[call.host]
            if isinstance(call.asked, Claim):
                host = replace(host, attempt=(call.asked.epoch, -1))
            world = _with_host(world, call.host, host)
            return _step(world, call.host, model.Answered(call.asked, Unknown("refused", unsent=True)))
    raise ValueError(f"{kind} is no move")


def _with_host(world: World, index: int, host: Host | None) -> World:
    return replace(world, hosts=(*world.hosts[:index], host, *world.hosts[index + 1 :]))


def _with_call(world: World, index: int, call: Call | None) -> World:
    kept = () if call is None else (call,)
    return replace(world, calls=(*world.calls[:index], *kept, *world.calls[index + 1 :]))


def _start(world: World, index: int) -> World:
    me = f"{'abc'[index]}:1:{'abc'[index]}{world.born}"
    host = Host(me, begin(RULES, me, world.now_ns))
    return replace(_with_host(world, index, host), born=world.born + 1)


def _end(world: World, index: int) -> World:
    """The process is gone and its child with it; its requests are still on their way."""
    calls = tuple(
        replace(call, silent=True) if call.host == index else call
        for call in world.calls
        if call.host != index or call.stage == "out"
    )
    return replace(_with_host(world, index, None), calls=calls)


def _reports(world: World, host: Host) -> dict[str, Report]:
    child = host.child
    if child is None:
        return {}
    heartbeat_ns = world.now_ns if child.hung_ns is None else child.hung_ns
    return {SHARD: Report(child.epoch, heartbeat_ns, started=True, open=1, want=1)}


# --- the store --------------------------------------------------------------------------------------------


def _land(world: World, call: Call) -> tuple[World, Call]:
    if call.asked == "read":
        return world, replace(call, stage="back", payload=world.lease)
    store = _store(world)
    if call.asked == "snapshot":
        return world, replace(call, stage="back", payload=store.snapshot())
    outcome = store.apply(call.asked)
    after = store.leases.get(SHARD)
    if isinstance(outcome, Applied) and after is not None:
        laws.row_changed(world, call, after)
        world = replace(
            world,
            lease=after,
            reached=max(world.reached, after.epoch),
            beats={**world.beats, after.epoch: after.beat},
        )
        host = world.hosts[call.host]
        if isinstance(call.asked, Claim | Renew) and host and host.me == call.asked.owner:
            proof = max(host.proof, (call.asked.epoch, call.sent_ns))
            world = _with_host(world, call.host, replace(host, proof=proof))
    return world, replace(call, stage="back", payload=outcome)


def _store(world: World) -> ModelStore:
    store = ModelStore()
    store.members = dict(world.members)
    if world.lease:
        store.leases[SHARD] = world.lease
    return store


def _answer(world: World, index: int, call: Call) -> World:
    world = _with_call(world, index, None)
    match call.asked:
        case "read":
            event: model.Event = model.RowRead(SHARD, call.payload, call.sent_ns)
        case "snapshot":
            event = model.Snapshotted(call.payload, call.sent_ns)
        case write:
            event = model.Answered(write, call.payload)
    return _step(world, call.host, event)


def _silence(call: Call) -> model.Event:
    match call.asked:
        case "read":
            return model.ReadFailed(SHARD, "timeout")
        case "snapshot":
            return model.SnapshotFailed("timeout")
        case write:
            return model.Answered(write, Unknown("timeout"))


# --- a supervisor's step ----------------------------------------------------------------------------------


def _step(world: World, index: int, event: model.Event) -> World:
    host = world.hosts[index]
    state, effects = leaseset.step(host.state, event, Instant(world.now_ns, host.me))
    laws.one_identity(host, state)
    world = _with_host(world, index, replace(host, state=state))
    for effect in effects:
        world = _perform(world, index, effect)
    return world


def _perform(world: World, index: int, effect: model.Effect) -> World:
    host = world.hosts[index]
    match effect:
        case model.Log():
            return world
        case model.Kill(_, epoch, _) | model.Stop(_, epoch, _):
            laws.child_ended(world, host, effect)
            if host.child and host.child.epoch == epoch:
                return _with_host(world, index, replace(host, child=replace(host.child, doomed=True)))
            return world
        case model.Start(_, epoch, deadline_ns, _):
            laws.child_started(world, host, effect)
            host = replace(host, child=Child(epoch, deadline_ns))
            return replace(_with_host(world, index, host), started=epoch)
        case model.Extend(_, epoch, deadline_ns):
            laws.deadline_moved(world, host, effect)
            if host.child and host.child.epoch == epoch:
                return _with_host(world, index, replace(host, child=replace(host.child, deadline_ns=deadline_ns)))
            return world
        case model.Renewals(writes):
            for write in writes:
                world = _send(world, index, write)
            return world
        case model.Apply(write):
            return _send(world, index, write)
        case model.Read():
            return replace(world, calls=(*world.calls, Call(index, "read", world.now_ns)))
        case model.TakeSnapshot():
            return replace(world, calls=(*world.calls, Call(index, "snapshot", world.now_ns)))
        case model.Prove(member):
            world = replace(world, members={**world.members, member.id: member})
            return _step(world, index, model.Proved(member))
        case model.Exit():
            laws.exited(host)
            return _end(world, index)
    raise AssertionError(f"the world does not know the effect {effect}")


def _send(world: World, index: int, write: Write) -> World:
    host = world.hosts[index]
    if isinstance(write, PutMember | DeleteMember):
        store = _store(world)
        call = Call(index, write, world.now_ns, "back", store.apply(write))
        world = replace(world, members=store.members, calls=(*world.calls, call))
        return world if host.state.silent(world.now_ns) else _answer(world, len(world.calls) - 1, call)
    if isinstance(write, Release):
        laws.released(world, write)
    elif isinstance(write, Claim | Renew):
        laws.attempt(world, host, write)
        beat = write.beat if isinstance(write, Renew) else 0
        world = _with_host(world, index, replace(host, attempt=(write.epoch, beat)))
    return replace(world, calls=(*world.calls, Call(index, write, world.now_ns)))


# --- calm -------------------------------------------------------------------------------------------------


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


def calm(world: World, quanta: int) -> World:
    """The world once its shard is served, if no fault comes any more and nobody stays stopped or down; or as it is
    after that many quanta."""
    end_ns = world.now_ns + quanta * QUANTUM_NS
    world = replace(world, faults=0)
    for _ in range(CALM_MOVES_MAX * quanta):
        if served(world) or world.now_ns >= end_ns:
            break
        world = take(world, moves(world)[0])
    return world
