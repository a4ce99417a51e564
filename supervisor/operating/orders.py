"""What an operator orders, what the store shows about it, and which steps there are. Values, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from supervisor.operating.candidates import Candidates
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
    """An order about one shard. `first`: its row when the command began; `seen`: its row under the last write that is
    known to have been applied; `cause`: why nobody knows what became of the last one; `nonce`: of our own, for a row
    that we depose."""

    shard: str
    nonce: str
    first: Lease | None
    seen: Lease | None = None
    writes: int = 0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the store shows at `now_ms` (unix milliseconds)."""

    rows: Mapping[str, Lease]
    candidates: Candidates
    bad: Mapping[str, str]
    now_ms: int


@dataclass(frozen=True, slots=True)
class Send:
    write: OperatorsWrite


@dataclass(frozen=True, slots=True)
class Wait:
    """What was wished for has yet to happen."""


@dataclass(frozen=True, slots=True)
class Told:
    """The end. `text` goes on after the shard's name if it was `done`, else it says why not. `then`: what else is worth
    knowing."""

    done: bool
    text: str
    then: str = ""


Step = Send | Wait | Told
