"""One step of a supervisor in the exploration: its effects on its child and its calls, and what the store answers."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import leaseset, model
from supervisor.writes import Applied, Claim, DeleteMember, PutMember, Release, Renew, Write
from tests.sim.explore import laws
from tests.sim.explore.world import SHARD, Call, Child, Instant, World, with_call, with_host
from tests.sim.store import ModelStore


def step(world: World, index: int, event: model.Event) -> World:
    host = world.hosts[index]
    state, effects = leaseset.step(host.state, event, Instant(world.now_ns, host.me))
    laws.one_identity(host, state)
    world = with_host(world, index, replace(host, state=state))
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
                return with_host(world, index, replace(host, child=replace(host.child, doomed=True)))
            return world
        case model.Start(_, epoch, deadline_ns, _):
            laws.child_started(world, host, effect)
            host = replace(host, child=Child(epoch, deadline_ns))
            return replace(with_host(world, index, host), started=epoch)
        case model.Extend(_, epoch, deadline_ns):
            laws.deadline_moved(world, host, effect)
            if host.child and host.child.epoch == epoch:
                return with_host(world, index, replace(host, child=replace(host.child, deadline_ns=deadline_ns)))
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
            return step(world, index, model.Proved(member))
        case model.Exit():
            laws.exited(host)
            return end(world, index)
    raise AssertionError(f"the world does not know the effect {effect}")


def _send(world: World, index: int, write: Write) -> World:
    host = world.hosts[index]
    if isinstance(write, PutMember | DeleteMember):
        store = _store(world)
        call = Call(index, write, world.now_ns, "back", store.apply(write))
        world = replace(world, members=store.members, calls=(*world.calls, call))
        return world if host.state.silent(world.now_ns) else answer(world, len(world.calls) - 1, call)
    if isinstance(write, Release):
        laws.released(world, write)
    elif isinstance(write, Claim | Renew):
        laws.attempt(world, host, write)
        beat = write.beat if isinstance(write, Renew) else 0
        world = with_host(world, index, replace(host, attempt=(write.epoch, beat)))
    return replace(world, calls=(*world.calls, Call(index, write, world.now_ns)))


def end(world: World, index: int) -> World:
    """The process is gone and its child with it; its requests are still on their way."""
    calls = tuple(
        replace(call, silent=True) if call.host == index else call
        for call in world.calls
        if call.host != index or call.stage == "out"
    )
    return replace(with_host(world, index, None), calls=calls)


# --- the store --------------------------------------------------------------------------------------------


def land(world: World, call: Call) -> tuple[World, Call]:
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
            world = with_host(world, call.host, replace(host, proof=proof))
    return world, replace(call, stage="back", payload=outcome)


def _store(world: World) -> ModelStore:
    store = ModelStore()
    store.members = dict(world.members)
    if world.lease:
        store.leases[SHARD] = world.lease
    return store


def answer(world: World, index: int, call: Call) -> World:
    world = with_call(world, index, None)
    match call.asked:
        case "read":
            event: model.Event = model.RowRead(SHARD, call.payload, call.sent_ns)
        case "snapshot":
            event = model.Snapshotted(call.payload, call.sent_ns)
        case write:
            event = model.Answered(write, call.payload)
    return step(world, call.host, event)
