"""What a simulated fleet is made of: the weather of its network, its hosts, their children, its rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

from supervisor.core import model
from supervisor.core.model import MS, SECOND, Rules, ShardRule
from supervisor.core.state import State


class Answer(Protocol):
    """Lets the answer of a call arrive within `high_ms`, or late if the weather wants it."""

    def __call__(self, event: model.Event, high_ms: float = 10) -> None: ...


@dataclass(frozen=True, slots=True)
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
    replayed: float = 0.0  # a proxy sends a copy of it much later; nobody hears what becomes of that
    throttled: float = 0.0
    outage: bool = False

    @property
    def clear(self) -> bool:
        return self is CLEAR or self == CLEAR

    def __str__(self) -> str:
        bad = [f"{part.name} {value:g}" for part in fields(self) if (value := getattr(self, part.name))]
        return ", ".join(bad) or "clear"


CLEAR = Weather()
CHANCES = tuple(part.name for part in fields(Weather) if part.name != "outage")


@dataclass(slots=True)
class Child:
    shard: str
    epoch: int
    deadline_ns: int  # on its host's clock
    born_ns: int
    started: bool = False
    stalled: bool = False  # it never becomes ready
    hung_ns: int | None = None
    stop_ns: int | None = None  # when it was asked to end
    killed: bool = False
    held: bool = False  # `hold` moved its deadline beyond what a renewal allows: it may overlap with a newer one
    checkpoint: int = 0


@dataclass(frozen=True, slots=True)
class Doom:
    """A crash in this step of a host's own, after so many of the step's effects; `then` comes at once."""

    step: int
    effects: int
    then: Callable[[], object]


@dataclass(slots=True, eq=False)
class Host:
    """One incarnation of a supervisor on one machine."""

    name: str
    state: State
    offset_ns: int
    rate: float
    children: dict[str, Child] = field(default_factory=dict)
    up: bool = True
    paused: bool = False  # SIGSTOP of the supervisor alone
    frozen: bool = False  # the whole machine: its clock goes on, its processes and their timers do not
    inbox: deque[model.Event] = field(default_factory=deque)
    thaw: list[Callable[[], None]] = field(default_factory=list)  # what was due while the machine was frozen
    exit_code: int | None = None
    wake: int = 0
    steps: int = 0
    doom: Doom | None = None
    weather: Weather | None = None  # this host's own, instead of the world's
    dead: frozenset[str] = frozenset()  # ids of earlier incarnations of which the machine's lock proves the death
    disturbed_ns: int = 0  # the last instant at which something unusual happened to it
    full_ns: int = -(10**18)  # the last instant at which it was seen without room
    proofs: dict[tuple[str, int], int] = field(default_factory=dict)  # sending of the last write that was applied
    tried: set[tuple[str, int]] = field(default_factory=set)  # shards and epochs of all claims that were sent
    last_words: dict[tuple[str, int], str] = field(default_factory=dict)  # checkpoints that dying children handed in

    @property
    def machine(self) -> str:
        return self.name.partition(":")[0]

    @property
    def running(self) -> bool:
        """The process exists, stopped or not."""
        return self.up and self.exit_code is None

    @property
    def awake(self) -> bool:
        return self.up and self.exit_code is None and not self.paused and not self.frozen

    def clock(self, now_ns: int) -> int:
        return self.offset_ns + int(now_ns * self.rate)

    def world_ns(self, boot_ns: int) -> int:
        """The instant of the world at which this host's clock has reached `boot_ns`."""
        return int((boot_ns - self.offset_ns) / self.rate) + 1


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
