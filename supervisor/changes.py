"""The history of a shard: the compact entries of its row, `epoch owner seconds reason [xN]`, written and read. Pure.

Entries are untrusted. One that does not parse is shown as it is, as a change whose `reason` is its text. An entry names
its owner by the random part of the id; `changes_of` completes it where exactly one of the ids that are known bears that
part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from supervisor.records import HISTORY_MAX, short_id

RESTART, RELOADED, RECOVERED = "restart", "reloaded", "recovered"
AGAIN = (RESTART, RELOADED, RECOVERED)  # claims of one's own lease, whose child ended: unasked, for a reload, or fenced

_ENTRY = re.compile(r"([0-9]{1,19}) (\S+) ([0-9]{1,11}) (\S+)(?: x([0-9]{1,9}))?")

_WORDS = {
    "claimed": "claimed it, it was free",
    "expired": "took it over, its owner had not renewed for the whole lease",
    "reclaimed": "took it back after a restart on the same host, at once",
    RESTART: "started its child again after it had ended unasked",
    RELOADED: "replaced its child after a reload",
    RECOVERED: "started its child again after the store had not answered in time",
    "crashed": "gave it up, its child had crashed",
    "moved": "gave it up, an operator wished it elsewhere",
    "balanced": "gave it up to a supervisor that has less",
    "crowded": "gave it up, its capacity was lowered",
    "paused": "gave it up, it was paused",
    "unconfigured": "gave it up, it is no longer in its configuration",
    "stopped": "gave it up, the supervisor was stopped",
    "stop-timeout": "gave it up, its child had to be killed since it did not stop in time",
    "start-timeout": "gave it up, its child had to be killed since it did not start in time",
    "hung": "gave it up, its child had to be killed since it hung",
    "fenced": "gave it up, its child was killed since nothing could be renewed in time",
    "hurried": "gave it up, the supervisor was stopped in a hurry",
    "deposed": "lost it to an operator, who removed it by force",
}


@dataclass(frozen=True, slots=True)
class Change:
    """`owner`: the full id if known, else its random part. `at`: unix seconds, before the year 5139. `times`: how many
    of them were folded into this one, the last of which bears the epoch and the time. An entry that does not parse has
    no epoch and no time, and its text as `reason`."""

    epoch: int | None
    owner: str
    at: int | None
    reason: str
    times: int


def change_of(entry: str) -> Change:
    """One entry, its owner as it stands there."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        return Change(None, "", None, entry, 1)
    epoch, owner, at, reason, times = match.groups()
    return Change(int(epoch), owner, int(at), reason, int(times or 1))


def is_given_up(history: Sequence[str]) -> bool:
    """Its last owner gave the shard up since its children crashed, and nobody has taken it since."""
    return bool(history) and change_of(history[-1]).reason == "crashed"


# --- writing ----------------------------------------------------------------------------------------------


def history_after(history: tuple[str, ...], epoch: int, owner: str, at: int, reason: str) -> tuple[str, ...]:
    """The last `HISTORY_MAX` changes, newest last. `at`: unix milliseconds. So that no loop erases what one looks for,
    N of them are one entry: starts by one owner for one reason, in a row; reclaims in a row, by whom ever, since each
    run of a supervisor has an id of its own; and the ends of an owner's children that made it give the shard up,
    however often the shard went round among owners that all gave it up for that."""
    who, kept, times = short_id(owner), list(history), 1
    if kept and reason in (*AGAIN, "reclaimed"):
        last = change_of(kept[-1])
        if last.reason == reason and (reason == "reclaimed" or last.owner == who):
            times += last.times
            kept.pop()
    if reason == "crashed":
        times += _take_crashes(kept, who)
    entry = f"{epoch} {who} {at // 1000} {reason}"
    return (*kept, entry if times == 1 else f"{entry} x{times}")[-HISTORY_MAX:]


def _take_crashes(history: list[str], who: str) -> int:
    """Takes out what led `who` to give the shard up again: the claim and the starts since it was last free, and its
    earlier surrender in the round of those just before. How many of its children ended in all that."""
    ends = 0
    while history and (last := change_of(history[-1])).owner == who and last.reason in ("claimed", *AGAIN):
        ends += last.times if last.reason == RESTART else 0
        history.pop()
    for index in range(len(history) - 1, -1, -1):
        change = change_of(history[index])
        if change.reason != "crashed":
            break
        if change.owner == who:
            del history[index]
            return ends + change.times
    return ends


# --- for people -------------------------------------------------------------------------------------------


def full_ids(ids: Iterable[str]) -> dict[str, str]:
    """By their random part, those of `ids` that no other id shares it with."""
    found: dict[str, set[str]] = {}
    for supervisor_id in ids:
        found.setdefault(short_id(supervisor_id), set()).add(supervisor_id)
    return {short: next(iter(full)) for short, full in found.items() if len(full) == 1}


def changes_of(history: Iterable[str], full: Mapping[str, str]) -> tuple[Change, ...]:
    """All entries, in their order, with owners completed by `full_ids`."""
    changes = map(change_of, history)
    return tuple(replace(change, owner=full.get(change.owner, change.owner)) for change in changes)


def words(change: Change) -> str:
    """What happened, for people."""
    if change.epoch is None:
        return change.reason
    told = _WORDS.get(change.reason, change.reason)
    if change.times == 1:
        return told
    if change.reason == "crashed":
        return f"gave it up, its child had ended {change.times} times"
    return f"{told}, {change.times} times in a row"
