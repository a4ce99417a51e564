"""How a shard came to its owner, for people: where it stands now, then its changes of ownership, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from supervisor.changes import words
from supervisor.showing.screen import Grid, Row, cell
from supervisor.showing.status import FleetView, ShardView
from supervisor.showing.telling import age, ago, labels, note

if TYPE_CHECKING:
    from rich.console import Console


def show(shard: ShardView, fleet: FleetView, console: Console) -> None:
    console.print(cell(sentence(shard, fleet), "bold"))
    if not shard.history:
        console.print(cell("it was never owned"))
        return
    # Ids as the log has them, if there is room; one that is broken in two is of no use.
    grids = [Grid(_rows(shard, fleet.at, names), ("WHEN",)) for names in ({}, labels(fleet.supervisors))]
    fitting = [grid for grid in grids if grid.fits(console.width)]
    console.print("", (fitting or grids)[0], sep="\n")


def _rows(shard: ShardView, at: int, names: Mapping[str, str]) -> list[Row]:
    return [
        {
            "EPOCH": cell("-" if change.epoch is None else change.epoch),
            "WHEN": cell(when(change.at)),
            "SINCE": cell("-" if change.at is None else ago(at - change.at * 1000)),
            "OWNER": cell(names.get(change.owner, change.owner) or "-"),
            "WHAT": cell(words(change)),
        }
        for change in reversed(shard.history)
    ]


def sentence(shard: ShardView, fleet: FleetView) -> str:
    """`trades/7 is held by h:1:a under epoch 12, for 3m; 1 of 1 connections open, last event 2s ago`"""
    told = [f"{shard.shard} is {shard.state}"]
    if shard.owner is not None:
        told[0] += f" by {shard.owner}" if shard.state == "held" else f", owned by {shard.owner}"
        told[0] += f" under epoch {shard.epoch}"
        told[0] += f", for {age(max(0, fleet.at - shard.since))}" if shard.since else ""
        last = "" if shard.quiet_ms is None else f", last event {ago(shard.quiet_ms)}"
        known = f"{shard.open} of {shard.want} connections open{last}"
        told.append("just started, its connections are told at its first renewal" if shard.starting else known)
    if shard.checkpoint_bytes is not None:
        told.append(f"its checkpoint has {shard.checkpoint_bytes} bytes")
    if shard.state == "stale":
        told.append(f"last renewed {ago(shard.renewed_ago_ms)}")
    return "; ".join(filter(None, (*told, note(shard, labels(fleet.supervisors), fleet.at))))


def when(unix_s: int | None) -> str:
    """The local time; what `changes` lets through is one of a calendar."""
    return "-" if unix_s is None else datetime.fromtimestamp(unix_s).astimezone().isoformat(" ")
