"""What operators do to a simulated fleet: conditional writes on a row as it was seen, which may land seconds later.

A row that nobody is configured for stands in the store for them to forget; it is made when it is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from supervisor.changes import history_after
from supervisor.core import wishes
from supervisor.core.model import MS
from supervisor.records import Lease
from supervisor.writes import Applied, Create, Depose, Forget, OperatorsWrite, Outcome, Pause, Wish

if TYPE_CHECKING:
    from tests.sim.world import World

RETIRED = "retired/0"
LATE_MS = 3000


def operate(what: str, world: World, shard: str) -> bool:
    """One command on a shard, or on the retired one; False: it would have objected."""
    if what == "forget":
        return _forget(world)
    row = world.store.leases.get(shard)
    write = _WRITES[what](world, row) if row else None
    if write is None:
        return False
    given_ns = world.now_ns

    def arrive() -> None:
        if given_ns > world.calmed_ns:
            land(world, write)

    world.after(1, world.rng.choice((1, LATE_MS)), arrive)
    return True


def land(world: World, write: OperatorsWrite) -> Outcome:
    """It reaches the store now."""
    outcome = world.store.apply(write)
    world.note(f"store: an operator's {type(write).__name__} {write.shard} -> {type(outcome).__name__}")
    if isinstance(outcome, Applied) and write.shard in world.rules.shards:
        if isinstance(write, Depose):
            world.changed_ns[write.shard] = world.now_ns
        world.service.disturb_shard(write.shard)
        world.service.wishes.written(write.shard)
    return outcome


def depose(row: Lease, at: int = 0) -> Depose:
    assert row.owner is not None
    history = history_after(row.history, row.epoch, row.owner, at, "deposed")
    return Depose(row.shard, row.owner, row.epoch, f"deposed {row.epoch}", history, at)


def pause(row: Lease, paused: bool = True) -> Pause:
    return Pause(row.shard, row.owner, row.epoch, paused)


def _wish(world: World, row: Lease) -> Wish | None:
    """An operator's, or that of a peer, which may be gone by now; over whatever stands there."""
    target = world.rng.choice(world.hosts).state.me
    move = world.rng.choice((wishes.ANYBODY, target, wishes.of_peer(target)))
    if target == row.owner or move == row.move:
        return None
    return Wish(row.shard, row.owner, row.epoch, row.move, move)


def _depose(world: World, row: Lease) -> Depose | None:
    return depose(row, world.wall_ms + world.now_ns // MS) if row.owner else None


def _forget(world: World) -> bool:
    row = world.store.leases.get(RETIRED)
    if row is None:
        world.store.apply(Create(RETIRED, world.now_ns // MS + 1, "retired", 10_000, 0))
        return False
    return isinstance(land(world, Forget(RETIRED, row.epoch)), Applied)


_WRITES: dict[str, Callable[[World, Lease], OperatorsWrite | None]] = {
    "wish": _wish,
    "depose": _depose,
    "pause_row": lambda world, row: pause(row),
    "resume_row": lambda world, row: pause(row, False),
}
