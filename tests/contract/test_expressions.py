"""Attributes of DynamoDB become plain values, whatever an engine sends; an update names only what it changes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from supervisor.records import snapshot_from
from supervisor.stores.expressions import item_of, update_of
from supervisor.stores.statements import Absent, Change, Equals, Value

TERMS = (Equals("epoch", 7), Absent("owner"))

ROW = {
    "lease": {"S": "s/0"},
    "epoch": {"N": "7"},
    "beat": {"N": "0"},
    "nonce": {"S": "n"},
    "duration_ms": {"N": "10000"},
}


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"S": "at the bottom"}
    for _ in range(depth):
        found = {"L": [found]}
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("1E+2", 100),
        ("1.5", Decimal("1.5")),
        ("9" * 5000, Decimal("9" * 5000)),
        ("1E-999999999", Decimal("1E-999999999")),
        ("1E+999999999", "NaN"),
        ("seven", "NaN"),
    ],
)
def test_a_number_of_any_size_is_a_number(text: str, value: object) -> None:
    (found,) = item_of({"epoch": {"N": text}}).values()
    assert isinstance(found, int | Decimal)
    assert (str(found) if value == "NaN" else found) == value


@pytest.mark.parametrize(
    "attribute",
    [{"N": "1E+999999999"}, {"N": "9" * 5000}, {"N": "NaN"}, {"N": "sNaN"}, nested(100_000), {"B": b"x"}, {}],
    ids=["beyond", "long", "NaN", "sNaN", "nested", "binary", "empty"],
)
@pytest.mark.parametrize("name", ["epoch", "owner", "shards"])
def test_an_attribute_of_any_content_spoils_at_most_its_own_row(attribute: object, name: str) -> None:
    member = {**ROW, "lease": {"S": "@a"}, "fleet": {"S": "f"}, "state": {"S": "active"}, "capacity": {"N": "1"}}
    other = member if name == "shards" else ROW | {"lease": {"S": "s/1"}}
    made = snapshot_from([item_of(row) for row in (ROW, {**other, name: attribute})])
    assert made.leases["s/0"].epoch == 7
    assert list(made.bad) == [other["lease"]["S"]]


@pytest.mark.parametrize(
    ("sets", "removes", "expression"),
    [
        ({"move": "any"}, (), "SET #0 = :0"),
        ({}, ("move",), "REMOVE #0"),
        ({"beat": 0, "nonce": "n"}, ("move", "quiet_ms"), "SET #0 = :0, #1 = :1 REMOVE #2, #3"),
    ],
)
def test_an_update_has_a_clause_for_what_it_sets_and_one_for_what_it_removes_and_no_empty_one(
    sets: dict[str, Value], removes: tuple[str, ...], expression: str
) -> None:
    parameters = update_of("leases", Change("s/0", sets, removes, TERMS), "ALL_NEW")
    assert parameters["UpdateExpression"] == expression
    assert list(parameters["ExpressionAttributeNames"].values()) == [*sets, *removes, "epoch", "owner"]
