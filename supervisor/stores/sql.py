"""How statements and rows look in SQL: pure text and parameters, no connection.

One table holds lease and member rows, with the same names as DynamoDB's attributes; NULL is an absent attribute,
flags are 0 or 1, lists are JSON. Names stand in brackets: in double quotes, SQLite would take the name of a column
that is missing for a text. Columns of SQLite are untyped in truth, so rows read here are as untrusted as
any other: what does not convert is passed on as it is, and parsing refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from supervisor.stores.statements import (
    COLUMNS,
    FLAGS,
    KEY,
    LISTS,
    Absent,
    Between,
    Change,
    Delete,
    Equals,
    NotTrue,
    Put,
    Statement,
    Term,
    Value,
)

APPLICATION_ID = 0x74656E75  # "tenu" in the header of the file: how we know it for ours
_INTEGERS = (
    "epoch",
    "beat",
    "duration_ms",
    "open",
    "want",
    "quiet_ms",
    "since",
    "renewed_at",
    "capacity",
    "poll_ms",
    *FLAGS,
)


def _column(name: str) -> str:
    return f"[{name}] {'INTEGER' if name in _INTEGERS else 'TEXT'}"


def add_column(name: str) -> str:
    return f"ALTER TABLE leases ADD COLUMN {_column(name)}"


CREATE_TABLE = (
    f"CREATE TABLE leases ([{KEY}] TEXT PRIMARY KEY NOT NULL, "
    + ", ".join(_column(name) for name in COLUMNS if name != KEY)
    + ") WITHOUT ROWID"
)


def sql_of(statement: Statement) -> tuple[str, list[Any]]:
    """One SQL statement and its parameters; it changes one row if it applies, and none if it is refused."""
    match statement:
        case Put(key, sets, new):
            names = ", ".join(f"[{name}]" for name in (KEY, *sets))
            marks = ", ".join("?" * (1 + len(sets)))
            verb = "INSERT OR IGNORE" if new else "INSERT OR REPLACE"
            return f"{verb} INTO leases ({names}) VALUES ({marks})", [key, *map(_parameter, sets.values())]
        case Change(key, sets, removes, terms):
            changes = [f"[{name}] = ?" for name in sets] + [f"[{name}] = NULL" for name in removes]
            where, parameters = _where(key, terms)
            return f"UPDATE leases SET {', '.join(changes)}{where}", [*map(_parameter, sets.values()), *parameters]
        case Delete(key, terms):
            where, parameters = _where(key, terms)
            return f"DELETE FROM leases{where}", parameters


def _where(key: str, terms: Iterable[Term]) -> tuple[str, list[Any]]:
    clauses = [f"[{KEY}] = ?"]
    parameters: list[Any] = [key]
    for term in terms:
        match term:
            case Equals(name, value):
                clauses.append(f"[{name}] = ?")
                parameters.append(value)
            case Absent(name):
                clauses.append(f"[{name}] IS NULL")
            case Between(name, low, high):
                clauses.append(f"[{name}] BETWEEN ? AND ?")
                parameters += (low, high)
            case NotTrue(name):
                clauses.append(f"([{name}] IS NULL OR [{name}] = 0)")
    return " WHERE " + " AND ".join(clauses), parameters


def _parameter(value: Value) -> str | int:
    return json.dumps(value) if isinstance(value, tuple) else value


def select(names: Sequence[str], key: bool) -> str:
    columns = ", ".join(f"[{name}]" for name in names)
    return f"SELECT {columns} FROM leases WHERE [{KEY}] = ?" if key else f"SELECT {columns} FROM leases"


def item_of(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """A row as plain attributes; absent ones are left out."""
    item = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    for name in FLAGS:
        if item.get(name) in (0, 1):
            item[name] = bool(item[name])
    for name in LISTS:
        if name in item:
            item[name] = _list_of(item[name])
    return item


def _list_of(value: Any) -> Any:
    try:
        return json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return value
