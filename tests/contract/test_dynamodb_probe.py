"""What a DynamoDB store finds out about its engine, and how it makes its table."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path

import pytest

from supervisor.stores.dynamodb import DynamoStore
from supervisor.stores.interface import Unavailable, Unfit
from supervisor.stores.location import DynamoLocation, open_store, parse
from supervisor.writes import PutMember
from tests import faults
from tests.contract.rows import CALL_TIMEOUT_S, ME, member, raw_client
from tests.engines import Engine
from tests.faults import Pick, Reply, Rewrite
from tests.proxy import FaultProxy


def without_condition(body: bytes) -> bytes:
    call = json.loads(body)
    condition = call.pop("ConditionExpression", "")
    names = call.get("ExpressionAttributeNames", {})
    values = call.get("ExpressionAttributeValues", {})
    kept = call["UpdateExpression"]
    call["ExpressionAttributeNames"] = {alias: name for alias, name in names.items() if used(alias, kept)}
    call["ExpressionAttributeValues"] = {alias: value for alias, value in values.items() if used(alias, kept)}
    assert condition
    return json.dumps(call).encode()


def used(alias: str, expression: str) -> bool:
    return re.search(re.escape(alias) + r"\b", expression) is not None


def without_extra_conditions(body: bytes) -> bytes:
    """As a known emulator does it: of a statement's conditions only that on the key counts."""
    call = json.loads(body)
    for statement in call["Statements"]:
        text, _, dropped = statement["Statement"].partition(" AND ")
        statement["Statement"] = text
        if dropped:
            statement["Parameters"] = statement["Parameters"][: text.count("?")]
    return json.dumps(call).encode()


