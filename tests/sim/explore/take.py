"""What comes of a move in a world of the exploration, and of a calm in which no fault happens."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import model
from supervisor.core.model import Report
from supervisor.writes import Claim, Unknown
from tests.sim.explore import laws
from tests.sim.explore.moves import moves
from tests.sim.explore.step import answer, end, land, step
from tests.sim.explore.world import (
    PROCESSES,
    QUANTUM_NS,
    SHARD,
    Call,
    Host,
    Move,
    World,
    served,
    start,
    with_call,
    with_host,
)

CALM_MOVES_MAX = 100  # in one quantum


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
            return start(world, index)
        case "delete":
            return replace(world, lease=None, deleted=True)
        case "tick":
            world = step(world, index, model.Ticked(_reports(world, host)))
            laws.ticked(world, host, world.hosts[index])
            return world
        case "die" | "exit":
            ended = model.Exited(SHARD, host.child.epoch)
            host = replace(host, child=None, ended=ended if host.paused else None)
            world = with_host(world, index, host)
            return world if host.paused else step(world, index, ended)
        case "resume":
            world = with_host(world, index, replace(host, paused=False, ended=None))
            return step(world, index, host.ended) if host.ended else world
        case "crash":
            return end(world, index)
        case "pause":
            return with_host(world, index, replace(host, paused=True))
        case "hang":
            return with_host(world, index, replace(host, child=replace(host.child, hung_ns=world.now_ns)))
        case "stop":
            return step(world, index, model.StopRequested())
    return None


def _take_call(world: World, kind: str, index: int) -> World:
    call = world.calls[index]
    later_ns = world.now_ns + QUANTUM_NS
    match kind:
        case "land":
            world, call = land(world, call)
            if call.silent:
                return with_call(world, index, None)
            deaf = world.hosts[call.host].paused
            return with_call(world, index, call) if world.legs or deaf else answer(world, index, call)
        case "deliver":
            return answer(world, index, call)
        case "tell":
            gone = call.stage == "lost"
            world = with_call(world, index, None if gone else replace(call, told=True))
            return step(world, call.host, _silence(call))
        case "lose" | "miss":
            return with_call(world, index, None if call.silent else replace(call, stage="lost"))
        case "hold":
            return with_call(world, index, replace(call, free_ns=later_ns))
        case "eat":
            world, call = land(world, call)
            return with_call(world, index, replace(call, stage="lost", payload=None))
        case "linger" | "stale":
            world, call = land(world, call)
            return with_call(world, index, replace(call, free_ns=later_ns))
        case "repeat":
            world, _ = land(world, call)
            world, call = land(world, call)
            return with_call(world, index, call)
        case "echo":
            echo = replace(call, free_ns=later_ns, silent=True)
            world, call = land(world, call)
            world = with_call(world, index, call)
            return replace(world, calls=(*world.calls, echo))
        case "unsent":
            world = with_call(world, index, None)
            host = world.hosts[call.host]
            if isinstance(call.asked, Claim):
                host = replace(host, attempt=(call.asked.epoch, -1))
            world = with_host(world, call.host, host)
            return step(world, call.host, model.Answered(call.asked, Unknown("refused", unsent=True)))
    raise ValueError(f"{kind} is no move")


def _reports(world: World, host: Host) -> dict[str, Report]:
    child = host.child
    if child is None:
        return {}
    heartbeat_ns = world.now_ns if child.hung_ns is None else child.hung_ns
    return {SHARD: Report(child.epoch, heartbeat_ns, started=True, open=1, want=1)}


def _silence(call: Call) -> model.Event:
    match call.asked:
        case "read":
            return model.ReadFailed(SHARD, "timeout")
        case "snapshot":
            return model.SnapshotFailed("timeout")
        case write:
            return model.Answered(write, Unknown("timeout"))


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
