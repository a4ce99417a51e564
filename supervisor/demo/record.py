"""What happened, as values: the feed's record and the sink's lines, read line by line.

Both are written by one append per line while they are read, so a last line without its newline is not there
yet. A line that is whole but does not parse is counted, never guessed at: a child that was killed in
mid-write leaves one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supervisor.demo.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection as the feed saw it. `closed_ns` None: still open. `sent`: ranges of events, ends included."""

    number: int
    shard: str
    epoch: int
    supervisor: str
    opened_ns: int
    closed_ns: int | None = None
    code: int | None = None
    sent: tuple[tuple[int, int], ...] = ()
    connection: int = 0
    received: tuple[str, ...] = ()

    @property
    def holder(self) -> tuple[int, str]:
        """Who may be connected to a shard at one instant: one child, that is one epoch at one supervisor."""
        return (self.epoch, self.supervisor)


@dataclass(frozen=True, slots=True)
class FeedRecord:
    schedule: Schedule
    connections: tuple[Connection, ...]  # in the order in which they were opened


@dataclass(frozen=True, slots=True)
class Delivery:
    """One line of a sink: event `event` of the shard, delivered as number `seq` of the epoch."""

    shard: str
    epoch: int
    seq: int
    event: int


def feed_record(lines: Iterable[bytes]) -> FeedRecord:
    """The record so far. Raises ValueError for one that does not begin as a record does."""
    schedule: Schedule | None = None
    connections: dict[int, Connection] = {}
    for line in lines:
        entry = json.loads(line)
        number = entry.get("number")
        if entry["event"] == "started":
            schedule = Schedule(entry["started"], entry["rate"], entry["keep"])
        elif entry["event"] == "opened":
            connections[number] = Connection(
                number, entry["shard"], entry["epoch"], entry["supervisor"], entry["at"], connection=entry["connection"]
            )
        elif entry["event"] == "received":
            seen = connections[number]
            connections[number] = replace(seen, received=(*seen.received, entry["text"]))
        elif entry["event"] == "closed":
            sent = tuple((first, last) for first, last in entry["sent"])
            connections[number] = replace(connections[number], closed_ns=entry["at"], code=entry["code"], sent=sent)
    if schedule is None:
        raise ValueError("the feed's record has no line 'started', expected it to be the first")
    return FeedRecord(schedule, tuple(connections.values()))


def delivery(line: bytes) -> Delivery | None:
    """A sink's line; None: it is torn or not of this feed."""
    try:
        envelope: dict[str, Any] = json.loads(line)
        event: dict[str, Any] = json.loads(envelope["data"])
        return Delivery(envelope["shard"], int(envelope["epoch"]), int(envelope["seq"]), int(event["seq"]))
    except (ValueError, KeyError, TypeError):
        return None


class Growing:
    """The whole lines of a file that others append to, each handed out once. A missing file has none yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.split(b"\n")[:-1]
