"""What one sees of the show at an instant: who owns each shard, who is connected, what has been delivered.

Owners come from the store, connections from the feed's record, deliveries from the sink. A shard *streams* at a
supervisor when it is connected there and an event of that epoch has reached the sink.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.plan import Plan
from supervisor.demo.record import Delivery, Growing, delivery
from supervisor.stores.interface import Store, Unavailable

CALL_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Sight:
    """`owners`: shard to (supervisor, epoch). `streams`: shard to supervisor. `trouble`: why the store was not read."""

    owners: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    streams: Mapping[str, str] = field(default_factory=dict)
    delivered: int = 0
    trouble: str = ""

    @property
    def shares(self) -> Counter[str]:
        return Counter(self.streams.values())


class Watch:
    """Reads the three sources again and again; keeps every delivery for the verdict."""

    def __init__(self, plan: Plan, feed: FeedProcess, store: Store) -> None:
        self._feed = feed
        self._store = store
        self._growing = Growing(plan.sink)
        self._owners: Mapping[str, tuple[str, int]] = {}
        self._trouble = ""
        self._epochs: set[tuple[str, int]] = set()
        self.deliveries: list[Delivery] = []
        self.torn = 0

    def read_owners(self, pids: Mapping[str, int]) -> None:
        """From the store; an owner that is none of ours keeps the id it has there."""
        try:
            snapshot = self._store.snapshot(CALL_TIMEOUT_S)
        except Unavailable as error:
            self._trouble = str(error)
            return
        self._trouble = ""
        names = {str(pid): name for name, pid in pids.items()}
        self._owners = {
            lease.shard: (names.get(lease.owner.split(":")[-2], lease.owner), lease.epoch)
            for lease in snapshot.leases.values()
            if lease.owner is not None and lease.owner.count(":") >= 2
        }

    def look(self) -> Sight:
        self.read_sink()
        streams = {
            each.shard: each.supervisor for each in self._feed.connected() if (each.shard, each.epoch) in self._epochs
        }
        return Sight(self._owners, streams, len(self.deliveries), self._trouble)

    def read_sink(self) -> None:
        for line in self._growing.lines():
            found = delivery(line)
            if found is None:
                self.torn += 1
            else:
                self.deliveries.append(found)
                self._epochs.add((found.shard, found.epoch))
