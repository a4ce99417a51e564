"""What an operator orders, how far it has come, and which steps there are. Values, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from supervisor.records import Lease
from supervisor.writes import OperatorsWrite

Verb = Literal["move", "pause", "resume", "forget"]
DONE: Mapping[Verb, str] = {"move": "moved", "pause": "paused", "resume": "resumed", "forget": "forgotten"}


@dataclass(frozen=True, slots=True)
class Order:
    """`to`: id or host of the supervisor that shall have the shard; "": anybody but its owner. `force`: pause without
    asking the owner. `kept`: the shards of the configuration that the command was given."""

    verb: Verb
    to: str = ""
    force: bool = False
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Task:
    """An order about one shard.

    `first`: its row when the command began. `seen`: its row under the last write that was applied, or may have been;
    `sure`: it was, as its answer or a row since then proves. `writes`: how many were answered. `cause`: why nobody
    knows what became of the last one. `nonce`: of our own, for a row that we depose."""

    shard: str
    nonce: str
    first: Lease | None
    seen: Lease | None = None
    sure: bool = False
    writes: int = 0
    cause: str = ""

    @property
    def begun(self) -> bool:
        return self.seen is not None or self.writes > 0


@dataclass(frozen=True, slots=True)
class Send:
    write: OperatorsWrite


@dataclass(frozen=True, slots=True)
class Wait:
    """The row shows what was wished for, or makes it needless; the effect has yet to come."""


@dataclass(frozen=True, slots=True)
class Look:
    """Nothing can be done before it is known who lives. `text`: why it would be in vain if wall clocks were right."""

    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """The end. `text` goes on after the shard's name if it was `done`, else it says why not. `then`: what else is worth
    knowing."""

    done: bool
    text: str
    then: str = ""


Step = Send | Wait | Look | Told
