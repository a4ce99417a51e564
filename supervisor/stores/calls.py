"""DynamoDB's calls on one table, each made once: what was asked for, or `Failed`, and nothing else.

What holds: a result is what the service said; an HTTP success that does not say it (a captive portal's page comes out
of boto3 as an empty answer) is `Failed`. Whatever a library raises ends here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from supervisor.stores import expressions
from supervisor.stores.clients import Client, Clients
from supervisor.stores.errors import EXISTING_TABLE, STALE_CREDENTIALS, Failed, failed, failed_statement, no_answer
from supervisor.stores.location import DynamoLocation
from supervisor.stores.statements import KEY, Change, Delete, Put

Lane = Literal["renewals", "others"]
Item = dict[str, Any]


class Table:
    """Raises ValueError for an unknown profile or a missing region; connects at the first call."""

    def __init__(self, location: DynamoLocation, call_timeout_s: float, lanes: int) -> None:
        self.name = location.table
        self._clients = Clients(location, call_timeout_s, lanes)
        self.region = self._clients.region

    def close(self) -> None:
        self._clients.close()

    def update(self, statement: Put | Change, whole: bool, lane: Lane = "others") -> Item:
        """What was written, or the whole new row."""
        parameters = expressions.update_of(self.name, statement, "ALL_NEW" if whole else "UPDATED_NEW")
        answer = self._once("UpdateItem", lane, lambda client: client.update_item(**parameters))
        return _attributes("UpdateItem", answer)

    def delete(self, statement: Delete) -> Item:
        """The row that was deleted."""
        parameters = expressions.delete_of(self.name, statement)
        answer = self._once("DeleteItem", "others", lambda client: client.delete_item(**parameters))
        return _attributes("DeleteItem", answer)

    def get(self, key: str, lane: Lane = "others") -> Item | None:
        parameters = expressions.get_of(self.name, key)
        answer = self._once("GetItem", lane, lambda client: client.get_item(**parameters))
        if "Item" not in answer and "ConsumedCapacity" in answer:
            return None
        item = expressions.item_of(answer.get("Item"))
        if item.get(KEY) != key:
            raise no_answer("GetItem")
        return item

    def execute(self, changes: Sequence[Change]) -> list[Failed | None]:
        """A batch; one result per change, None: applied."""
        parameters = {"Statements": [expressions.partiql_of(self.name, change) for change in changes]}
        answer = self._once(
            "BatchExecuteStatement", "renewals", lambda client: client.batch_execute_statement(**parameters)
        )
        responses = answer.get("Responses")
        if not isinstance(responses, list) or len(responses) != len(changes):
            raise no_answer("BatchExecuteStatement")
        return [failed_statement(response) for response in responses]

    def scan(self, names: Sequence[str] | None, deadline: float) -> list[Item]:
        """All rows, consistently, by `deadline` (monotonic seconds); `names` None: all attributes."""
        parameters = expressions.scan_of(self.name, names)
        items: list[Item] = []
        while True:
            answer = self._once("Scan", "others", lambda client: client.scan(**parameters))
            rows, start = answer.get("Items"), answer.get("LastEvaluatedKey")
            if not isinstance(rows, list) or answer.get("Count") != len(rows):
                raise no_answer("Scan")
            found = [expressions.item_of(row) for row in rows]
            if not all(isinstance(item.get(KEY), str) for item in found):
                raise no_answer("Scan")  # rather than a row that counts as missing, which kills its child
            items += found
            if start is None:
                return items
            if time.monotonic() >= deadline:
                raise Failed(f"Scan: not complete in time, after {len(items)} rows")
            parameters["ExclusiveStartKey"] = start

    def describe(self) -> Any:
        parameters = {"TableName": self.name}
        return self._once("DescribeTable", "others", lambda client: client.describe_table(**parameters)).get("Table")

    def create(self) -> bool:
        """False: it exists. Protected against deletion where the engine knows how."""
        parameters = expressions.create_of(self.name)
        try:
            try:
                self._create(parameters | {"DeletionProtectionEnabled": True})
            except Failed as failure:
                if failure.code not in ("ValidationException", "SerializationException"):
                    raise
                self._create(parameters)
        except Failed as failure:
            if failure.code != EXISTING_TABLE:
                raise
            return False
        return True

    def _create(self, parameters: dict[str, Any]) -> None:
        self._once("CreateTable", "others", lambda client: client.create_table(**parameters))

    def _once(self, operation: str, lane: Lane, call: Callable[[Client], Any]) -> Mapping[str, Any]:
        try:
            answer = call(self._clients.renewals if lane == "renewals" else self._clients.others)
        except Exception as error:  # botocore lets through whatever its libraries and a corrupted answer provoke
            failure = failed(error, operation)
            if failure.code in STALE_CREDENTIALS:
                self._clients.doubt_credentials()
            raise failure from None
        if not isinstance(answer, Mapping):
            raise no_answer(operation)
        return answer


def _attributes(operation: str, answer: Mapping[str, Any]) -> Item:
    if not isinstance(answer.get("Attributes"), Mapping):
        raise no_answer(operation)
    return expressions.item_of(answer["Attributes"])
