"""What must hold in every world of the exploration. Each law raises `AssertionError` with a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core import leaseset, model
from supervisor.core.phases import Dying, Held, Idle, Vacant
from supervisor.core.state import State, shard_due_ns
from supervisor.records import Lease
from supervisor.writes import Claim, Create, Release, Renew

if TYPE_CHECKING:
    from tests.sim.explore.world import Call, Host, World


def instant(world: World) -> None:
    """At most one child can deliver, none under an older epoch than one that could before, and every supervisor has a
    child exactly where its phase says so, and no phase without an end."""
    able = [host.child.epoch for host in world.hosts if host and host.child and world.now_ns < host.child.deadline_ns]
    assert len(able) < 2, f"the children of epochs {able} can both deliver"
    assert not able or able[0] == world.started, f"epoch {able[0]} can deliver after epoch {world.started} was started"
    for host in world.hosts:
        if host is not None and not host.paused:
            _accounted(world, host)


def _accounted(world: World, host: Host) -> None:
    (shard,) = host.state.shards.values()
    phase = shard.phase
    expected = None
    if isinstance(phase, Held):
        expected = phase.tenure.epoch
    elif isinstance(phase, Dying):
        expected = phase.epoch
    actual = host.child.epoch if host.child else None
    assert actual == expected, f"{host.me} has the child {actual}, and its phase {type(phase).__name__} {expected}"
    if isinstance(phase, Idle) or (isinstance(phase, Vacant) and host.state.drain):
        return
    rules = host.state.rules
    due_ns = shard_due_ns(shard, host.state)
    latest_ns = world.now_ns + max(rules.duration_ns, rules.start_ns, rules.stop_ns, rules.crash_window_ns)
    assert due_ns is not None, f"{host.me} stays in {type(phase).__name__} for ever"
    assert due_ns <= latest_ns, f"{host.me} stays in {type(phase).__name__} for too long"


def ticked(world: World, before: Host, after: Host | None) -> None:
    """A tick that leaves something due has done something else, so that it is not the first of endless ones."""
    busy = after is not None and leaseset.due_ns(after.state) <= world.now_ns and after.state == before.state
    assert not busy, f"{before.me} ticks again and again"


def one_identity(host: Host, state: State) -> None:
    assert state.me == host.me, f"{host.me} takes itself for a copy"


def child_started(world: World, host: Host, start: model.Start) -> None:
    assert host.child is None, f"{host.me} starts epoch {start.epoch} beside its child"
    assert start.epoch > world.started, f"epoch {start.epoch} starts after epoch {world.started}"
    _deadline(host, start.epoch, start.deadline_ns)
    left_ns = start.deadline_ns - world.now_ns
    assert left_ns >= host.state.rules.renew_every_ns, f"epoch {start.epoch} starts with {left_ns} ns left"


def deadline_moved(world: World, host: Host, extend: model.Extend) -> None:
    child = host.child
    if child and child.epoch == extend.epoch:
        assert extend.deadline_ns >= child.deadline_ns, f"the deadline of epoch {extend.epoch} moves back"
        _deadline(host, extend.epoch, extend.deadline_ns)


def _deadline(host: Host, epoch: int, deadline_ns: int) -> None:
    """It counts from the sending of a write that was applied."""
    rules = host.state.rules
    proven, sent_ns = host.proof
    assert proven == epoch, f"{host.me} sets a deadline for epoch {epoch}, of which no write was applied"
    late_ns = deadline_ns - (sent_ns + rules.duration_ns - rules.margin_ns)
    assert late_ns <= 0, f"the deadline of epoch {epoch} is {late_ns / 1e9} s too late"


def child_ended(world: World, host: Host, effect: model.Kill | model.Stop) -> None:
    child = host.child if host.child and host.child.epoch == effect.epoch else None
    if effect.reason == "lost":
        row = world.lease
        ours = row is not None and (row.owner, row.epoch) == (host.me, effect.epoch)
        assert not ours, f"epoch {effect.epoch} is killed as lost while its row is ours"
    if effect.reason == "fenced" and child:
        assert world.now_ns >= child.deadline_ns, f"epoch {effect.epoch} is fenced before its deadline"


def exited(host: Host) -> None:
    assert host.child is None, f"{host.me} exits before its child"


def released(world: World, release: Release) -> None:
    alive = [host.me for host in world.hosts if host and host.child and host.child.epoch == release.epoch]
    assert not alive, f"epoch {release.epoch} is released before its child was dead"


def attempt(world: World, host: Host, write: Claim | Renew) -> None:
    """No supervisor writes the same epoch and beat twice, and it renews for a living child only."""
    beat = write.beat if isinstance(write, Renew) else 0
    assert (write.epoch, beat) > host.attempt, f"{host.me} tries epoch {write.epoch}, beat {beat} again"
    if isinstance(write, Renew):
        child = host.child
        assert child is not None, f"{host.me} renews epoch {write.epoch} without a child"
        assert child.epoch == write.epoch, f"{host.me} renews epoch {write.epoch} for the child of epoch {child.epoch}"
        quiet = child.hung_ns is not None and world.now_ns >= child.hung_ns + host.state.rules.hang_ns
        assert not quiet, f"{host.me} renews epoch {write.epoch} for a child that hangs"


def row_changed(world: World, call: Call, after: Lease) -> None:
    before = world.lease
    write = call.asked
    if isinstance(write, Claim | Create):
        assert after.epoch > world.reached, f"epoch {after.epoch} follows epoch {world.reached}"
    elif before is not None:
        assert (after.epoch, after.beat) >= (before.epoch, before.beat), f"the row goes back to beat {after.beat}"
