"""No wish in a row is stuck: once its owner is able to, it grants the wish or takes it back, or stops a paused shard.

The clock of a wish starts at the latest of: the writing of it; an attempt after the last fault that touched its owner
or its row; and the end of the last other wish at the same owner, since an owner gives up one shard at a time. From then
on it may take two polls, the stop of a child, and the calls. Looked at once a second. (A free row with a wish is a
shard without service, which `service` watches.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.model import SECOND
from supervisor.records import Lease
from tests.sim.parts import Host

if TYPE_CHECKING:
    from tests.sim.world import World

LOOK_NS = SECOND
CALLS_NS = SECOND // 2


class Wishes:
    def __init__(self, world: World) -> None:
        self._world = world
        self._written: dict[str, int] = {}  # when the wish of a shard's row was written
        self._open: dict[str, Lease] = {}  # rows with a wish at the last look
        self._ended: dict[str, int] = {}  # when the last wish at an owner ended
        self.worst_ns = 0  # the longest wait that counted

    def written(self, shard: str) -> None:
        """A wish was put into the row of a shard, or taken back."""
        self._written[shard] = self._world.now_ns

    def look(self) -> None:
        world = self._world
        rows = {name: row for name, row in world.store.leases.items() if _wish(row) and row.owner}
        for name, before in self._open.items():
            row = rows.get(name)
            if row is None or (row.owner, row.epoch, _wish(row)) != (before.owner, before.epoch, _wish(before)):
                self._ended[before.owner or ""] = world.now_ns
        self._open = rows
        owners = {host.state.me: host for host in world.hosts if host.awake}
        for row in rows.values():
            owner = owners.get(row.owner or "")
            if owner and owner.state.stage == "active" and world.weather_of(owner).clear:
                self._judge(row, owner)

    def _judge(self, row: Lease, owner: Host) -> None:
        world, rules = self._world, self._world.rules
        calm_ns = max(owner.disturbed_ns, world.service.disturbed_ns(row.shard)) + rules.attempt_ns
        waited_ns = world.now_ns - max(self._written[row.shard], calm_ns, self._ended.get(owner.state.me, 0))
        bound_ns = int((2 * owner.state.poll_ns + rules.stop_ns) / owner.rate) + CALLS_NS + LOOK_NS
        self.worst_ns = max(self.worst_ns, waited_ns)
        assert waited_ns <= bound_ns, world.report(
            f"the wish {_wish(row)!r} in the row of {row.shard} is stuck for {waited_ns / SECOND:.2f} s, "
            f"where {owner.name} stands at {owner.state.shards[row.shard]}"
        )


def _wish(row: Lease) -> str | None:
    return "paused" if row.paused else row.move
