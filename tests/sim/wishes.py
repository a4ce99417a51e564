"""No wish in a row is stuck: once its owner is able to, it grants the wish or takes it back.

The clock of a wish starts at the latest of: the writing of it; an attempt after the last fault that touched its owner
or its row; and the end of the last other wish at the same owner, since an owner gives up one shard at a time. From then
on it may take two polls, the stop of a child, and the calls. Looked at once a second. (A free row with a wish is a
shard without service, which `service` watches.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.model import SECOND
from supervisor.records import Lease
from tests.sim.parts import Host

if TYPE_CHECKING:
    from tests.sim.world import World

Key = tuple[str, str, str, int]  # shard, wish, owner, epoch
LOOK_NS = SECOND
CALLS_NS = SECOND // 2


class Wishes:
    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[Key, int] = {}
        self._ended: dict[str, int] = {}  # when the last wish at an owner ended
        self.worst_ns = 0  # the longest wait that counted

    def look(self) -> None:
        world = self._world
        rows = [row for row in world.store.leases.values() if row.move and row.owner]
        keys = {_key(row): row for row in rows}
        for key in [key for key in self._since if key not in keys]:
            self._ended[key[2]] = world.now_ns
            del self._since[key]
        owners = {host.state.me: host for host in world.hosts if host.awake}
        for key, row in keys.items():
            since_ns = self._since.setdefault(key, world.now_ns)
            owner = owners.get(key[2])
            if owner and owner.state.stage == "active" and world.weather_of(owner).clear and not row.paused:
                self._judge(row, owner, since_ns)

    def _judge(self, row: Lease, owner: Host, since_ns: int) -> None:
        world, rules = self._world, self._world.rules
        calm_ns = max(owner.disturbed_ns, world.service.disturbed_ns(row.shard)) + rules.attempt_ns
        waited_ns = world.now_ns - max(since_ns, calm_ns, self._ended.get(owner.state.me, 0))
        bound_ns = int((2 * owner.state.poll_ns + rules.stop_ns) / owner.rate) + CALLS_NS + LOOK_NS
        self.worst_ns = max(self.worst_ns, waited_ns)
        assert waited_ns <= bound_ns, world.report(
            f"the wish {row.move!r} in the row of {row.shard} is stuck for {waited_ns / SECOND:.2f} s, "
            f"where {owner.name} stands at {owner.state.shards[row.shard]}"
        )


def _key(row: Lease) -> Key:
    return (row.shard, row.move or "", row.owner or "", row.epoch)
