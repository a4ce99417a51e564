"""The rows of the store: leases and members, as values and from untrusted attributes.

Rows are untrusted: `lease_from` and `member_from` raise `BadRow`, they never guess. Times named `since` and
`renewed_at` are unix milliseconds for people; no decision reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEMBER_PREFIX = "@"
CHECKPOINT_MAX_BYTES = 2048
DURATION_MIN_MS = 1000
HISTORY_MAX = 8
RANGE_MAX = 100_000
POLICIES = ("fence", "hold")
STATES = ("active", "draining")


class BadRow(ValueError):
    """A row of the store that does not parse, or promises less than a second; the text says which attribute."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who owns a shard (`owner` None: free). `history` is empty where a read did not ask for it."""

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
    policy: str = "fence"
    since: int = 0
    renewed_at: int = 0
    move: str | None = None
    paused: bool = False
    history: tuple[str, ...] = ()

    @property
    def triple(self) -> tuple[str | None, int, int]:
        """What an observer watches, and what a claim is conditional on."""
        return (self.owner, self.epoch, self.beat)


@dataclass(frozen=True, slots=True)
class Member:
    """A supervisor's own row; its key in the store is `@<id>`. `shards` is the compact form (see `compact`)."""

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


def _integer(item: Mapping[str, Any], name: str, low: int, default: int | None = None) -> int:
    value = item.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**63:
        raise BadRow(f"{name} is {value!r}, expected a whole number of at least {low}")
    return value


def _text(item: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = item.get(name, default)
    if not isinstance(value, str):
        raise BadRow(f"{name} is {value!r}, expected text")
    return value


def _choice(item: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = _text(item, name, allowed[0])
    if value not in allowed:
        raise BadRow(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
    return value


def _optional_text(item: Mapping[str, Any], name: str) -> str | None:
    return None if item.get(name) is None else _text(item, name)


def _texts(item: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = item.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise BadRow(f"{name} is {value!r}, expected a list of texts")
    return tuple(value)


def lease_from(item: Mapping[str, Any]) -> Lease:
    """A lease from plain attributes (str, int, bool, None, list). Raises `BadRow`."""
    shard = _text(item, "lease")
    if not shard or shard.startswith(MEMBER_PREFIX):
        raise BadRow(f"{shard!r} is not the name of a shard")
    paused = item.get("paused", False)
    if not isinstance(paused, bool | type(None)):
        raise BadRow(f"paused is {paused!r}, expected true or false")
    owner = _optional_text(item, "owner")
    if owner == "":
        raise BadRow("owner is empty, expected a supervisor id or no attribute")
    return Lease(
        shard=shard,
        owner=owner,
        epoch=_integer(item, "epoch", 1),
        beat=_integer(item, "beat", 0),
        nonce=_text(item, "nonce", ""),
        duration_ms=_integer(item, "duration_ms", DURATION_MIN_MS),
        checkpoint=_optional_text(item, "checkpoint"),
        open=_integer(item, "open", 0, 0),
        want=_integer(item, "want", 0, 0),
        quiet_ms=None if item.get("quiet_ms") is None else _integer(item, "quiet_ms", 0),
        policy=_choice(item, "policy", POLICIES),
        since=_integer(item, "since", 0, 0),
        renewed_at=_integer(item, "renewed_at", 0, 0),
        move=_optional_text(item, "move"),
        paused=bool(paused),
        history=_texts(item, "history"),
    )


def member_from(item: Mapping[str, Any]) -> Member:
    """A member row from plain attributes. Raises `BadRow`."""
    key = _text(item, "lease")
    if not key.startswith(MEMBER_PREFIX) or len(key) == 1:
        raise BadRow(f"{key!r} is not the key of a member row")
    return Member(
        id=key[1:],
        fleet=_text(item, "fleet"),
        state=_choice(item, "state", STATES),
        beat=_integer(item, "beat", 0),
        nonce=_text(item, "nonce"),
        duration_ms=_integer(item, "duration_ms", DURATION_MIN_MS),
        capacity=_integer(item, "capacity", 0),
        shards=_texts(item, "shards"),
        **{name: _text(item, name, "") for name in ("version", "digest", "host", "task", "zone")},
        since=_integer(item, "since", 0, 0),
        renewed_at=_integer(item, "renewed_at", 0, 0),
    )


def snapshot_from(items: list[dict[str, Any]]) -> Snapshot:
    """All rows of one complete read; a row that does not parse lands in `bad`, never in a decision."""
    leases: dict[str, Lease] = {}
    members: dict[str, Member] = {}
    bad: dict[str, str] = {}
    for item in items:
        key = str(item.get("lease"))
        try:
            if key.startswith(MEMBER_PREFIX):
                members[key[1:]] = member_from(item)
            else:
                leases[key] = lease_from(item)
        except BadRow as error:
            bad[key] = str(error)
    return Snapshot(leases, members, bad)


# --- what a row becomes -----------------------------------------------------------------------------------


def short_id(supervisor_id: str) -> str:
    """The random part of a supervisor id `host:pid:random`."""
    return supervisor_id.rpartition(":")[2]


def history_after(history: tuple[str, ...], epoch: int, owner: str, at: int, reason: str) -> tuple[str, ...]:
    """The last `HISTORY_MAX` changes, newest last: `epoch owner seconds reason`, where restarts by one owner
    coalesce into `epoch owner seconds restart xN` so that a crash loop does not erase what one looks for."""
    entry = f"{epoch} {short_id(owner)} {at // 1000} {reason}"
    if history and reason == "restart":
        last = history[-1].split(" ")
        if len(last) >= 4 and last[1] == short_id(owner) and last[3] == "restart":
            count = int(last[4][1:]) if len(last) > 4 and re.fullmatch(r"x\d{1,9}", last[4]) else 1
            return (*history[:-1], f"{entry} x{count + 1}")
    return (*history, entry)[-HISTORY_MAX:]


def compact(shards: tuple[str, ...]) -> tuple[str, ...]:
    """Names with runs of numbers folded: `trades/0 trades/1 trades/2 chat` -> `trades/0-2 chat`."""
    folded: list[str] = []
    run: tuple[str, int, int] | None = None
    for name in shards:
        prefix, slash, index = name.rpartition("/")
        number = int(index) if slash and re.fullmatch(r"0|[1-9]\d{0,8}", index) else None
        if run and number is not None and run[0] == prefix and run[2] + 1 == number:
            run = (prefix, run[1], number)
            folded[-1] = f"{prefix}/{run[1]}-{number}"
            continue
        run = (prefix, number, number) if number is not None else None
        folded.append(name)
    return tuple(folded)


def expand(folded: tuple[str, ...]) -> tuple[str, ...]:
    """The inverse of `compact`. A text that is no range stands for itself; so does one that would make more than
    `RANGE_MAX` names in all, since a row of the store is untrusted and must not cost us our memory."""
    names: list[str] = []
    for text in folded:
        match = re.fullmatch(r"(.+/)(\d{1,9})-(\d{1,9})", text)
        if match and 0 <= int(match[3]) - int(match[2]) < RANGE_MAX - len(names):
            names.extend(f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1))
        else:
            names.append(text)
    return tuple(names)
