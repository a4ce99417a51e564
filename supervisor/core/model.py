"""What goes into a step of the lease set and what comes out: events, effects, and all that is known beside them.

Events are participles (something happened), effects are verbs (do this). The daemon turns effects into calls and
what comes of them into events; the simulator does the same with a simulated world. Both must keep two promises:

- effects are carried out in their order, a `Kill` before anything that follows it;
- every `Apply`, `Renewals`, `Read`, `TakeSnapshot` and `Prove` is answered by an event after at most an attempt's
  deadline (by `Unknown` or a failure when nothing came). A real answer that comes later is delivered too.

Instants are CLOCK_BOOTTIME nanoseconds. A call counts as sent at the step that asked for it, which is never later
than the truth; a row counts as received at the step that brought it, which is never earlier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.names import compact
from supervisor.records import Lease, Member, Snapshot
from supervisor.writes import Outcome, Renew, Write

MS = 1_000_000
SECOND = 1_000 * MS


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything a step may know of the world beside its event.

    `unix_ms` is for people and for the epoch of a created row; no decision compares it. `entropy` is fresh for
    every step; nonces mix the clock into it, since a restored copy of a machine may repeat its random bytes."""

    boot_ns: int
    unix_ms: int
    entropy: bytes

    def _digest(self, salt: str) -> bytes:
        data = b"%b %d %d %b" % (self.entropy, self.boot_ns, self.unix_ms, salt.encode())
        return hashlib.blake2b(data, digest_size=8).digest()

    def nonce(self, salt: str) -> str:
        """A token that no other attempt has; `salt` tells the attempts of one step apart."""
        return self._digest(salt).hex()

    def fraction(self, salt: str) -> float:
        """A number in [0, 1) for jitter."""
        return int.from_bytes(self._digest(salt)) / 2**64


@dataclass(frozen=True, slots=True)
class ShardRule:
    """What the configuration says about a shard as far as ownership is concerned. `want` = connections."""

    policy: str = "fence"
    want: int = 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers that the decisions obey; their relations were checked when the configuration was loaded. `folded`:
    the names of the shards as a member row carries them."""

    fleet: str
    shards: Mapping[str, ShardRule]
    capacity: int
    duration_ns: int
    renew_every_ns: int
    poll_every_ns: int
    attempt_ns: int
    margin_ns: int
    start_ns: int
    hang_ns: int
    stop_ns: int
    crash_limit: int
    crash_window_ns: int
    host: str = ""
    task: str = ""
    zone: str = ""
    version: str = ""
    digest: str = ""
    folded: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded", compact(tuple(self.shards)))

    @property
    def duration_ms(self) -> int:
        return self.duration_ns // MS


@dataclass(frozen=True, slots=True)
class Report:
    """What a child's slot of the board said when it was read."""

    epoch: int
    heartbeat_ns: int = 0
    started: bool = False
    open: int = 0
    want: int = 0
    messages: int = 0
    last_event_ns: int = 0
    checkpoint: str | None = None
    bytes: int = 0  # payload of the messages
    connects: int = 0
    trouble: str = ""  # what is wrong now
    handler_errors: int = 0
    gaps: int = 0
    violations: int = 0
    silences: int = 0
    tokens_dropped: int = 0
    events_dropped: int = 0
    sink_waiting_bytes: int = 0
    sink_stalled_ns: int = 0  # since when; 0: it takes what comes
    sink_retries: int = 0


# --- events -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; `reports` holds every live child's board slot as it was just read."""

    reports: Mapping[str, Report] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proved:
    """The store passed the probe with this member row, which stands in it now."""

    member: Member


@dataclass(frozen=True, slots=True)
class ProofFailed:
    """The store could not be reached for the probe. (One that is unfit ends the process in the daemon.)"""

    cause: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of one write, in time or late."""

    write: Write
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RowRead:
    """A keyed read of one row, with its history. `asked_ns` is the instant of the step that asked."""

    shard: str
    row: Lease | None
    asked_ns: int


@dataclass(frozen=True, slots=True)
class ReadFailed:
    shard: str
    cause: str


@dataclass(frozen=True, slots=True)
class Snapshotted:
    snapshot: Snapshot
    asked_ns: int


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    cause: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The child's pidfd became readable, or it never came to be: then there is no report. `report`: its last words.
    `reason`: how it ended, or why it never came to be."""

    shard: str
    epoch: int
    report: Report | None = None
    reason: str = "ended"


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The configuration was read anew."""

    rules: Rules


@dataclass(frozen=True, slots=True)
class Outdated:
    """The children of these shards run an old configuration, and can be replaced from now on."""

    shards: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReloadRejected:
    """A new configuration is invalid, and the old one stays. `reason`: its first mistake, for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The first asks for a graceful stop, the second for one at once."""


Event = (
    Ticked
    | Proved
    | ProofFailed
    | Answered
    | RowRead
    | ReadFailed
    | Snapshotted
    | SnapshotFailed
    | Exited
    | Reconfigured
    | Outdated
    | ReloadRejected
    | StopRequested
)


# --- effects ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL the child, now."""

    shard: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """SIGTERM the child: it closes its connections, flushes its sink and exits."""

    shard: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """Fork a child. It must not deliver at or after `deadline_ns` unless a later `Extend` moved it."""

    shard: str
    epoch: int
    deadline_ns: int
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class Extend:
    """Move a child's fence deadline, forward only."""

    shard: str
    epoch: int
    deadline_ns: int


@dataclass(frozen=True, slots=True)
class Renewals:
    """Renewals of different shards that may share calls, each of which may take `within_ns`. One that stands alone is
    sent alone."""

    writes: tuple[Renew, ...]
    within_ns: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Any other write, off the renewal lane."""

    write: Write


@dataclass(frozen=True, slots=True)
class Read:
    shard: str


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    pass


@dataclass(frozen=True, slots=True)
class Prove:
    """Put this member row and prove on it that the store enforces conditions."""

    member: Member


@dataclass(frozen=True, slots=True)
class Log:
    """A line for people. `event` is one of the fixed list; `level` is a name of the logging module."""

    level: str
    event: str
    shard: str = ""
    epoch: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """Everything is over: end the process with this code."""

    code: int
    reason: str


Effect = Kill | Stop | Start | Extend | Renewals | Apply | Read | TakeSnapshot | Prove | Log | Exit
Effects = list[Effect]
