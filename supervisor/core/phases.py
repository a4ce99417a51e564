"""Where one shard stands at this supervisor: a closed set of phases, each with a way out and a maximum age.

    Idle ── wanted ──> Wanted ── read ──> Claiming ── won ──> Held ── child dead ──> Vacant ── claim again
     ^                    │                  │                 │  │                    │
     └────────────────────┴──────────────────┘     refused: Dying └──> Releasing <─────┘
     └── child dead ── Dying                                             │
     └── released, refused or run out ───────────────────────────────────┘

Only `Held` and `Dying` have a child, so that a start needs a lease just won, and a release needs a death that was
seen: neither can be written down otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from supervisor.changes import RECOVERED
from supervisor.core.model import Effects, Moment, Rules, ShardRule
from supervisor.core.tenure import Tenure
from supervisor.writes import Claim, Wish


@dataclass(frozen=True, slots=True)
class Idle:
    """Not ours. Ends when the lease set wants the shard."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """We mean to claim and are reading the row, again and again until `until_ns` while its owner drains or gives it to
    us. `asking`: it has a live owner, whom we ask for it by `wish` (None: not yet; `wished`: it stands in the row)."""

    until_ns: int
    read_ns: int  # the next read, or while one is under way the instant at which we stop waiting for it
    asking: bool = False
    wish: Wish | None = None
    wished: bool = False


@dataclass(frozen=True, slots=True)
class Claiming:
    """A claim was sent. `tenure`: the lease was ours before. After an unknown outcome the row is read until it
    settles the claim (`unknown_ns` set; reads asked before it say nothing)."""

    claim: Claim
    sent_ns: int
    tenure: Tenure | None
    unknown_ns: int | None = None
    read_ns: int = 0
    asked: bool = False  # a live owner gave it to us: the next may be asked for


@dataclass(frozen=True, slots=True)
class Held:
    """Our lease, with a child. `stage`: starting, running, stopping (SIGTERM sent), killing (SIGKILL sent)."""

    tenure: Tenure
    deadline_ns: int
    stage: str
    since_ns: int
    reason: str = ""
    release: bool = False  # once the child is dead: give the lease up, rather than start again
    crashed: bool = True  # the death that comes counts as a crash
    outdated: bool = False  # its child runs an old configuration, and is replaced when its turn comes
    pending: str = ""  # nonce of the renewal under way
    pending_ns: int = 0
    retry_ns: int | None = None
    cause: str = ""  # of the unknown outcome since the last renewal known to be applied
    tries: int = 0  # renewals of unknown outcome in a row


@dataclass(frozen=True, slots=True)
class Dying:
    """The lease is lost, its child was killed and is not yet seen dead. Nothing is written for this epoch again."""

    epoch: int
    since_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class Vacant:
    """Our lease as far as we know, its child seen dead: claimed again at `due_ns`, or released if we must not.
    `reason`: which of `AGAIN` that claim will be."""

    tenure: Tenure
    due_ns: int
    reason: str = RECOVERED


@dataclass(frozen=True, slots=True)
class Releasing:
    """Our lease, its child seen dead, a release under way until `retry_ns` or to be sent then."""

    tenure: Tenure
    reason: str
    retry_ns: int


Phase = Idle | Wanted | Claiming | Held | Dying | Vacant | Releasing


@dataclass(frozen=True, slots=True)
class Tried:
    """A claim whose outcome nobody knows: if its row turns up later, it is ours and has no child."""

    claim: Claim
    sent_ns: int


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard's phase and what must survive its phases."""

    name: str
    rule: ShardRule | None  # None: no longer configured here
    phase: Phase = field(default_factory=Idle)
    configured_ns: int = 0  # when a reload brought it
    seen: int = 0  # highest epoch in any row seen
    tried: int = 0  # highest epoch in any write tried
    had_owner: bool = False  # somebody else was seen to own it since our start
    unsettled: tuple[Tried, ...] = ()
    settled_ns: int = 0  # reads asked before this instant show the past
    crashes: tuple[int, ...] = ()
    start_ns: int = 0  # not before this instant, because of crashes
    crash: str = ""  # why its child last ended unasked, here or where it was given up, while that is ours to tell
    gave_up_ns: int | None = None  # released after crashes or by a move: somebody else may try first
    failed_ns: int | None = None  # last released after crashes
    kept: int = 0  # the epoch in which we do not ask for it: an operator put it there, or our wish was refused
    abandoned: bool = False  # a lease that could not be released before it ran out


@dataclass(slots=True)
class Turn:
    """What one step has at hand. `out` collects its effects; it lives no longer than the step."""

    now: Moment
    rules: Rules
    me: str
    draining: bool  # a stop was asked for: nothing is claimed any more
    leaving: bool  # peers know that we drain: leases may be released
    out: Effects
    dead: frozenset[str] = frozenset()  # earlier incarnations of ours, proven dead
    copied: str = ""  # set when a second copy of ourselves was seen
    silent: bool = False  # the store has answered nothing for long
    look: bool = False  # set when a snapshot would be worth having at once
    in_vain: bool = False  # set when a wish of ours was taken back

    @property
    def ns(self) -> int:
        return self.now.boot_ns

    def jitter(self, around_ns: int, salt: str) -> int:
        """An instant between half of and one and a half times `around_ns` from now."""
        return self.ns + around_ns // 2 + int(around_ns * self.now.fraction(salt))
