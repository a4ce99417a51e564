"""All shards that a supervisor knows, with those that it has something to do with apart from the others.

A supervisor of a large fleet is configured for thousands of shards and busy with a few. What holds: a shard is idle or
busy, never both; whoever asks what time or an answer changes looks at the busy ones alone, so that a step costs by what
a supervisor owns, not by what it is configured for.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field

from supervisor.core.phases import Idle, Shard


@dataclass(frozen=True, slots=True)
class Shards:
    """Reads like a mapping from names. `busy`: whose phase is not `Idle`."""

    idle: Mapping[str, Shard] = field(default_factory=dict)
    busy: Mapping[str, Shard] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Shard:
        return self.busy[name] if name in self.busy else self.idle[name]

    def get(self, name: str) -> Shard | None:
        return self.busy.get(name) or self.idle.get(name)

    def __iter__(self) -> Iterator[str]:
        yield from self.busy
        yield from self.idle

    def __len__(self) -> int:
        return len(self.busy) + len(self.idle)

    def items(self) -> ItemsView[str, Shard]:
        return {**self.busy, **self.idle}.items()

    def values(self) -> ValuesView[Shard]:
        return {**self.busy, **self.idle}.values()

    def having(self, changed: Iterable[Shard]) -> Shards:
        """With these in the place of those of the same name."""
        idle: dict[str, Shard] = {}
        busy: dict[str, Shard] = {}
        for shard in changed:
            (idle if isinstance(shard.phase, Idle) else busy)[shard.name] = shard
        return Shards(_joined(self.idle, idle, busy), _joined(self.busy, busy, idle))


def _joined(these: Mapping[str, Shard], come: Mapping[str, Shard], go: Mapping[str, Shard]) -> Mapping[str, Shard]:
    going = go.keys() & these.keys()
    if not come and not going:
        return these
    joined = {**these, **come}
    for name in going:
        del joined[name]
    return joined
