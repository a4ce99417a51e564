"""A fleet's status on the screen: tables for people, one JSON object for programs.

What is wrong stands on top. A fleet of up to `ROWS_MAX` shards is shown row by row. In a larger one only those shards
are that are not fine or have a note, unless they are more than that; all others are folded into a row for each state
and owner. Where the screen is too narrow for all columns less are shown, and notes below the table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from supervisor.showing.screen import Grid, Row, cell
from supervisor.showing.status import STATES, FleetView, ShardView, SupervisorView
from supervisor.showing.telling import age, ago, folded, headline, labels, note, note_of, remarks, troubles
from supervisor.showing.verdict import is_in_trouble

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

ROWS_MAX = 50
_STYLES = {
    **dict.fromkeys(("held", "active"), "green"),
    **dict.fromkeys(("silent", "stale", "homeless"), "red"),
    **dict.fromkeys(("free", "draining"), "yellow"),
}
_DROPPED = ("NOTE", "TASK", "VERSION", "ZONE", "CONFIG", "EPOCH")  # one after the other, where it is narrow


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


@dataclass(frozen=True, slots=True)
class Picture:
    """A fleet for a console of any width, which may change between two pictures. `every`: each shard has its row,
    however many there are. `whole`: the fleet of which it is a part, where supervisors must not be mistaken for others
    either."""

    fleet: FleetView
    every: bool = False
    whole: FleetView | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        fleet = self.fleet
        names = labels((self.whole or fleet).supervisors)
        yield cell(headline(fleet, self.whole), "bold red" if fleet.degraded else "bold")
        tables = [*_of_shards(fleet, names, self.every), [_of_supervisor(fleet, one) for one in fleet.supervisors]]
        for grid in (Grid(rows, _DROPPED) for rows in tables if rows):
            yield ""
            yield grid
            if "NOTE" not in grid.columns(options.max_width):
                yield from (cell(f"{_name(row)}: {row['NOTE']}") for row in grid.rows if row.get("NOTE"))
        wrong, worth = troubles(fleet, self.whole), remarks(fleet, self.whole)
        if wrong or worth:
            yield ""
            yield from (cell(each, "red") for each in wrong)
            yield from (cell(each, "dim") for each in worth)


def _of_shards(fleet: FleetView, names: dict[str, str], every: bool) -> tuple[list[Row], ...]:
    wrong = [shard for shard in fleet.shards if not shard.fine]
    fine = [shard for shard in fleet.shards if shard.fine]
    if every or len(fleet.shards) <= ROWS_MAX:
        return ([_of_shard(shard, names, fleet.at) for shard in wrong + fine],)
    special = wrong + [shard for shard in fine if note(shard, names, fleet.at)]
    if len(special) > ROWS_MAX:
        return (_groups(fleet.shards, names, fleet.at),)
    single = {shard.shard for shard in special}
    others = [shard for shard in fine if shard.shard not in single]
    return [_of_shard(shard, names, fleet.at) for shard in special], _groups(others, names, fleet.at)


def _of_shard(shard: ShardView, names: dict[str, str], at: int) -> Row:
    return {
        "SHARD": cell(shard.shard),
        "STATE": cell(shard.state, "yellow" if is_in_trouble(shard) else _STYLES.get(shard.state, "")),
        "OWNER": cell(_owner(shard.owner, names)),
        "EPOCH": cell(shard.epoch or "-"),
        "SINCE": cell(ago(at - shard.since) if shard.since else "-"),
        "OPEN": cell(f"{'-' if shard.starting else shard.open}/{shard.want}"),
        "QUIET": cell(age(shard.quiet_ms)),
        "RENEWED": cell(ago(shard.renewed_ago_ms)),
        "NOTE": cell(note(shard, names, at)),
    }


def _groups(shards: Sequence[ShardView], names: dict[str, str], at: int) -> list[Row]:
    """A row for each state and owner: how many shards and connections, and the highest of the ages."""
    groups: dict[tuple[int, str], list[ShardView]] = {}
    for shard in shards:
        groups.setdefault((STATES.index(shard.state), _owner(shard.owner, names)), []).append(shard)
    return [_of_group(STATES[state], owner, group, at) for (state, owner), group in sorted(groups.items())]


def _of_group(state: str, owner: str, group: Sequence[ShardView], at: int) -> Row:
    quiet = [shard.quiet_ms for shard in group if shard.quiet_ms is not None]
    renewed = [shard.renewed_ago_ms for shard in group if shard.renewed_ago_ms is not None]
    return {
        "SHARDS": cell(len(group)),
        "STATE": cell(state, _STYLES.get(state, "")),
        "OWNER": cell(owner),
        "OPEN": cell(f"{sum(shard.open for shard in group)}/{sum(shard.want for shard in group)}"),
        "QUIET": cell(age(max(quiet, default=None))),
        "RENEWED": cell(ago(max(renewed, default=None))),
        "WHICH": cell(folded([shard.shard for shard in group])),
        "NOTE": cell(note_of(group, at)),
    }


def _name(row: Row) -> Text:
    return row["SHARD"] if "SHARD" in row else row["WHICH"]


def _of_supervisor(fleet: FleetView, one: SupervisorView) -> Row:
    return {
        "SUPERVISOR": cell(one.id if one.id.startswith(f"{one.host}:") else f"{one.id} on {one.host}"),
        "ZONE": cell(one.zone),
        "TASK": cell(one.task),
        "VERSION": cell(one.version),
        "STATE": cell(one.state, _STYLES.get(one.state, "")),
        "SHARDS": cell(one.shards),
        "CAPACITY": cell(one.capacity),
        "SINCE": cell(ago(fleet.at - one.since) if one.since else "-"),
        "RENEWED": cell(ago(one.renewed_ago_ms)),
        "CONFIG": cell(f"{one.config}{' differs' if one.drift else ''}", "yellow" if one.drift else ""),
    }


def _owner(owner: str | None, names: dict[str, str]) -> str:
    return "-" if owner is None else names.get(owner, owner)
