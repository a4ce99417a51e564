"""What each write means, in terms that every provider can render: a row to put, a row to change, a row to delete.

Decides which attributes a write sets and removes and on which terms it depends, exactly as the docstrings in
`records` say; `sqlite` and `dynamodb` only spell the result. So two stores cannot differ in a condition.
Values are plain: str, int, bool, or a tuple of str. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from supervisor.records import MEMBER_PREFIX, Member
from supervisor.writes import (
    Claim,
    Create,
    DeleteMember,
    Depose,
    Forget,
    Pause,
    PutMember,
    Release,
    Renew,
    Wish,
    Write,
)

Value = str | int | bool | tuple[str, ...]

KEY = "lease"
LEASE_COLUMNS = (
    "lease",
    "owner",
    "epoch",
    "beat",
    "nonce",
    "duration_ms",
    "checkpoint",
    "open",
    "want",
    "quiet_ms",
    "policy",
    "since",
    "renewed_at",
    "move",
    "paused",
    "forced",
    "history",
    "trouble",
)
MEMBER_COLUMNS = (
    "fleet",
    "state",
    "capacity",
    "shards",
    "version",
    "digest",
    "host",
    "task",
    "zone",
    "poll_ms",
    "rejected",
)
COLUMNS = LEASE_COLUMNS + MEMBER_COLUMNS  # `beat`, `nonce`, `duration_ms`, `since`, `renewed_at` serve both
# Those that an older SQLite file lacks: without them nothing of it changes its meaning.
LATER_COLUMNS = frozenset(("forced", "poll_ms", "rejected", "trouble"))
FOR_PEOPLE = (
    *("checkpoint", "open", "want", "quiet_ms", "trouble", "since", "renewed_at", "history"),
    *("poll_ms", "rejected"),
)
FOR_DECISIONS = tuple(name for name in COLUMNS if name not in FOR_PEOPLE)
LISTS = ("history", "shards")
FLAGS = ("paused", "forced")


@dataclass(frozen=True, slots=True)
class Equals:
    name: str
    value: str | int


@dataclass(frozen=True, slots=True)
class Absent:
    name: str


@dataclass(frozen=True, slots=True)
class Between:
    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class NotTrue:
    """The attribute is absent or false."""

    name: str


Term = Equals | Absent | Between | NotTrue


@dataclass(frozen=True, slots=True)
class Put:
    """Write a row. `new`: only if no row has this key."""

    key: str
    sets: Mapping[str, Value]
    new: bool


@dataclass(frozen=True, slots=True)
class Change:
    """Change a row if all `terms` hold. They always include an `Equals`, which a missing row cannot fulfil."""

    key: str
    sets: Mapping[str, Value]
    removes: tuple[str, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a row if all `terms` hold."""

    key: str
    terms: tuple[Term, ...]


Statement = Put | Change | Delete


def statement_of(write: Write) -> Statement:
    match write:
        case Create():
            return Put(write.shard, _free_row(write), new=True)
        case Claim():
            return _claim(write)
        case Renew():
            return renewal(write)
        case Release():
            return _release(write)
        case PutMember():
            return Put(write.member.key, member_attributes(write.member), new=False)
        case DeleteMember():
            terms = (Equals("beat", write.beat), Equals("nonce", write.nonce))
            return Delete(MEMBER_PREFIX + write.id, terms)
        case Wish():
            return _wish(write)
        case Pause():
            return _pause(write)
        case Depose():
            return _depose(write)
        case Forget():
            return Delete(write.shard, (Absent("owner"), Equals("epoch", write.seen_epoch)))


def _free_row(write: Create) -> dict[str, Value]:
    return {
        "epoch": write.epoch,
        "beat": 0,
        "nonce": write.nonce,
        "duration_ms": write.duration_ms,
        "since": write.at,
    }


