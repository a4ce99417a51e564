"""What must hold in a simulated world, whatever happens: at every instant, for every write, deadline, kill and start.

Each law raises `AssertionError` with the history of the world.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from supervisor import model
from supervisor.model import SECOND
from supervisor.records import Lease
from supervisor.writes import Claim, Release, Write
from tests.sim.parts import Child, Host

if TYPE_CHECKING:
    from tests.sim.world import World


def row_changed(world: World, host: Host, write: Write, before: Lease | None, after: Lease) -> None:
    assert before is not None
    if isinstance(write, Claim):
        assert after.epoch > before.epoch, world.report("a claim does not raise the epoch")
        world.claimed[write.shard, write.epoch] = host
    last_words = None
    if isinstance(write, Release) or (isinstance(write, Claim) and write.keep_move):
        last_words = host.last_words.get((after.shard, before.epoch))
    known = [_token(text) for text in (before.checkpoint, last_words) if text]
    assert all(_token(after.checkpoint) >= token for token in known), world.report(
        f"the checkpoint of {after.shard} moves back from {max(known)} to {after.checkpoint}"
    )


def deadline_set(world: World, host: Host, shard: str, epoch: int, deadline_ns: int) -> None:
    """A deadline counts from the sending of a write that was applied; only `hold` may go beyond."""
    latest_ns = host.proofs[shard, epoch] + world.rules.duration_ns - world.rules.margin_ns
    held = world.rules.shards[shard].policy == "hold"
    assert deadline_ns <= latest_ns or held, world.report(
        f"the deadline of {shard} {epoch} is {(deadline_ns - latest_ns) / SECOND} s too late"
    )


def child_killed(world: World, host: Host, kill: model.Kill) -> None:
    row = world.store.leases.get(kill.shard)
    child = host.children.get(kill.shard)
    if kill.reason == "lost" and world.now_ns > world.twins_until_ns:
        ours = row is not None and (row.owner, row.epoch) == (host.state.me, kill.epoch)
        assert not ours, world.report(f"{kill.shard} {kill.epoch} is killed as lost while it is ours")
    if kill.reason == "fenced" and child and child.epoch == kill.epoch:
        assert host.clock(world.now_ns) >= child.deadline_ns, world.report(f"{kill.shard} is fenced too early")


def instant(world: World) -> None:
    """At most one child of a shard can deliver, and none with an epoch below one that already has."""
    for shard in world.rules.shards:
        live = world.live(shard)
        if not live:
            continue
        if len(live) > 1 and not _may_be_twins(world, live):
            raise AssertionError(world.report(f"{shard} has {len(live)} children that can deliver"))
        if live[0][1].started:
            epoch = live[0][1].epoch
            if epoch < world.delivered.get(shard, 0):
                raise AssertionError(world.report(f"{shard} delivers under the old epoch {epoch}"))
            world.delivered[shard] = epoch
            world.served_ns[shard] = world.now_ns


def _may_be_twins(world: World, live: Iterable[tuple[Host, Child]]) -> bool:
    """Two copies of one supervisor run the same epoch until the first renewal of one is refused."""
    return world.now_ns < world.twins_until_ns and len({child.epoch for _, child in live}) == 1


def _token(checkpoint: str | None) -> tuple[int, ...]:
    """Checkpoints of the simulated children grow: `epoch count`."""
    return tuple(map(int, checkpoint.split())) if checkpoint else ()
