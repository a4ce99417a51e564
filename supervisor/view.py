"""A fleet's status on the screen: tables for people, one JSON object for programs.

What is wrong stands on top. A fleet of up to `ROWS_MAX` shards is shown row by row. In a larger one only those shards
are that are not fine or have a note, unless they are more than that; all others are folded into a row for each state
and owner.

Names come from rows that anybody with access to the store may have written, so that what cannot be printed or moves
the cursor is made visible before a terminal sees it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from supervisor.status import FINE, STATES, FleetView, ShardView
from supervisor.telling import folded, headline, labels, note, remarks, troubles

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

PLAIN_WIDTH = 200
ROWS_MAX = 50
_CELL_MAX = 400  # longer than any name that we make
_STYLES = {
    **dict.fromkeys(("held", "active"), "green"),
    **dict.fromkeys(("silent", "stale", "homeless"), "red"),
    **dict.fromkeys(("free", "draining"), "yellow"),
}
_LEFT = ("SUPERVISOR", "ZONE", "TASK", "VERSION", "STATE", "CONFIG", "SHARD", "WHICH", "OWNER", "NOTE", "WHEN", "WHAT")
_WRAPPED = ("SUPERVISOR", "TASK", "SHARD", "WHICH", "OWNER", "NOTE", "WHAT")  # on a narrow screen these give way


def as_json(fleet: FleetView) -> str:
    """The whole view as one JSON object, with a line for each supervisor and shard."""
    parts = []
    for field in dataclasses.fields(fleet):
        value = getattr(fleet, field.name)
        if isinstance(value, tuple) and value:
            rows = ",\n    ".join(_json(row) for row in value)
            parts.append(f'  "{field.name}": [\n    {rows}\n  ]')
        else:
            parts.append(f'  "{field.name}": {_json(value)}')
    return "{\n" + ",\n".join(parts) + "\n}"


def _json(value: Any) -> str:
    return json.dumps(value, default=_fields)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def shard_json(shard: ShardView) -> str:
    """One shard, as in the whole."""
    return json.dumps(shard, default=_fields, indent=2)


# --- for people -------------------------------------------------------------------------------------------


def console_for(stream: TextIO) -> Console:
    """Where nobody sees colours and widths, the same tables are wide and plain."""
    from rich.console import Console

    return Console(file=stream, highlight=False, width=None if stream.isatty() else PLAIN_WIDTH)


def show(fleet: FleetView, stream: TextIO, every: bool = False) -> None:
    """`every`: each shard has its row, however many there are."""
    console_for(stream).print(rendered(fleet, every))


def rendered(fleet: FleetView, every: bool = False) -> Group:
    from rich.console import Group

    parts: list[Any] = [cell(headline(fleet), "bold red" if fleet.degraded else "bold")]
    for table in (*_shard_tables(fleet, every), _supervisors(fleet)):
        if table.row_count:
            parts += ["", table]
    sentences = [*(cell(each, "red") for each in troubles(fleet)), *(cell(each, "dim") for each in remarks(fleet))]
    if sentences:
        parts += ["", *sentences]
    return Group(*parts)


def _shard_tables(fleet: FleetView, every: bool) -> tuple[Table, ...]:
    names = labels(fleet.supervisors)
    wrong = [shard for shard in fleet.shards if shard.state not in FINE]
    fine = [shard for shard in fleet.shards if shard.state in FINE]
    if every or len(fleet.shards) <= ROWS_MAX:
        return (_rows(wrong + fine, names, fleet.at),)
    special = wrong + [shard for shard in fine if note(shard, names)]
    if len(special) > ROWS_MAX:
        return (_folded(fleet.shards, names),)
    single = {shard.shard for shard in special}
    return _rows(special, names, fleet.at), _folded([shard for shard in fine if shard.shard not in single], names)


def _rows(shards: Iterable[ShardView], names: dict[str, str], at: int) -> Table:
    notes = [(shard, note(shard, names)) for shard in shards]
    last = ("NOTE",) if any(text for _, text in notes) else ()
    table = table_of("SHARD", "STATE", "OWNER", "EPOCH", "SINCE", "OPEN", "QUIET", "RENEWED", *last)
    for shard, text in notes:
        table.add_row(
            cell(shard.shard),
            cell(shard.state, _STYLES.get(shard.state, "")),
            cell(_owner(shard.owner, names)),
            cell(shard.epoch or "-"),
            cell(ago(at - shard.since) if shard.since else "-"),
            cell(f"{shard.open}/{shard.want}"),
            cell(age(shard.quiet_ms)),
            cell(ago(shard.renewed_ago_ms)),
            *([cell(text)] if last else ()),
        )
    return table


def _folded(shards: Sequence[ShardView], names: dict[str, str]) -> Table:
    """A row for each state and owner: how many shards, connections, and the highest of the ages."""
    groups: dict[tuple[int, str], list[ShardView]] = {}
    for shard in shards:
        groups.setdefault((STATES.index(shard.state), _owner(shard.owner, names)), []).append(shard)
    table = table_of("SHARDS", "STATE", "OWNER", "OPEN", "QUIET", "RENEWED", "WHICH")
    for (state, owner), group in sorted(groups.items()):
        quiet = [shard.quiet_ms for shard in group if shard.quiet_ms is not None]
        renewed = [shard.renewed_ago_ms for shard in group if shard.renewed_ago_ms is not None]
        table.add_row(
            cell(len(group)),
            cell(STATES[state], _STYLES.get(STATES[state], "")),
            cell(owner),
            cell(f"{sum(shard.open for shard in group)}/{sum(shard.want for shard in group)}"),
            cell(age(max(quiet, default=None))),
            cell(ago(max(renewed, default=None))),
            cell(folded([shard.shard for shard in group])),
        )
    return table


def _supervisors(fleet: FleetView) -> Table:
    zones, tasks = any(each.zone for each in fleet.supervisors), any(each.task for each in fleet.supervisors)
    places = (*(("ZONE",) if zones else ()), *(("TASK",) if tasks else ()))
    table = table_of("SUPERVISOR", *places, "VERSION", "STATE", "SHARDS", "CAPACITY", "SINCE", "RENEWED", "CONFIG")
    for one in fleet.supervisors:
        table.add_row(
            cell(one.id if one.id.startswith(f"{one.host}:") else f"{one.id} on {one.host}"),
            *([cell(one.zone or "-")] if zones else ()),
            *([cell(one.task or "-")] if tasks else ()),
            cell(one.version),
            cell(one.state, _STYLES.get(one.state, "")),
            cell(one.shards),
            cell(one.capacity),
            cell(ago(fleet.at - one.since) if one.since else "-"),
            cell(ago(one.renewed_ago_ms)),
            cell(f"{one.config}{' differs' if one.drift else ''}", "yellow" if one.drift else ""),
        )
    return table


def _owner(owner: str | None, names: dict[str, str]) -> str:
    return "-" if owner is None else names.get(owner, owner)


# --- parts that other commands use too --------------------------------------------------------------------


def table_of(*columns: str) -> Table:
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        left, wrapped = column in _LEFT, column in _WRAPPED
        made.add_column(column, justify="left" if left else "right", no_wrap=not wrapped, overflow="fold")
    return made


def cell(text: object, style: str = "") -> Text:
    from rich.text import Text

    shown = str(text)
    return Text(printable(shown if len(shown) <= _CELL_MAX else f"{shown[:_CELL_MAX]}..."), style)


def printable(text: str) -> str:
    """What would not be seen, moves the cursor, or turns the direction of writing, as its code."""
    return "".join(each if each.isprintable() else _code(each) for each in text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def ago(ms: int | None) -> str:
    return "-" if ms is None else f"{age(max(0, ms))} ago"


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
