"""The writes that change rows, and the three outcomes that a write can have.

What holds:

- every write but `PutMember` is conditional; its condition is spelled out in its docstring and is all that a
  store may check: two stores that honour the docstrings are interchangeable;
- an outcome is `Applied` only if the answer proves it, `Refused` only if the condition failed, and `Unknown`
  in every other case (timeout, 5xx, throttling, network, credentials, an answer that is none).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.records import Lease, Member


@dataclass(frozen=True, slots=True)
class Create:
    """Put a free row. Condition: no row has this key. Sets: epoch, beat 0, nonce, duration_ms, since."""

    shard: str
    epoch: int
    nonce: str
    duration_ms: int
    at: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Take a lease under a new epoch, somebody's or our own (whose child was seen dead).

    Condition: the row exists, `owner` is `seen_owner` (absent if None), `epoch` is `seen_epoch`, `beat` is
    between `beat_low` and `beat_high` (equal for a foreign row: exactly as observed), and it is not paused.
    Sets: owner, epoch, beat 0, nonce, duration_ms, policy, open 0, want, history, since, renewed_at; removes
    quiet_ms and `forced`; removes `move` unless `keep_move`; sets the checkpoint only if it is not None; sets the
    trouble, or removes it if it is empty.
    """

    shard: str
    seen_owner: str | None
    seen_epoch: int
    beat_low: int
    beat_high: int
    owner: str
    epoch: int
    nonce: str
    duration_ms: int
    policy: str
    want: int
    history: tuple[str, ...]
    at: int
    checkpoint: str | None = None
    keep_move: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Renew:
    """Keep a lease. Condition: `owner`, `epoch` are ours and `beat` is between `beat_low` and `beat_high`
    (the last beat known to be applied, the last attempted). Sets: beat (= beat_high + 1), nonce, open, want,
    policy, renewed_at; quiet_ms, the checkpoint and the trouble only if they are not None (an empty trouble ends one
    that an earlier renewal of the epoch may have left)."""

    shard: str
    owner: str
    epoch: int
    beat_low: int
    beat_high: int
    beat: int
    nonce: str
    open: int
    want: int
    quiet_ms: int | None
    policy: str
    checkpoint: str | None
    at: int
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Give a lease up; sent only after the child was seen dead. Condition: `owner` and `epoch` are ours.
    Removes owner and quiet_ms; sets nonce, open 0, history, renewed_at; the checkpoint only if not None; sets the
    trouble, or removes it if it is empty."""

    shard: str
    owner: str
    epoch: int
    nonce: str
    history: tuple[str, ...]
    checkpoint: str | None
    at: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class PutMember:
    """Replace our own member row. The one write without a condition: nobody else writes this key."""

    member: Member


@dataclass(frozen=True, slots=True)
class DeleteMember:
    """Remove a dead supervisor's row, or our own at the end. Condition: `beat` and `nonce` are as seen."""

    id: str
    beat: int
    nonce: str


@dataclass(frozen=True, slots=True)
class Wish:
    """Wish that a lease moves, or take such a wish back (`move` None). Condition: `owner` and `epoch` are as seen
    (owner absent if None) and `move` is `seen_move` (absent if None, so that over a wish that does not parse it is
    refused until a claim removes that). Sets or removes `move` alone, so that it disturbs no renewal. Sent twice, it is
    refused by a row that carries it. What a wish looks like stands in `wishes`."""

    shard: str
    seen_owner: str | None
    seen_epoch: int
    seen_move: str | None
    move: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wish that a shard does not run, or that it does again. Condition: `owner` and `epoch` are as seen (owner absent
    if None). Sets or removes `paused` alone."""

    shard: str
    seen_owner: str | None
    seen_epoch: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Depose:
    """Take a shard from its owner without asking, for an operator. Condition: `owner` and `epoch` are as seen. Sets:
    epoch (the next one, which nobody ever has), beat 0, nonce, paused, forced, open 0, history, since, renewed_at;
    removes owner, quiet_ms, trouble and `move`. The owner is refused from now on; since its child may live until the
    lease would have run out, the row keeps duration_ms, and with `forced` it can be claimed only after that, as if
    owned."""

    shard: str
    seen_owner: str
    seen_epoch: int
    nonce: str
    history: tuple[str, ...]
    at: int

    @property
    def epoch(self) -> int:
        return self.seen_epoch + 1


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete a free row, for an operator: no supervisor ever deletes one. Condition: no owner, `epoch` is as seen."""

    shard: str
    seen_epoch: int


OperatorsWrite = Wish | Pause | Depose | Forget
Write = Create | Claim | Renew | Release | PutMember | DeleteMember | OperatorsWrite


# --- outcomes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Applied:
    """The answer proves the write. `row`: the whole new row where the write was a `Create` or a `Claim`."""

    row: Lease | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition failed. `row` is the row that beat us, read after the refusal where the engine does not
    return it; None means that there is none. (A row that could not be read makes the outcome `Unknown`; one
    that does not parse is a `BadRow` text in `bad`.)"""

    row: Lease | None
    bad: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell whether the write was applied. `cause` is one short phrase for logs, without secrets.
    `unsent` says that it certainly was not (refused connection, dropped from a queue), `denied` that the store does not
    permit us such a write."""

    cause: str
    unsent: bool = False
    denied: bool = False


Outcome = Applied | Refused | Unknown


def after_claim(row: Lease, claim: Claim) -> Lease:
    """The row that an applied claim leaves behind; the contract suite holds every store to it."""
    return replace(
        row,
        owner=claim.owner,
        epoch=claim.epoch,
        beat=0,
        nonce=claim.nonce,
        duration_ms=claim.duration_ms,
        checkpoint=row.checkpoint if claim.checkpoint is None else claim.checkpoint,
        open=0,
        want=claim.want,
        quiet_ms=None,
        trouble=claim.trouble,
        policy=claim.policy,
        since=claim.at,
        renewed_at=claim.at,
        move=row.move if claim.keep_move else None,
        forced=False,
        history=claim.history,
    )


def after_depose(row: Lease, depose: Depose) -> Lease:
    """The row that an applied deposition leaves behind; the contract suite holds every store to it."""
    return replace(
        row,
        owner=None,
        epoch=depose.epoch,
        beat=0,
        nonce=depose.nonce,
        open=0,
        quiet_ms=None,
        trouble="",
        since=depose.at,
        renewed_at=depose.at,
        move=None,
        paused=True,
        forced=True,
        history=depose.history,
    )
