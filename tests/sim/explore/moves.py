"""What may happen next in a world of the exploration."""

from __future__ import annotations

from supervisor.core import leaseset
from supervisor.writes import Create
from tests.sim.explore.world import LATE, READS, RULES, SILENT, WRITES, Call, Move, World


def moves(world: World) -> list[Move]:
    """Everything that may happen next; faults come last, so that the first is always one of a calm schedule."""
    faults = _faults(world) if world.faults else []
    if (first := _first(world)) is not None:
        return [("tick", first), *faults]
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
    return urgent + free + faults


def _first(world: World) -> int | None:
    """A supervisor whose tick is due and that hears nothing before: what others do meanwhile makes no difference to it,
    so that no order but this one need be looked at. (It does to their snapshots: they show its new beat.)"""
    hearing = {call.host for call in world.calls}
    for index, host in enumerate(world.hosts):
        if host and not host.paused and index not in hearing and leaseset.due_ns(host.state) <= world.now_ns:
            doomed = host.child and (host.child.doomed or host.child.deadline_ns <= world.now_ns)
            if not doomed:
                return index
    return None


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
            kinds = READS if isinstance(call.asked, str) else SILENT if call.silent else WRITES
            if isinstance(call.asked, Create) and "delete" in world.allowed:
                kinds = kinds - LATE  # it would meet the place of a deleted row, which is outside the guarantee
            found += [(kind, index) for kind in sorted(kinds)]
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
    if world.lease and not world.deleted:
        found.append(("delete", 0))
    return [move for move in found if move[0] in world.allowed]
