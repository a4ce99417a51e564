"""What passed a proxy, read as promises: by when must the child of each shard be dead?

Only a write promises anything whose answer went out completely while its sender still listened. The sender counts from
the sending, which the row's `renewed_at` names to the millisecond by the wall clock, so that the instants here are the
supervisor's own and no estimates.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from tests.faults import Seen
from workers.process.kernel import boottime_ns

MS_NS = 1_000_000
SECOND_NS = 1_000_000_000
KEPT = {"beat", "renewed_at"}  # what claims and renewals set, and nothing else that is about a lease


def renewed_ns(seen: Iterable[Seen], attempt_s: float) -> dict[str, int]:
    """When the last claim or renewal of each shard was sent of which these answers prove that it was applied."""
    apart_ns = time.time_ns() - boottime_ns()
    newest: dict[str, int] = {}
    for each in seen:
        for shard, at_ms in _applied(each, attempt_s):
            newest[shard] = max(newest.get(shard, 0), at_ms * MS_NS - apart_ns)
    return newest


def deadlines_ns(seen: Iterable[Seen], lease_s: float, margin_s: float, attempt_s: float) -> dict[str, int]:
    valid_ns = int((lease_s - margin_s) * SECOND_NS)
    return {shard: at_ns + valid_ns for shard, at_ns in renewed_ns(seen, attempt_s).items()}


def _applied(seen: Seen, attempt_s: float) -> Iterator[tuple[str, int]]:
    """The shards that one answered call claimed or renewed, each with its `renewed_at`."""
    if seen.answered_ns is None or seen.answered_ns > seen.arrived_ns + attempt_s * SECOND_NS:
        return
    said_so = seen.status == 200 and seen.answer.startswith(b"{")
    if not said_so or seen.operation not in ("UpdateItem", "BatchExecuteStatement"):
        return
    body = json.loads(seen.body)
    if seen.operation == "UpdateItem":
        found = [_of_update(body)]
    else:
        responses = json.loads(seen.answer)["Responses"]
        pairs = zip(body["Statements"], responses, strict=True)
        found = [_of_statement(statement) for statement, response in pairs if "Error" not in response]
    for key, sets in found:
        if sets.keys() >= KEPT and not key.startswith("@"):
            yield key, int(sets["renewed_at"]["N"])


def _of_update(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    names, values = body["ExpressionAttributeNames"], body.get("ExpressionAttributeValues", {})
    pairs = re.findall(r"(#\d+) = (:\d+)", body["UpdateExpression"])
    return body["Key"]["lease"]["S"], {names[name]: values[value] for name, value in pairs}


def _of_statement(statement: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    names, values = re.findall(r'SET "(\w+)"=\?', statement["Statement"]), statement["Parameters"]
    return values[len(names)]["S"], dict(zip(names, values, strict=False))
