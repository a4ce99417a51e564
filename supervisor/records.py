"""The rows of the store: leases and members, as values and from untrusted attributes.

Rows are untrusted. What a decision reads parses, or `lease_from` and `member_from` raise `BadRow`: they never guess.
What a snapshot for decisions leaves out of a lease (its checkpoint, and what only people read) never makes it a bad
row, since it would look free in each snapshot and could never be claimed: it gets its default, and `flaws` says so.
The same holds for `move`: a wish that is none is no reason not to serve the shard.

Numbers are bounded far below what a store can hold, so that one more than what a row says can always be written. Times
named `since` and `renewed_at` are unix milliseconds for people; no decision reads them.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard, TypeVar

from supervisor.names import SHARDS_MAX, count

MEMBER_PREFIX = "@"
CHECKPOINT_MAX_BYTES = 2048
MOVE_MAX_BYTES = 512
TROUBLE_MAX_BYTES = 160
DURATION_MIN_MS = 1000
DURATION_MAX_MS = 3_600_000
NUMBER_MAX = 2**62
COUNT_MAX = 1_000_000
HISTORY_MAX = 8
HISTORY_ENTRY_MAX_BYTES = 128
REJECTED_MAX_BYTES = 300
POLICIES = ("fence", "hold")
STATES = ("active", "draining")

_SHOWN_MAX = 80

T = TypeVar("T")


class BadRow(ValueError):
    """A row of the store that does not parse, or promises what nobody may; the text says which attribute, is short, and
    can be printed."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who owns a shard (`owner` None: free). `trouble`: what its child said is wrong with it, if anything. `forced`: an
    operator removed its owner, whose child may live as long as its lease would have. `history` is empty where a read
    did not ask for it. `flaws`: a sentence for each attribute that was left out because it makes no sense."""

    shard: str
    owner: str | None
    epoch: int
    beat: int
    nonce: str
    duration_ms: int
    checkpoint: str | None = None
    open: int = 0
    want: int = 0
    quiet_ms: int | None = None
    trouble: str = ""
    policy: str = "fence"
    since: int = 0
    renewed_at: int = 0
    move: str | None = None
    paused: bool = False
    forced: bool = False
    history: tuple[str, ...] = ()
    flaws: tuple[str, ...] = field(default=(), compare=False)

    @property
    def triple(self) -> tuple[str | None, int, int]:
        """What an observer watches, and what a claim is conditional on."""
        return (self.owner, self.epoch, self.beat)


@dataclass(frozen=True, slots=True)
class Member:
    """A supervisor's own row; its key in the store is `@<id>`. `shards` is the folded form (see `names`). `poll_ms`:
    the poll interval in force; `rejected`: why its last reload was rejected, in at most `REJECTED_MAX_BYTES`."""

    id: str
    fleet: str
    state: str
    beat: int
    nonce: str
    duration_ms: int
    capacity: int
    shards: tuple[str, ...]
    version: str = ""
    digest: str = ""
    host: str = ""
    task: str = ""
    zone: str = ""
    since: int = 0
    renewed_at: int = 0
    poll_ms: int = 0
    rejected: str = ""

    @property
    def key(self) -> str:
        return MEMBER_PREFIX + self.id


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent read of all rows; `bad` names the rows that do not parse, with the reason."""

    leases: Mapping[str, Lease]
    members: Mapping[str, Member]
    bad: Mapping[str, str]


# --- parsing ----------------------------------------------------------------------------------------------


def _shown(value: object) -> str:
    """For messages: as Python would write it, which is printable, and short."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 2, _SHOWN_MAX, _SHOWN_MAX, _SHOWN_MAX
    text = short.repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _is_text(value: object, max_bytes: float = math.inf) -> TypeGuard[str]:
    """Text that can be stored and printed: half of a surrogate pair cannot."""
    try:
        return isinstance(value, str) and len(value.encode()) <= max_bytes
    except UnicodeEncodeError:
        return False


def _integer(item: Mapping[str, Any], name: str, low: int = 0, high: int = NUMBER_MAX) -> int:
    value = item.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadRow(f"{name} is {_shown(value)}, expected a whole number from {low} to {high}")
    return value


def _optional_integer(item: Mapping[str, Any], name: str, high: int = NUMBER_MAX) -> int | None:
    return None if item.get(name) is None else _integer(item, name, high=high)


def _text(item: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = item.get(name, default)
    if not _is_text(value):
        raise BadRow(f"{name} is {_shown(value)}, expected text")
    return value


def _choice(item: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = _text(item, name, allowed[0])
    if value not in allowed:
        raise BadRow(f"{name} is {_shown(value)}, expected one of {', '.join(allowed)}")
    return value


def _flag(item: Mapping[str, Any], name: str) -> bool:
    value = item.get(name)
    if not isinstance(value, bool | type(None)):
        raise BadRow(f"{name} is {_shown(value)}, expected true or false")
    return bool(value)


def _optional_text(item: Mapping[str, Any], name: str) -> str | None:
    return None if item.get(name) is None else _text(item, name)


def _texts(item: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = item.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(map(_is_text, value)):
        raise BadRow(f"{name} is {_shown(value)}, expected a list of texts")
    return tuple(value)


def _shards(item: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Folded names; a row may not stand for more of them than a configuration."""
    folded = _texts(item, name)
    if (named := count(folded)) > SHARDS_MAX:
        raise BadRow(f"{name} stands for {named} shards, expected at most {SHARDS_MAX}")
    return folded


