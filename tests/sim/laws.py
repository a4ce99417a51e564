"""What must never happen in a simulated world, checked wherever an event touches it.

For every write that is sent or lands, every deadline, kill and start, and for each shard whose children or deadlines
have just changed: between two such changes time can only end a child's right to deliver. (How long a shard may go
without service is the matter of `service`.) Each law raises `AssertionError` with the history of the world.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from supervisor.core import model
from supervisor.core.model import MS, SECOND
from supervisor.core.phases import Dying
from supervisor.records import Lease
from supervisor.writes import Claim, Release, Renew, Write
from tests.sim.parts import Child, Host

if TYPE_CHECKING:
    from tests.sim.world import World

ROUNDING_NS = 1000
LATE_NS = 20 * MS  # from a deadline to a kill's effect


# --- writes -----------------------------------------------------------------------------------------------


def renewals_sent(world: World, host: Host, writes: tuple[Renew, ...]) -> None:
    """A renewal vouches for a live child, and a row stands in a batch once."""
    assert len({write.shard for write in writes}) == len(writes), world.report("a row twice in a batch")
    for write in writes:
        child = host.children.get(write.shard)
        vouched = child is not None and child.epoch == write.epoch and _beats(world, host, child)
        assert vouched, world.report(f"{write.shard} {write.epoch} is renewed for a child that does not live")


def _beats(world: World, host: Host, child: Child) -> bool:
    """It is within its budget to start, or to stop if it was told to before that; or its heartbeat is young."""
    now_ns, rules = host.clock(world.now_ns), world.rules
    if not child.started and child.stop_ns is not None:
        return now_ns < child.stop_ns + rules.stop_ns
    if not child.started:
        return now_ns < host.clock(child.born_ns) + rules.start_ns
    return child.hung_ns is None or now_ns < child.hung_ns + rules.hang_ns


def write_sent(world: World, host: Host, write: Write) -> None:
    """A release comes after the death; no epoch is tried twice."""
    if isinstance(write, Release):
        alive = [child for _, child in world.children.of[write.shard] if child.epoch == write.epoch]
        assert not alive, world.report(f"{write.shard} released before its child was dead")
    if isinstance(write, Claim):
        key = (write.shard, write.epoch)
        assert key not in host.tried, world.report(f"epoch {write.epoch} of {write.shard} is tried again")
        host.tried.add(key)


def row_changed(world: World, host: Host, write: Write, before: Lease | None, after: Lease) -> None:
    assert before is not None
    if isinstance(write, Claim):
        assert after.epoch > before.epoch, world.report("a claim does not raise the epoch")
        _lease_taken(world, host, before)
        world.claimed[write.shard, write.epoch] = host
        world.promised[write.shard, write.epoch] = (write.duration_ms, write.policy)
    world.changed_ns[after.shard] = world.now_ns
    last_words = None
    if isinstance(write, Release) or (isinstance(write, Claim) and write.keep_move):
        last_words = host.last_words.get((after.shard, before.epoch))
    known = [_token(text) for text in (before.checkpoint, last_words) if text]
    assert all(_token(after.checkpoint) >= token for token in known), world.report(
        f"the checkpoint of {after.shard} moves back from {max(known)} to {after.checkpoint}"
    )


def _lease_taken(world: World, host: Host, before: Lease) -> None:
    """By somebody else only after it has run out on his clock, unless it is free or its owner is proven dead. A row
    whose owner was deposed is not free before that."""
    free = before.owner is None and not before.forced
    if free or before.owner == host.state.me or before.owner in host.dead:
        return
    still_ns = (world.now_ns - world.changed_ns.get(before.shard, 0)) * host.rate
    assert still_ns > before.duration_ms * MS - ROUNDING_NS, world.report(
        f"{host.name} takes {before.shard} {before.epoch} from {before.owner} after {still_ns / SECOND:.2f} s"
    )


def _token(checkpoint: str | None) -> tuple[int, ...]:
    """Checkpoints of the simulated children grow: `epoch count`."""
    return tuple(map(int, checkpoint.split())) if checkpoint else ()


# --- children ---------------------------------------------------------------------------------------------


def child_started(world: World, host: Host, shard: str, epoch: int, deadline_ns: int) -> None:
    """One child of a shard per host; an epoch that is new, that its starter won, and that is good for a while."""
    assert shard not in host.children, world.report(f"two children of {shard} on {host.name}")
    assert epoch > world.epochs.get(shard, 0), world.report(f"epoch {epoch} of {shard} is not new")
    assert world.claimed.get((shard, epoch)) is host, world.report(f"{shard} starts under an epoch it did not win")
    valid_ns = deadline_ns - host.clock(world.now_ns)
    assert valid_ns >= host.state.rules.renew_every_ns, world.report(f"{shard} starts with {valid_ns / SECOND} s left")
    deadline_set(world, host, shard, epoch, deadline_ns)
    world.epochs[shard] = epoch


def deadline_set(world: World, host: Host, shard: str, epoch: int, deadline_ns: int) -> bool:
    """A deadline counts from the sending of a write that was applied; only `hold` may go beyond, which is returned."""
    duration_ms, policy = world.promised[shard, epoch]
    latest_ns = host.proofs[shard, epoch] + duration_ms * MS * 9 // 10
    beyond = deadline_ns > latest_ns
    assert not beyond or policy == "hold", world.report(
        f"the deadline of {shard} {epoch} is {(deadline_ns - latest_ns) / SECOND} s too late"
    )
    return beyond


def deadline_passed(world: World, host: Host, child: Child) -> None:
    """Without kernel timers it is the supervisor that ends its child in time, if it is awake."""
    idle = not host.awake or host.disturbed_ns + LATE_NS > world.now_ns
    gone = host.children.get(child.shard) is not child or host.clock(world.now_ns - LATE_NS) < child.deadline_ns
    assert idle or gone, world.report(f"{child.shard} {child.epoch} outlives its deadline")


def child_killed(world: World, host: Host, kill: model.Kill) -> None:
    """None is killed as lost while the row is ours, none is fenced before its deadline."""
    row = world.store.leases.get(kill.shard)
    child = host.children.get(kill.shard)
    if child and child.epoch == kill.epoch:
        child.killed = True
    if kill.reason == "lost" and world.now_ns > world.twins_until_ns:
        ours = row is not None and (row.owner, row.epoch) == (host.state.me, kill.epoch)
        assert not ours or _was_spoiled(world, host, kill.shard), world.report(
            f"{kill.shard} {kill.epoch} is killed as lost while it is ours"
        )
    if kill.reason == "fenced" and child and child.epoch == kill.epoch:
        assert host.clock(world.now_ns) >= child.deadline_ns, world.report(f"{kill.shard} is fenced too early")


def _was_spoiled(world: World, host: Host, shard: str) -> bool:
    """The news of a row that did not parse may arrive when it is mended."""
    phase = host.state.shards[shard].phase
    return shard in world.store.ever_spoiled and isinstance(phase, Dying) and "does not parse" in phase.reason


def lost_are_killed(world: World, host: Host) -> None:
    """The step that learns of a loss kills the child."""
    for shard, child in host.children.items():
        spared = not child.killed and isinstance(host.state.shards[shard].phase, Dying)
        assert not spared, world.report(f"{shard} {child.epoch} is lost, and its child is not killed at once")


def shard_moved(world: World, shard: str) -> None:
    """At most one child of a shard can deliver, and none with an epoch below one that already has."""
    live = [(host, child) for host, child in world.children.live(shard) if not child.held]
    if len(live) > 1 and not _may_be_twins(world, live):
        raise AssertionError(world.report(f"{shard} has {len(live)} children that can deliver"))
    for _, child in live:
        if child.started:
            if child.epoch < world.delivered.get(shard, 0):
                raise AssertionError(world.report(f"{shard} delivers under the old epoch {child.epoch}"))
            world.delivered[shard] = child.epoch


def _may_be_twins(world: World, live: Iterable[tuple[Host, Child]]) -> bool:
    """Two copies of one supervisor run the same epoch until the first renewal of one is refused."""
    return world.now_ns < world.twins_until_ns and len({child.epoch for _, child in live}) == 1


def instant(world: World) -> None:
    """All shards at once, whatever moved."""
    for shard in world.rules.shards:
        shard_moved(world, shard)