def _claim(write: Claim) -> Change:
    sets: dict[str, Value] = {
        "owner": write.owner,
        "epoch": write.epoch,
        "beat": 0,
        "nonce": write.nonce,
        "duration_ms": write.duration_ms,
        "policy": write.policy,
        "open": 0,
        "want": write.want,
        "history": write.history,
        "since": write.at,
        "renewed_at": write.at,
    }
    if write.checkpoint is not None:
        sets["checkpoint"] = write.checkpoint
    told, untold = _trouble(write.trouble)
    removes = ("quiet_ms", "forced", *untold) + (() if write.keep_move else ("move",))
    terms = (
        _is("owner", write.seen_owner),
        Equals("epoch", write.seen_epoch),
        Between("beat", write.beat_low, write.beat_high),
        NotTrue("paused"),
    )
    return Change(write.shard, sets | told, removes, terms)


def renewal(write: Renew) -> Change:
    sets: dict[str, Value] = {
        "beat": write.beat,
        "nonce": write.nonce,
        "open": write.open,
        "want": write.want,
        "policy": write.policy,
        "renewed_at": write.at,
    }
    if write.quiet_ms is not None:
        sets["quiet_ms"] = write.quiet_ms
    if write.checkpoint is not None:
        sets["checkpoint"] = write.checkpoint
    if write.trouble is not None:
        sets["trouble"] = write.trouble
    terms = (
        Equals("owner", write.owner),
        Equals("epoch", write.epoch),
        Between("beat", write.beat_low, write.beat_high),
    )
    return Change(write.shard, sets, (), terms)


def _release(write: Release) -> Change:
    sets: dict[str, Value] = {"nonce": write.nonce, "open": 0, "history": write.history, "renewed_at": write.at}
    if write.checkpoint is not None:
        sets["checkpoint"] = write.checkpoint
    told, untold = _trouble(write.trouble)
    terms = (Equals("owner", write.owner), Equals("epoch", write.epoch))
    return Change(write.shard, sets | told, ("owner", "quiet_ms", *untold), terms)


def _trouble(text: str) -> tuple[dict[str, Value], tuple[str, ...]]:
    """What is set, and what removed."""
    return ({"trouble": text}, ()) if text else ({}, ("trouble",))


def _wish(write: Wish) -> Change:
    seen = (
        _is("owner", write.seen_owner),
        Equals("epoch", write.seen_epoch),
        _is("move", write.seen_move),
    )
    if write.move is None:
        return Change(write.shard, {}, ("move",), seen)
    return Change(write.shard, {"move": write.move}, (), seen)


def _pause(write: Pause) -> Change:
    seen = (_is("owner", write.seen_owner), Equals("epoch", write.seen_epoch))
    if write.paused:
        return Change(write.shard, {"paused": True}, (), seen)
    return Change(write.shard, {}, ("paused",), seen)


def _depose(write: Depose) -> Change:
    sets: dict[str, Value] = {
        "epoch": write.epoch,
        "beat": 0,
        "nonce": write.nonce,
        "paused": True,
        "forced": True,
        "open": 0,
        "history": write.history,
        "since": write.at,
        "renewed_at": write.at,
    }
    seen = (Equals("owner", write.seen_owner), Equals("epoch", write.seen_epoch))
    return Change(write.shard, sets, ("owner", "quiet_ms", "trouble", "move"), seen)


def _is(name: str, value: str | None) -> Term:
    return Absent(name) if value is None else Equals(name, value)


def member_attributes(member: Member) -> dict[str, Value]:
    """All of them, also empty ones: a put replaces what an older put wrote."""
    return {
        "fleet": member.fleet,
        "state": member.state,
        "beat": member.beat,
        "nonce": member.nonce,
        "duration_ms": member.duration_ms,
        "capacity": member.capacity,
        "shards": member.shards,
        "version": member.version,
        "digest": member.digest,
        "host": member.host,
        "task": member.task,
        "zone": member.zone,
        "since": member.since,
        "renewed_at": member.renewed_at,
        "poll_ms": member.poll_ms,
        "rejected": member.rejected,
    }


def check_batch(writes: Sequence[Renew], batch: int) -> None:
    """A row stands in a batch at most once; raises ValueError, for a caller that breaks that has a bug."""
    if len(writes) > batch:
        raise ValueError(f"{len(writes)} renewals in one call, at most {batch} are possible")
    if len({write.shard for write in writes}) != len(writes):
        raise ValueError("one call renews a shard twice; a row stands in a batch at most once")