def _history(item: Mapping[str, Any], name: str) -> tuple[str, ...]:
    entries = _texts(item, name)[-HISTORY_MAX:]
    if not all(_is_text(entry, HISTORY_ENTRY_MAX_BYTES) for entry in entries):
        raise BadRow(f"{name} is {_shown(entries)}, expected entries of at most {HISTORY_ENTRY_MAX_BYTES} bytes")
    return entries


def _checkpoint(item: Mapping[str, Any], name: str) -> str | None:
    """Its content stays out of the message: a token may be worth keeping to oneself."""
    value = item.get(name)
    if value is None or _is_text(value, CHECKPOINT_MAX_BYTES):
        return value
    raise BadRow(f"{name} is no text of at most {CHECKPOINT_MAX_BYTES} bytes, the shard goes on without it")


def _short(item: Mapping[str, Any], name: str, max_bytes: int) -> str | None:
    value = item.get(name)
    if value is None or _is_text(value, max_bytes):
        return value
    raise BadRow(f"{name} is {_shown(value)}, expected a text of at most {max_bytes} bytes, it is ignored")


def lease_from(item: Mapping[str, Any]) -> Lease:
    """A lease from plain attributes (str, int, bool, None, list). Raises `BadRow`."""
    shard = _text(item, "lease")
    if not shard or shard.startswith(MEMBER_PREFIX):
        raise BadRow(f"{_shown(shard)} is not the name of a shard")
    owner = _optional_text(item, "owner")
    if owner == "":
        raise BadRow("owner is empty, expected a supervisor id or no attribute")
    flaws: list[str] = []

    def spared(parse: Callable[..., T | None], name: str, *bound: int) -> T | None:
        try:
            return parse(item, name, *bound)
        except BadRow as error:
            flaws.append(str(error))
            return None

    return Lease(
        shard=shard,
        owner=owner,
        epoch=_integer(item, "epoch", 1),
        beat=_integer(item, "beat"),
        nonce=_text(item, "nonce", ""),
        duration_ms=_integer(item, "duration_ms", DURATION_MIN_MS, DURATION_MAX_MS),
        checkpoint=spared(_checkpoint, "checkpoint"),
        open=spared(_optional_integer, "open", COUNT_MAX) or 0,
        want=spared(_optional_integer, "want", COUNT_MAX) or 0,
        quiet_ms=spared(_optional_integer, "quiet_ms"),
        trouble=spared(_short, "trouble", TROUBLE_MAX_BYTES) or "",
        policy=_choice(item, "policy", POLICIES),
        since=spared(_optional_integer, "since") or 0,
        renewed_at=spared(_optional_integer, "renewed_at") or 0,
        move=spared(_short, "move", MOVE_MAX_BYTES),
        paused=_flag(item, "paused"),
        forced=_flag(item, "forced"),
        history=spared(_history, "history") or (),
        flaws=tuple(flaws),  # the last, when all others are parsed
    )


def member_from(item: Mapping[str, Any]) -> Member:
    """A member row from plain attributes. Raises `BadRow`."""
    key = _text(item, "lease")
    if not key.startswith(MEMBER_PREFIX) or len(key) == 1:
        raise BadRow(f"{_shown(key)} is not the key of a member row")
    return Member(
        id=key[1:],
        fleet=_text(item, "fleet"),
        state=_choice(item, "state", STATES),
        beat=_integer(item, "beat"),
        nonce=_text(item, "nonce"),
        duration_ms=_integer(item, "duration_ms", DURATION_MIN_MS, DURATION_MAX_MS),
        capacity=_integer(item, "capacity", high=COUNT_MAX),
        shards=_shards(item, "shards"),
        **{name: _text(item, name, "") for name in ("version", "digest", "host", "task", "zone")},
        since=_optional_integer(item, "since") or 0,
        renewed_at=_optional_integer(item, "renewed_at") or 0,
        poll_ms=_optional_integer(item, "poll_ms") or 0,
        rejected=_text(item, "rejected", ""),
    )


def snapshot_from(items: list[dict[str, Any]]) -> Snapshot:
    """All rows of one complete read; a row that does not parse lands in `bad`, never in a decision. There a key that is
    no text stands as Python would write it."""
    leases: dict[str, Lease] = {}
    members: dict[str, Member] = {}
    bad: dict[str, str] = {}
    for item in items:
        key = item.get("lease")
        name = key if _is_text(key) else _shown(key)
        try:
            if name.startswith(MEMBER_PREFIX):
                members[name[1:]] = member_from(item)
            else:
                leases[name] = lease_from(item)
        except BadRow as error:
            bad[name] = str(error)
    return Snapshot(leases, members, bad)


# --- what a row becomes -----------------------------------------------------------------------------------


def short_id(supervisor_id: str) -> str:
    """The random part of a supervisor id `host:pid:random`."""
    return supervisor_id.rpartition(":")[2]
