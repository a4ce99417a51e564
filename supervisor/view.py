"""A fleet's status on the screen: tables for people, one JSON object for programs.

Names come from rows that anybody with access to the store may have written, so that what cannot be printed or moves
the cursor is made visible before a terminal sees it. The JSON is {"fleet", "degraded", "supervisors": [...], "shards":
[...], "bad": {key: reason}, "flaws": {shard: reason}} with the fields of `status` as keys.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TextIO

from supervisor.status import FleetView

PLAIN_WIDTH = 200
_CELL_MAX = 400  # longer than any name that we make
_STYLES = {
    "held": "green",
    "active": "green",
    "stale": "red",
    "homeless": "red",
    "free": "yellow",
    "draining": "yellow",
}


def as_json(fleet: FleetView) -> str:
    whole = {
        "fleet": fleet.fleet,
        "degraded": fleet.degraded,
        "supervisors": [dataclasses.asdict(supervisor) for supervisor in fleet.supervisors],
        "shards": [dataclasses.asdict(shard) for shard in fleet.shards],
        "bad": fleet.bad,
        "flaws": fleet.flaws,
    }
    return json.dumps(whole, indent=2)


def show(fleet: FleetView, stream: TextIO) -> None:
    """Tables; where nobody sees colours and widths, the same tables wide and plain."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def table(*columns: str) -> Table:
        made = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            numeric = column in ("EPOCH", "OPEN", "QUIET", "RENEWED", "SHARDS", "CAPACITY")
            made.add_column(column, justify="right" if numeric else "left", no_wrap=True)
        return made

    def cell(text: object, style: str = "") -> Text:
        shown = str(text)
        return Text(printable(shown if len(shown) <= _CELL_MAX else f"{shown[:_CELL_MAX]}..."), style)

    console = Console(file=stream, highlight=False, width=None if stream.isatty() else PLAIN_WIDTH)
    people = table("SUPERVISOR", "HOST", "VERSION", "STATE", "SHARDS", "CAPACITY", "RENEWED", "CONFIG")
    for one in fleet.supervisors:
        state = cell(one.state, _STYLES.get(one.state, ""))
        load = (cell(one.shards), cell(one.capacity), cell(f"{age(one.renewed_ago_ms)} ago"))
        people.add_row(cell(one.id), cell(one.host), cell(one.version), state, *load, cell(one.config))
    shards = table("SHARD", "STATE", "OWNER", "EPOCH", "OPEN", "QUIET", "RENEWED")
    for shard in fleet.shards:
        state = cell(shard.state, _STYLES.get(shard.state, ""))
        owner = cell(shard.owner or "-")
        renewed = "-" if shard.renewed_ago_ms is None else f"{age(shard.renewed_ago_ms)} ago"
        numbers = (cell(shard.epoch), cell(f"{shard.open}/{shard.want}"), cell(age(shard.quiet_ms)), cell(renewed))
        shards.add_row(cell(shard.shard), state, owner, *numbers)
    console.print(cell(headline(fleet), "bold"))
    if fleet.supervisors:
        console.print("", people, sep="\n")
    if fleet.shards:
        console.print("", shards, sep="\n")
    for key, reason in fleet.bad.items():
        console.print(cell(f"the row {key} does not parse: {reason}", "red"))
    for key, reason in fleet.flaws.items():
        console.print(cell(f"the row {key} has a flaw: {reason}", "yellow"))


def printable(text: str) -> str:
    """What would not be seen, moves the cursor, or turns the direction of writing, as its code."""
    return "".join(each if each.isprintable() else _code(each) for each in text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def headline(fleet: FleetView) -> str:
    """`fleet default: 2 supervisors, 16 shards: 15 held, 1 free; 15 of 15 connections open`"""
    states = ", ".join(f"{count} {state}" for state, count in sorted(fleet.counts().items(), key=lambda each: -each[1]))
    live = sum(supervisor.state != "stale" for supervisor in fleet.supervisors)
    stale = f" and {len(fleet.supervisors) - live} stale" if live < len(fleet.supervisors) else ""
    supervisors = f"{live} supervisor{'' if live == 1 else 's'}{stale}"
    shards = f"{len(fleet.shards)} shard{'' if len(fleet.shards) == 1 else 's'}"
    held = [shard for shard in fleet.shards if shard.state == "held"]
    wanted = sum(shard.want for shard in held)
    connections = f"; {sum(shard.open for shard in held)} of {wanted} connections open" if wanted else ""
    return (
        f"fleet {fleet.fleet or '(nobody there)'}: {supervisors}, {shards}{': ' if states else ''}{states}{connections}"
    )


def age(ms: int | None) -> str:
    """The two digits that matter: 840ms, 3.2s, 47s, 12m, 5h, 3d."""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms}ms"
    seconds = ms / 1000
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"
