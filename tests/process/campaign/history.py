"""What happened in a span of time, in lines that a person can read: faults, lives, connections, rows, log lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from tests.process.campaign.story import SECOND_NS, Story

BEFORE_NS = 12 * SECOND_NS
AFTER_NS = 4 * SECOND_NS

Entry = tuple[int, str]


def history(story: Story, shard: str, since_ns: int, at_ns: int, logs: Iterable[Entry] = ()) -> list[str]:
    """The lines from `BEFORE_NS` before to `AFTER_NS` after, which concern this shard or everybody."""
    entries = [*_strikes(story, shard), *_lives(story), *_connections(story, shard), *_rows(story, shard), *logs]
    near = sorted(entry for entry in entries if since_ns - BEFORE_NS <= entry[0] <= at_ns + AFTER_NS)
    return [f"{(entry_ns - story.began_ns) / SECOND_NS:>10.3f} s  {text}" for entry_ns, text in near]


def _strikes(story: Story, shard: str) -> Iterator[Entry]:
    for each in story.strikes:
        if each.shard in ("", shard):
            whom = each.shard or each.supervisor or "the store, for everybody"
            yield each.began_ns, f"FAULT   {each.kind} of {whom} {each.note}"
            if each.ended_ns not in (None, each.began_ns):
                yield each.ended_ns or 0, f"FAULT   {each.kind} of {whom} is over"


def _lives(story: Story) -> Iterator[Entry]:
    for each in story.lives:
        yield each.started_ns, f"LIFE    {each.supervisor} starts, pid {each.pid}"
        if each.ended_ns is not None:
            yield each.ended_ns, f"LIFE    {each.supervisor}, pid {each.pid}, ended with {each.code}"


def _connections(story: Story, shard: str) -> Iterator[Entry]:
    for each in story.feed.connections:
        if each.shard == shard:
            yield each.opened_ns, f"FEED    epoch {each.epoch} connects at {each.supervisor}"
            if each.closed_ns is not None:
                yield each.closed_ns, f"FEED    epoch {each.epoch} at {each.supervisor} is gone, code {each.code}"


def _rows(story: Story, shard: str) -> Iterator[Entry]:
    for each in story.ownings:
        if each.shard == shard:
            yield each.since_ns, f"ROW     {each.text}"


def log_entries(name: str, log: Path, shard: str, unix_to_boot_ns: int) -> Iterator[Entry]:
    """The log lines of one supervisor that concern this shard or no shard. `unix_to_boot_ns`: to be added."""
    for text in log.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
            unix_ns = int(datetime.fromisoformat(line["time"]).timestamp() * SECOND_NS)
        except (ValueError, KeyError, TypeError):
            continue
        if line.get("shard", shard) == shard:
            rest = " ".join(str(line[name]) for name in ("epoch", "pid", "reason", "message") if line.get(name))
            yield unix_ns + unix_to_boot_ns, f"LOG     {name}: {line.get('event')} {rest}"[:300]
