"""How statements and rows look in DynamoDB: pure parameters of the low-level calls, and rows read from answers.

Every name is an alias in expressions and quoted in PartiQL, because hundreds of words are reserved (`owner` is one).
A put is an UpdateItem too: PutItem cannot return what it wrote, and only an answer that carries our attributes
proves that a write was applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from supervisor.stores.statements import KEY, Absent, Between, Change, Delete, Equals, NotTrue, Put, Term, Value

Parameters = dict[str, Any]

_INTEGER = re.compile(r"-?[0-9]{1,19}")


class _Aliases:
    """Collects the names and values of one call under short aliases."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def name(self, name: str) -> str:
        return self.names.setdefault(name, f"#{len(self.names)}")

    def value(self, value: Value) -> str:
        alias = f":{len(self.values)}"
        self.values[alias] = attribute_of(value)
        return alias

    def parameters(self) -> Parameters:
        found: Parameters = {}
        if self.names:
            found["ExpressionAttributeNames"] = {alias: name for name, alias in self.names.items()}
        if self.values:
            found["ExpressionAttributeValues"] = self.values
        return found


def update_of(table: str, statement: Put | Change, returned: str) -> Parameters:
    """The parameters of UpdateItem; `returned` is ALL_NEW or UPDATED_NEW."""
    aliases = _Aliases()
    sets = [f"{aliases.name(name)} = {aliases.value(value)}" for name, value in statement.sets.items()]
    removes: list[str] = []
    terms: Iterable[Term]
    if isinstance(statement, Put):
        terms = (Absent(KEY),) if statement.new else ()
    else:
        terms = statement.terms
        removes = [aliases.name(name) for name in statement.removes]
    clauses = (("SET", sets), ("REMOVE", removes))  # an empty one would be a syntax error
    parameters: Parameters = {
        "TableName": table,
        "Key": key_of(statement.key),
        "UpdateExpression": " ".join(f"{verb} {', '.join(names)}" for verb, names in clauses if names),
        "ReturnValues": returned,
    }
    return parameters | _condition(aliases, terms) | aliases.parameters()


def delete_of(table: str, statement: Delete) -> Parameters:
    """The parameters of DeleteItem."""
    aliases = _Aliases()
    parameters: Parameters = {"TableName": table, "Key": key_of(statement.key), "ReturnValues": "ALL_OLD"}
    return parameters | _condition(aliases, statement.terms) | aliases.parameters()


def _condition(aliases: _Aliases, terms: Iterable[Term]) -> Parameters:
    clauses = []
    for term in terms:
        name = aliases.name(term.name)
        match term:
            case Equals(value=value):
                clauses.append(f"{name} = {aliases.value(value)}")
            case Absent():
                clauses.append(f"attribute_not_exists({name})")
            case Between(low=low, high=high):
                clauses.append(f"{name} BETWEEN {aliases.value(low)} AND {aliases.value(high)}")
            case NotTrue():
                clauses.append(f"(attribute_not_exists({name}) OR {name} = {aliases.value(False)})")
    if not clauses:
        return {}
    return {"ConditionExpression": " AND ".join(clauses), "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def partiql_of(table: str, change: Change) -> Parameters:
    """One statement of BatchExecuteStatement. Only what a renewal needs: no removal, `Equals` and `Between`."""
    sets = " ".join(f'SET "{name}"=?' for name in change.sets)
    values: list[Value] = [*change.sets.values(), change.key]
    clauses = [f'"{KEY}"=?']
    for term in change.terms:
        match term:
            case Equals(name, value):
                clauses.append(f'"{name}"=?')
                values.append(value)
            case Between(name, low, high):
                clauses.append(f'"{name}" BETWEEN ? AND ?')
                values += (low, high)
            case _:
                raise ValueError(f"{term} has no place in a renewal")
    return {
        "Statement": f'UPDATE "{table}" {sets} WHERE {" AND ".join(clauses)}',
        "Parameters": [attribute_of(value) for value in values],
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def get_of(table: str, key: str) -> Parameters:
    """The parameters of GetItem. The consumed capacity is asked for as proof: an answer without it is none, and must
    not be taken for a missing row."""
    return {"TableName": table, "Key": key_of(key), "ConsistentRead": True, "ReturnConsumedCapacity": "TOTAL"}


def scan_of(table: str, names: Sequence[str] | None) -> Parameters:
    """The parameters of Scan's first page; `names` None: all attributes."""
    parameters: Parameters = {"TableName": table, "ConsistentRead": True}
    if names is None:
        return parameters
    aliases = _Aliases()
    projection = ",".join(aliases.name(name) for name in names)
    return parameters | {"ProjectionExpression": projection} | aliases.parameters()


def create_of(table: str) -> Parameters:
    """The parameters of CreateTable."""
    return {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
    }


def key_of(key: str) -> Parameters:
    return {KEY: {"S": key}}


def attribute_of(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, str):
        return {"S": value}
    return {"L": [{"S": text} for text in value]}


def item_of(attributes: Any) -> dict[str, Any]:
    """A row as plain attributes, empty if this is no row at all. What is no str, whole number, bool, null or list is
    passed on as it is, so that parsing refuses it if it needs it."""
    if not isinstance(attributes, dict):  # not `Mapping`, whose check costs more than the rest of a row
        return {}
    return {str(name): _plain(value) for name, value in attributes.items()}


def _plain(attribute: Any) -> Any:
    if not isinstance(attribute, dict) or len(attribute) != 1:
        return attribute
    ((kind, value),) = (
        attribute.items()
    )  # not `match`, which costs four times as much: a snapshot is thousands of these
    if kind == "S" and isinstance(value, str):
        return value
    if kind == "N" and isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else _number(value)
    if kind == "BOOL" and isinstance(value, bool):
        return value
    if kind == "L" and isinstance(value, list):  # of texts; what is nested may be deeper than we can follow
        return [each.get("S", each) if isinstance(each, Mapping) else each for each in value]
    return None if kind == "NULL" and value is True else attribute


def _number(text: str) -> int | Decimal:
    """Never an int, so that `BadRow` shows the number; unless it is whole and merely written as 1E+2. NaN: it is no
    number, or one beyond all bounds."""
    try:
        number = Decimal(text)
        whole = number.is_finite() and abs(number) < 2**63 and number == number.to_integral_value()
    except ArithmeticError:
        return Decimal("NaN")
    return int(number) if whole else number
