"""The show's plan as a value: who plays, in which folder, and the configuration files of the supervisors. Pure.

Each supervisor has its own `state_dir` and `run_dir`, as it would on a host of its own; all share the store and
the sink, one file, so that its lines stand in the order in which events were delivered. The fleet's name is new
for each show: a table that somebody else's fleet is using is then refused instead of shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NAMES = ("one", "two", "three")
STREAM = "demo"
DURATION_MS = 3000
RATE = 20


@dataclass(frozen=True, slots=True)
class Plan:
    folder: Path
    store: str  # an absolute URL
    fleet: str
    names: tuple[str, ...]
    shard_count: int
    handler: Path

    @property
    def shards(self) -> tuple[str, ...]:
        return tuple(f"{STREAM}/{number}" for number in range(self.shard_count))

    @property
    def sink(self) -> Path:
        return self.folder / "events.jsonl"

    def home(self, name: str) -> Path:
        return self.folder / name

    def log(self, name: str) -> Path:
        return self.home(name) / "log.jsonl"

    def configuration(self, name: str) -> Path:
        return self.home(name) / "tenured.ini"

    def text(self, name: str, url: str) -> str:
        """The configuration file of supervisor `name`; `url` is a template, everything else is literal. The folder is
        short of subfolders because the path of a socket may have only about a hundred bytes."""
        return f"""\
[supervisor]
fleet = {self.fleet}
store = {_literal(self.store)}
state_dir = {_literal(str(self.home(name) / "state"))}
run_dir = {_literal(str(self.home(name)))}
lease_duration = {DURATION_MS}ms
capacity = {self.shard_count}

[stream:{STREAM}]
shards = 0-{self.shard_count - 1}
url = {url}
handler = {_literal(str(self.handler))}:Resume
sink = jsonl:{_literal(str(self.sink))}
"""


def _literal(text: str) -> str:
    """A dollar begins a placeholder unless it is doubled."""
    return text.replace("$", "$$")