def land_again(proxy: FaultProxy, body: bytes) -> int:
    """What the engine says to an UpdateItem that comes once more."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.upstream_port, timeout=10)
    target = {"X-Amz-Target": "DynamoDB_20120810.UpdateItem", "Content-Type": "application/x-amz-json-1.0"}
    try:
        connection.request("POST", "/", body, target)
        return connection.getresponse().status
    finally:
        connection.close()


def test_an_engine_that_ignores_conditions_is_unfit(proxy: FaultProxy, proved: DynamoStore) -> None:
    proxy.fault = Rewrite(without_condition, Pick("UpdateItem", lambda body: b"ConditionExpression" in body))
    with pytest.raises(Unfit, match="applies a write whose condition is false"):
        proved.prove(member(), CALL_TIMEOUT_S)


def test_an_engine_that_ignores_a_part_of_a_condition_is_unfit(proxy: FaultProxy, proved: DynamoStore) -> None:
    def without_range(body: bytes) -> bytes:
        call = json.loads(body)
        call["ConditionExpression"] = re.sub(r"(#\d+) BETWEEN :\d+", r"\1 >= :0", call["ConditionExpression"])
        call["ConditionExpression"] = re.sub(r"(#\d+) >= :0 AND (:\d+)", r"\1 <= \2", call["ConditionExpression"])
        low = next(name for name, value in call["ExpressionAttributeValues"].items() if "N" in value)
        del call["ExpressionAttributeValues"][low]
        return json.dumps(call).encode()

    proxy.fault = Rewrite(without_range, Pick("UpdateItem", lambda body: b"BETWEEN" in body))
    with pytest.raises(Unfit, match="applies a write whose condition is false"):
        proved.prove(member(), CALL_TIMEOUT_S)


def test_an_engine_that_ignores_conditions_of_statements_is_used_without_batches(
    proxy: FaultProxy, proved: DynamoStore
) -> None:
    assert proved.batch == 25
    proxy.fault = Rewrite(without_extra_conditions, Pick("BatchExecuteStatement"))
    proved.prove(member(), CALL_TIMEOUT_S)
    assert proved.batch == 1
    assert proved.snapshot(5.0, full=True).members[ME] == member()


def test_an_engine_that_answers_batches_and_does_nothing_is_used_without_them(
    proxy: FaultProxy, proved: DynamoStore
) -> None:
    applied = faults.Answer(200, json.dumps({"Responses": [{"TableName": "t"}]}).encode())
    refusal = {"Error": {"Code": "ConditionalCheckFailed", "Message": "no"}}
    refused = faults.Answer(200, json.dumps({"Responses": [refusal]}).encode())
    truth = Pick("BatchExecuteStatement", lambda body: b"probe of batches" in body)
    proxy.faults = (Reply(applied, truth), Reply(refused, Pick("BatchExecuteStatement")))
    proved.prove(member(), CALL_TIMEOUT_S)
    assert proved.batch == 1


def test_a_late_put_of_an_earlier_probe_spoils_the_probe_but_not_the_verdict(
    proxy: FaultProxy, proved: DynamoStore
) -> None:
    def put_again(body: bytes) -> bytes:
        proved.apply(PutMember(member()), CALL_TIMEOUT_S)
        return body

    proxy.fault = Rewrite(put_again, Pick("GetItem"))
    with pytest.raises(Unavailable, match="a late write to the member row came in between"):
        proved.prove(member(), CALL_TIMEOUT_S)


def test_a_late_write_of_an_earlier_probe_is_not_taken_for_a_deed_of_this_one(
    proxy: FaultProxy, proved: DynamoStore
) -> None:
    """A probe of batches that hung lands in the middle of the next probe, after its put has made it possible."""
    earlier = []

    def keep(body: bytes) -> bytes:
        earlier.append(body)
        return body

    proxy.fault = Rewrite(keep, Pick("UpdateItem", lambda body: b"probe of updates" in body and b"false" not in body))
    proved.prove(member(nonce="earlier"), CALL_TIMEOUT_S)

    def land(body: bytes) -> bytes:
        proxy.fault = None
        proved.apply(PutMember(member(nonce="earlier")), CALL_TIMEOUT_S)
        assert land_again(proxy, earlier[0]) == 200
        return body

    proxy.fault = Rewrite(land, Pick("GetItem"))
    with pytest.raises(Unavailable, match="a late write to the member row came in between"):
        proved.prove(member(nonce="later"), CALL_TIMEOUT_S)


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnknownOperationException", "ValidationException"])
def test_batches_that_the_engine_or_its_permissions_do_not_know_are_not_used(
    code: str, proxy: FaultProxy, proved: DynamoStore
) -> None:
    proxy.fault = Reply(faults.error(code), Pick("BatchExecuteStatement"))
    proved.prove(member(), CALL_TIMEOUT_S)
    assert proved.batch == 1


@pytest.mark.parametrize("operation", ["UpdateItem", "GetItem", "BatchExecuteStatement"])
@pytest.mark.parametrize("fault", [faults.Close, lambda pick: Reply(faults.throttled(), pick)])
def test_a_probe_that_cannot_reach_the_engine_says_so_and_can_be_repeated(
    operation: str, fault: type[faults.Close], proxy: FaultProxy, proved: DynamoStore
) -> None:
    proxy.fault = fault(Pick(operation))
    with pytest.raises(Unavailable, match=operation):
        proved.prove(member(), CALL_TIMEOUT_S)
    proxy.fault = None
    proved.prove(member(), CALL_TIMEOUT_S)
    assert proved.batch == 25


def test_every_write_of_a_probe_goes_to_our_own_row(proxy: FaultProxy, proved: DynamoStore) -> None:
    before = proxy.count()
    proved.prove(member(), CALL_TIMEOUT_S)
    seen = proxy.seen()[before:]
    keys = [json.loads(one.body)["Key"]["lease"]["S"] for one in seen if one.operation == "UpdateItem"]
    assert set(keys) == {f"@{ME}"}
    batches = [json.loads(one.body)["Statements"] for one in seen if one.operation == "BatchExecuteStatement"]
    assert len(batches) == 4
    assert all({"S": f"@{ME}"} in statement["Parameters"] for batch in batches for statement in batch)


def test_a_table_with_another_key_is_unfit(ministack: Engine, table: str, tmp_path: Path) -> None:
    url = ministack.url(table)
    location = parse(url, tmp_path)
    raw_client(location).create_table(  # type: ignore[arg-type]
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "LockID", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "LockID", "AttributeType": "S"}],
    )
    store = open_store(url, tmp_path, CALL_TIMEOUT_S)
    for attempt in (store.initialize, lambda: store.inspect(CALL_TIMEOUT_S)):
        with pytest.raises(Unfit, match=r"has the key LockID \(S, HASH\), expected lease \(S, HASH\)"):
            attempt()
    store.close()


@pytest.mark.parametrize("fault", [faults.Close(), Reply(faults.throttled()), Reply(faults.html())], ids=str)
def test_a_table_that_cannot_be_looked_at_is_unavailable(
    fault: faults.Fault, proxy: FaultProxy, proved: DynamoStore
) -> None:
    proxy.fault = fault
    with pytest.raises(Unavailable, match="DescribeTable"):
        proved.inspect(CALL_TIMEOUT_S)


def test_deletion_protection_is_on_where_the_engine_knows_it(
    ministack: Engine, proved: DynamoStore, one_table: str
) -> None:
    client = raw_client(parse(ministack.url(one_table), Path("/")))  # type: ignore[arg-type]
    description = client.describe_table(TableName=one_table)["Table"]
    assert description["DeletionProtectionEnabled"]
    assert description["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_an_engine_without_deletion_protection_gets_a_table_without(
    proxy: FaultProxy, table: str, tmp_path: Path
) -> None:
    proxy.fault = Reply(
        faults.error("ValidationException"), Pick("CreateTable", lambda body: b"DeletionProtection" in body)
    )
    store = open_store(proxy.url(table), tmp_path, CALL_TIMEOUT_S)
    assert store.initialize().endswith("was created")
    store.close()


def test_no_row_ever_goes_by_itself(ministack: Engine, table: str) -> None:
    """The table has no time to live, so that nobody waits for rows to be deleted, days late, or loses one."""
    url = ministack.url(table)
    store = open_store(url, Path("/"), CALL_TIMEOUT_S)
    store.initialize()
    store.close()
    location = parse(url, Path("/"))
    assert isinstance(location, DynamoLocation)
    shown = raw_client(location).describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert shown["TimeToLiveStatus"] == "DISABLED"
