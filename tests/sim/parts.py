"""What a simulated fleet is made of: the weather of its network, its hosts, their children, its rules."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Protocol

from supervisor import model
from supervisor.model import MS, SECOND, Rules, ShardRule
from supervisor.state import State


class Answer(Protocol):
    """Lets the answer of a call arrive within `high_ms`, or late if the weather wants it."""

    def __call__(self, event: model.Event, high_ms: float = 10) -> None: ...


@dataclass(slots=True)
class Weather:
    """How the network behaves. Probabilities per call; `outage` lets nothing through."""

    lost_request: float = 0.0
    lost_write: float = 0.0  # reads go through
    lost_read: float = 0.0
    lost_answer: float = 0.0  # of a write, which was applied
    late_request: float = 0.0  # lands after the caller stopped waiting
    late_answer: float = 0.0  # done in time, but the answer comes after the caller stopped waiting; reads too
    unsent: float = 0.0  # the connection is refused: the write certainly did nothing
    repeated: float = 0.0  # a proxy sends it twice; the second answer is what arrives
    throttled: float = 0.0
    outage: bool = False


@dataclass(slots=True)
class Child:
    shard: str
    epoch: int
    deadline_ns: int  # on its host's clock
    born_ns: int
    started: bool = False
    hung_ns: int | None = None
    checkpoint: int = 0


@dataclass(slots=True, eq=False)
class Host:
    name: str
    state: State
    offset_ns: int
    rate: float
    children: dict[str, Child] = field(default_factory=dict)
    up: bool = True
    paused: bool = False
    inbox: deque[model.Event] = field(default_factory=deque)
    exit_code: int | None = None
    wake: int = 0
    weather: Weather | None = None  # this host's own, instead of the world's
    proofs: dict[tuple[str, int], int] = field(default_factory=dict)  # sending of the last write that was applied
    tried: set[tuple[str, int]] = field(default_factory=set)  # shards and epochs of all claims that were sent
    last_words: dict[tuple[str, int], str] = field(default_factory=dict)  # checkpoints that dying children handed in

    def clock(self, now_ns: int) -> int:
        return self.offset_ns + int(now_ns * self.rate)


def rules(shards: int = 4, policy: str = "fence", **changes: object) -> Rules:
    """Rules with T = 10 s and the defaults of the configuration, scaled."""
    defaults = Rules(
        fleet="sim",
        shards={f"s/{index}": ShardRule(policy) for index in range(shards)},
        capacity=1000,
        duration_ns=10 * SECOND,
        renew_every_ns=10 * SECOND // 3,
        poll_every_ns=SECOND,
        attempt_ns=1600 * MS,
        margin_ns=SECOND,
        start_ns=10 * SECOND,
        hang_ns=30 * SECOND,
        stop_ns=8 * SECOND,
        crash_limit=5,
        crash_window_ns=300 * SECOND,
    )
    return replace(defaults, **changes)
