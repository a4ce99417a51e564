"""What we know about a lease that is, or may be, ours: which of our attempts a row proves, and what it refutes.

A lease row that carries our owner and epoch carries also the nonce of the write that made it so. If that nonce is
one of ours, the attempt was applied, whatever its answer said or whether it ever came; the deadline then counts
from the sending of *that* attempt. If it is none of ours, at a beat that we tried under another nonce or above all
that we tried, somebody else writes with our identity: a second copy of ourselves (a cloned or restored machine). A
beat below the last one known to be applied is old news, and one among the attempts that were too many to remember says
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.core.model import MS, Rules
from supervisor.records import Lease
from supervisor.writes import Claim


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claim (beat 0) or a renewal, sent at `sent_ns`."""

    beat: int
    nonce: str
    sent_ns: int


@dataclass(frozen=True, slots=True)
class Tenure:
    """One epoch of one lease, with what was promised for it: a reload changes neither duration, margin nor policy.
    `attempts` runs from the last one known to be applied to the last one tried."""

    shard: str
    owner: str
    epoch: int
    duration_ns: int
    attempts: tuple[Attempt, ...]
    row: Lease
    checkpoint: str | None
    policy: str
    margin_ns: int
    answered_ns: int  # when the claim was answered: a read asked before shows the past
    troubled: bool = False  # its claim or a renewal that was sent told of a trouble, so that the row may carry one

    @property
    def applied(self) -> Attempt:
        return self.attempts[0]

    @property
    def beat_tried(self) -> int:
        return self.attempts[-1].beat

    @property
    def expires_ns(self) -> int:
        """From here on somebody else may own the lease. Counted from the sending, so never later than the truth."""
        return self.applied.sent_ns + self.duration_ns

    @property
    def deadline_ns(self) -> int:
        """From here on its child must not deliver."""
        return self.expires_ns - self.margin_ns

    def renew_every_ns(self, rules: Rules) -> int:
        """How often it needs to be renewed, whatever longer duration rules were made for that came after its claim."""
        return min(rules.renew_every_ns, self.duration_ns // 3)

    def attempt_ns(self, rules: Rules) -> int:
        """How long an attempt to renew it may take: the same part of the interval as the rules say."""
        return rules.attempt_ns * self.renew_every_ns(rules) // rules.renew_every_ns


@dataclass(frozen=True, slots=True)
class Lost:
    """The row refutes the tenure; `reason` names what beat us."""

    reason: str


@dataclass(frozen=True, slots=True)
class Copied:
    """Somebody writes with our owner id and epoch: a second copy of ourselves."""

    reason: str


def begin(claim: Claim, row: Lease, sent_ns: int, answered_ns: int, margin_ns: int) -> Tenure:
    """The tenure that an applied claim opens; `row` is what it left in the store."""
    return Tenure(
        shard=claim.shard,
        owner=claim.owner,
        epoch=claim.epoch,
        duration_ns=claim.duration_ms * MS,
        attempts=(Attempt(0, claim.nonce, sent_ns),),
        row=row,
        checkpoint=row.checkpoint,
        policy=claim.policy,
        margin_ns=margin_ns,
        answered_ns=answered_ns,
        troubled=bool(claim.trouble),
    )


def prove(tenure: Tenure, nonce: str) -> Tenure:
    """The attempt with this nonce was applied. Earlier ones no longer matter; an older proof changes nothing."""
    for index, attempt in enumerate(tenure.attempts):
        if attempt.nonce == nonce:
            return replace(tenure, attempts=tenure.attempts[index:]) if index else tenure
    return tenure


def judge(tenure: Tenure, row: Lease | None) -> Tenure | Lost | Copied:
    """What a row says that was read after the claim had been answered (or that came with a refusal)."""
    if row is None:
        return Lost("the row is gone")
    if row.owner is None:
        return Lost(f"the row is free at epoch {row.epoch}")
    if row.owner != tenure.owner:
        return Lost(f"{row.owner} owns epoch {row.epoch}")
    if row.epoch != tenure.epoch:
        return Lost(f"the row says epoch {row.epoch}")
    if any(attempt.nonce == row.nonce for attempt in tenure.attempts):
        return prove(tenure, row.nonce)
    if row.beat > tenure.beat_tried or any(attempt.beat == row.beat for attempt in tenure.attempts):
        return Copied(f"another copy of {tenure.owner} wrote beat {row.beat}")
    return tenure
