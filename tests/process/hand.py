"""Rows changed behind the daemon's back, as an operator with a heavy hand would: without conditions.

`rows` is everything that the store holds, so that a test can say that nothing was changed.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from tests.engines import Engine

Row = dict[str, Any]


class Hand(Protocol):
    def seize(self, shard: str, owner: str) -> int:
        """Write another owner into the row, under the next epoch, which is returned."""

    def alter(self, shard: str, name: str, value: Any) -> Any:
        """Another value of one attribute; what it was before. Raises KeyError where there is no such row."""

    def put(self, row: Row) -> None:
        """A row, as it is given."""

    def delete(self, shard: str) -> None:
        """The row is gone."""

    def drop(self) -> None:
        """The whole table or file is gone."""

    def rows(self) -> dict[str, Row]:
        """All rows by their key."""


class SqliteHand:
    def __init__(self, path: Path, timeout_s: float = 10) -> None:
        self._path = path
        self._timeout_s = timeout_s

    @contextlib.contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(f"file:{self._path}?mode=rw", uri=True, timeout=self._timeout_s)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def seize(self, shard: str, owner: str) -> int:
        with self._file() as file:
            change = "UPDATE leases SET owner = ?, epoch = epoch + 1, beat = 0 WHERE lease = ? RETURNING epoch"
            return int(file.execute(change, (owner, shard)).fetchone()[0])

    def alter(self, shard: str, name: str, value: Any) -> Any:
        with self._file() as file:
            file.execute("BEGIN IMMEDIATE")
            found = file.execute(f"SELECT [{name}] FROM leases WHERE lease = ?", (shard,)).fetchone()
            if found is None:
                raise KeyError(shard)
            file.execute(f"UPDATE leases SET [{name}] = ? WHERE lease = ?", (value, shard))
            return found[0]

    def put(self, row: Row) -> None:
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        with self._file() as file:
            file.execute(f"INSERT OR REPLACE INTO leases ({names}) VALUES ({marks})", tuple(row.values()))

    def delete(self, shard: str) -> None:
        with self._file() as file:
            file.execute("DELETE FROM leases WHERE lease = ?", (shard,))

    def drop(self) -> None:
        self._path.unlink()

    def rows(self) -> dict[str, Row]:
        with self._file() as file:
            file.row_factory = sqlite3.Row
            found = [dict(row) for row in file.execute("SELECT * FROM leases")]
        return {row["lease"]: row for row in found}


class DynamoHand:
    def __init__(self, engine: Engine, table: str) -> None:
        self._table = table
        self._client: Any = boto3.client("dynamodb", region_name="us-east-1", endpoint_url=engine.endpoint_url)

    def seize(self, shard: str, owner: str) -> int:
        answer = self._client.update_item(
            TableName=self._table,
            Key={"lease": {"S": shard}},
            UpdateExpression="SET #o = :o, #e = #e + :one, #b = :zero",
            ExpressionAttributeNames={"#o": "owner", "#e": "epoch", "#b": "beat"},
            ExpressionAttributeValues={":o": {"S": owner}, ":one": {"N": "1"}, ":zero": {"N": "0"}},
            ReturnValues="UPDATED_NEW",
        )
        return int(answer["Attributes"]["epoch"]["N"])

    def alter(self, shard: str, name: str, value: Any) -> Any:
        change = "REMOVE #n" if value is None else "SET #n = :v"
        values = {} if value is None else {"ExpressionAttributeValues": {":v": TypeSerializer().serialize(value)}}
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key={"lease": {"S": shard}},
                UpdateExpression=change,
                ConditionExpression="attribute_exists(#k)",
                ExpressionAttributeNames={"#n": name, "#k": "lease"},
                ReturnValues="UPDATED_OLD",
                **values,
            )
        except self._client.exceptions.ConditionalCheckFailedException:
            raise KeyError(shard) from None
        before = answer.get("Attributes", {}).get(name)
        return None if before is None else TypeDeserializer().deserialize(before)

    def put(self, row: Row) -> None:
        pack = TypeSerializer().serialize
        self._client.put_item(TableName=self._table, Item={name: pack(value) for name, value in row.items()})

    def delete(self, shard: str) -> None:
        self._client.delete_item(TableName=self._table, Key={"lease": {"S": shard}})

    def drop(self) -> None:
        with contextlib.suppress(ClientError):  # an engine that knows no such protection
            self._client.update_table(TableName=self._table, DeletionProtectionEnabled=False)
        self._client.delete_table(TableName=self._table)

    def rows(self) -> dict[str, Row]:
        unpack = TypeDeserializer().deserialize
        items = self._client.scan(TableName=self._table, ConsistentRead=True)["Items"]
        rows = [{name: unpack(value) for name, value in item.items()} for item in items]
        return {row["lease"]: row for row in rows}
