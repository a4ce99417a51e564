"""DynamoDB behind a network that misbehaves: every fault becomes the right outcome, and no write is sent twice."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.records import Applied, Lease, Outcome, PutMember, Refused, Unknown, after_claim
from supervisor.stores.dynamodb import DynamoStore
from supervisor.stores.interface import Unavailable, Unfit
from supervisor.stores.location import open_store, parse
from tests import faults
from tests.contract.rows import ME, OTHER, claim, create, member, plant, raw_client, raw_item, renew
from tests.engines import Engine
from tests.faults import Pick, Reply, Rewrite
from tests.proxy import FaultProxy
from tests.wait import until

CALL_TIMEOUT_S = 0.5


@pytest.fixture(scope="module")
def one_table() -> str:
    return f"leases-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def one_proxy(ministack: Engine) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.port) as running:
        yield running


@pytest.fixture(scope="module")
def one_store(one_proxy: FaultProxy, one_table: str) -> Iterator[DynamoStore]:
    """Through the proxy. Making clients is slow, so the tests of this module share them."""
    opened = open_store(one_proxy.url(one_table), Path("/"), CALL_TIMEOUT_S)
    assert isinstance(opened, DynamoStore)
    opened.initialize()
    yield opened
    opened.close()


@pytest.fixture
def proxy(one_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """Without a fault."""
    yield one_proxy
    one_proxy.fault = None


@pytest.fixture
def store(one_store: DynamoStore, proxy: FaultProxy) -> DynamoStore:
    """Proved, so that it renews in batches."""
    if one_store.batch == 1:
        one_store.prove(member(), CALL_TIMEOUT_S)
    return one_store


@pytest.fixture
def rows(store: DynamoStore) -> list[Lease]:
    """Three leases of ours, of no other test."""
    stream = secrets.token_hex(4)
    return [claimed(store, f"{stream}/{number}") for number in range(3)]


def claimed(store: DynamoStore, shard: str) -> Lease:
    created = store.apply(create(shard), CALL_TIMEOUT_S)
    assert isinstance(created, Applied)
    assert created.row is not None
    outcome = store.apply(claim(created.row), CALL_TIMEOUT_S)
    assert isinstance(outcome, Applied)
    assert outcome.row is not None
    return outcome.row


def beat_in(ministack: Engine, table: str, row: Lease) -> int:
    """Read past the proxy."""
    return int(raw_item(ministack.url(table), row.shard)["beat"]["N"])


# Every way in which an attempt can end without an answer that proves anything: the fault, whether the write lands all
# the same, and what the cause must name.
SILENT = [
    pytest.param(faults.Hang(), False, "no answer in time", id="hang"),
    pytest.param(faults.Close(), False, "closed before the answer", id="connection closed"),
    pytest.param(faults.EatAnswers(), True, "closed before the answer", id="answer lost with the connection"),
    pytest.param(faults.EatAnswers(close=False), True, "no answer in time", id="answer lost in silence"),
    pytest.param(faults.DelayAnswers(1.0), True, "no answer in time", id="answer late"),
    pytest.param(faults.CutBody(), True, "", id="body cut"),
    pytest.param(Reply(faults.server_error()), False, "InternalServerError", id="500"),
    pytest.param(Reply(faults.server_error(), forwarded=True), True, "InternalServerError", id="500 though applied"),
    pytest.param(Reply(faults.Answer(503, b"busy")), False, "HTTP 503", id="503 of a load balancer"),
    pytest.param(Reply(faults.throttled()), False, "throttled", id="throttled"),
    pytest.param(Reply(faults.expired_token()), False, "credentials have expired", id="expired token"),
    pytest.param(
        Reply(faults.error("InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than x")),
        False,
        "clock of this host is wrong",
        id="clock skew",
    ),
    pytest.param(Reply(faults.error("RequestTimeTooSkewed")), False, "clock of this host is wrong", id="time skewed"),
    pytest.param(Reply(faults.error("ResourceNotFoundException")), False, "table does not exist", id="table missing"),
    pytest.param(Reply(faults.error("ItemCollectionSizeLimitExceededException")), False, "", id="another error"),
    pytest.param(Reply(faults.html()), False, "the answer proves nothing", id="page of a captive portal"),
    pytest.param(Reply(faults.html(), forwarded=True), True, "the answer proves nothing", id="page though applied"),
    pytest.param(Reply(faults.Answer(200, b"")), False, "the answer proves nothing", id="empty body"),
    pytest.param(Reply(faults.Answer(200, b"{}")), False, "the answer proves nothing", id="empty object"),
    pytest.param(Reply(faults.Answer(200, b"[1]")), False, "", id="an array"),
    pytest.param(Reply(faults.Answer(200, b'{"Attributes": 1, "Responses": 1}')), False, "", id="wrong types"),
    pytest.param(Reply(faults.Answer(200, b"\xff\xfe")), False, "", id="no UTF-8"),
    pytest.param(Reply(faults.Answer(400, b"<html>")), False, "HTTP 400", id="400 without a code"),
    pytest.param(Reply(faults.Answer(302, b"")), False, "", id="redirect"),
]


@pytest.mark.parametrize(("fault", "lands", "cause"), SILENT)
def test_a_renewal_without_a_proving_answer_is_unknown_and_was_sent_once(
    fault: faults.Fault,
    lands: bool,
    cause: str,
    proxy: FaultProxy,
    store: DynamoStore,
    rows: list[Lease],
    ministack: Engine,
    one_table: str,
) -> None:
    sent = proxy.count()
    proxy.fault = fault
    outcome = store.apply(renew(rows[0]), CALL_TIMEOUT_S)
    assert_unknown(outcome, cause)
    assert proxy.count() == sent + 1
    proxy.fault = None
    assert beat_in(ministack, one_table, rows[0]) == (1 if lands else 0)
    # Whether it landed or not, the next attempt keeps the lease.
    assert store.apply(renew(rows[0], beat_high=1, beat=2, nonce="next"), CALL_TIMEOUT_S) == Applied()


@pytest.mark.parametrize(("fault", "lands", "cause"), SILENT)
def test_a_batch_without_a_proving_answer_is_unknown_for_all_and_was_sent_once(
    fault: faults.Fault,
    lands: bool,
    cause: str,
    proxy: FaultProxy,
    store: DynamoStore,
    rows: list[Lease],
    ministack: Engine,
    one_table: str,
) -> None:
    sent = proxy.count()
    proxy.fault = fault
    outcomes = store.renew([renew(row) for row in rows], CALL_TIMEOUT_S)
    assert len(outcomes) == len(rows)
    for outcome in outcomes:
        assert_unknown(outcome, cause)
    assert proxy.count() == sent + 1
    proxy.fault = None
    assert [beat_in(ministack, one_table, row) for row in rows] == [1 if lands else 0] * len(rows)
    again = [renew(row, beat_high=1, beat=2, nonce=f"next {row.shard}") for row in rows]
    assert store.renew(again, CALL_TIMEOUT_S) == [Applied()] * len(rows)


def assert_unknown(outcome: Outcome, cause: str) -> None:
    assert isinstance(outcome, Unknown)
    assert cause in outcome.cause
    assert not outcome.unsent
    assert len(outcome.cause) < 200
    assert "test-secret-key" not in outcome.cause


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_batch_answered_with_another_number_of_responses_is_unknown_for_all(
    count: int, proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    body = json.dumps({"Responses": [{"TableName": "t"}] * count}).encode()
    proxy.fault = Reply(faults.Answer(200, body), forwarded=True)
    assert all(isinstance(outcome, Unknown) for outcome in store.renew([renew(row) for row in rows], CALL_TIMEOUT_S))


def test_a_statement_of_a_batch_that_fails_otherwise_is_unknown_for_itself_alone(
    proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    busy = {"Error": {"Code": "ProvisionedThroughputExceeded", "Message": "slow down"}}
    body = json.dumps({"Responses": [{"TableName": "t"}, busy, {"Error": {}}]}).encode()
    proxy.fault = Reply(faults.Answer(200, body))
    applied, throttled, junk = store.renew([renew(row) for row in rows], CALL_TIMEOUT_S)
    assert applied == Applied()
    assert isinstance(throttled, Unknown)
    assert "throttled" in throttled.cause
    assert isinstance(junk, Unknown)


def test_an_answer_that_carries_another_nonce_proves_nothing(
    proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = Reply(faults.Answer(200, json.dumps({"Attributes": {"nonce": {"S": "another"}}}).encode()))
    assert isinstance(store.apply(renew(rows[0]), CALL_TIMEOUT_S), Unknown)


@pytest.mark.parametrize("operation", ["UpdateItem", "PartiQLUpdate"])
def test_a_denied_action_is_named(operation: str, proxy: FaultProxy, store: DynamoStore, rows: list[Lease]) -> None:
    proxy.fault = Reply(faults.access_denied(operation))
    outcome = store.renew([renew(row) for row in rows], CALL_TIMEOUT_S)[0]
    assert isinstance(outcome, Unknown)
    assert f"dynamodb:{operation} is not permitted" in outcome.cause


def test_a_refused_connection_is_unknown_and_certainly_unsent(
    proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.stop_listening()
    outcome = until_unsent(store, rows[0])
    assert "cannot connect" in outcome.cause
    with pytest.raises(Unavailable, match="cannot connect"):
        store.snapshot(CALL_TIMEOUT_S)
    proxy.listen()
    assert store.apply(renew(rows[0]), CALL_TIMEOUT_S) == Applied()


def until_unsent(store: DynamoStore, row: Lease) -> Unknown:
    """The first attempt may still find the closed connection in the pool."""
    for _ in range(3):
        outcome = store.apply(renew(row), CALL_TIMEOUT_S)
        assert isinstance(outcome, Unknown)
        if outcome.unsent:
            return outcome
    raise AssertionError(outcome)


def test_a_renewal_that_a_proxy_sends_twice_is_refused_by_its_own_nonce(
    proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.Duplicate()
    write = renew(rows[0])
    outcome = store.apply(write, CALL_TIMEOUT_S)
    assert isinstance(outcome, Refused)
    assert outcome.row is not None
    assert (outcome.row.nonce, outcome.row.beat) == (write.nonce, 1)
    batch = [renew(replace(row, beat=beat)) for row, beat in zip(rows, (1, 0, 0), strict=True)]
    for write, refused in zip(batch, store.renew(batch, CALL_TIMEOUT_S), strict=True):
        assert isinstance(refused, Refused)
        assert refused.row is not None
        assert refused.row.nonce == write.nonce


def test_a_late_renewal_that_lands_after_the_next_one_changes_nothing(
    proxy: FaultProxy, store: DynamoStore, rows: list[Lease], ministack: Engine, one_table: str
) -> None:
    held = faults.HoldRequests(Pick(when=lambda body: b"first attempt" in body))
    proxy.fault = held
    late = renew(rows[0], nonce="first attempt", checkpoint="older")
    assert isinstance(store.apply(late, CALL_TIMEOUT_S), Unknown)
    newer = renew(rows[0], beat_high=1, beat=2, nonce="second attempt", checkpoint="newer")
    assert store.apply(newer, CALL_TIMEOUT_S) == Applied()
    held.release()
    until(lambda: held.landed, 5)
    assert held.landed[0].status == 400
    item = raw_item(ministack.url(one_table), rows[0].shard)
    assert (item["beat"]["N"], item["checkpoint"]["S"]) == ("2", "newer")


@pytest.mark.parametrize("lost_in_a_row", [1, 7])
def test_renewals_whose_answers_are_lost_for_ever_and_ever_never_lose_the_lease(
    lost_in_a_row: int, proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.EatAnswers(Pick(when=lambda body: b"lost" in body))
    applied = 0
    for beat in range(1, 500):
        lost = beat % (lost_in_a_row + 1) != 0
        nonce = f"{'lost' if lost else 'heard'} {beat}"
        attempt = renew(
            rows[0], beat_low=applied, beat_high=beat - 1, beat=beat, nonce=nonce, checkpoint=f"token {beat}"
        )
        outcome = store.apply(attempt, CALL_TIMEOUT_S)
        if lost:
            assert isinstance(outcome, Unknown)
        else:
            assert outcome == Applied()
            applied = beat
    row = store.read(rows[0].shard, CALL_TIMEOUT_S)
    assert row is not None
    assert (row.owner, row.epoch, row.beat, row.checkpoint) == (ME, rows[0].epoch, 499, "token 499")


def test_a_claim_whose_answer_was_lost_is_unknown_and_can_be_read(
    proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.EatAnswers(Pick("UpdateItem"))
    write = claim(rows[0], owner=OTHER)
    assert isinstance(store.apply(write, CALL_TIMEOUT_S), Unknown)
    assert store.read(rows[0].shard, CALL_TIMEOUT_S) == after_claim(rows[0], write)


def test_a_refusal_whose_row_cannot_be_read_is_unknown(dynalite: Engine, table: str, tmp_path: Path) -> None:
    """dynalite refuses without the row."""
    with FaultProxy(dynalite.port) as proxy:
        store = open_store(proxy.url(table), tmp_path, CALL_TIMEOUT_S)
        store.initialize()
        store.apply(create("trades/0"), CALL_TIMEOUT_S)
        for fault in (Reply(faults.throttled(), Pick("GetItem")), Reply(faults.html(), Pick("GetItem"))):
            proxy.fault = fault
            outcome = store.apply(create("trades/0", nonce="second"), CALL_TIMEOUT_S)
            assert isinstance(outcome, Unknown)
            assert "refused, but the row could not be read" in outcome.cause
        proxy.fault = None
        assert isinstance(store.apply(create("trades/0", nonce="third"), CALL_TIMEOUT_S), Refused)
        store.close()


# --- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "lands", "cause"), SILENT)
def test_a_read_without_a_proving_answer_is_unavailable_and_never_a_missing_row(
    fault: faults.Fault, lands: bool, cause: str, proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = fault
    with pytest.raises(Unavailable) as raised:
        store.read(rows[0].shard, CALL_TIMEOUT_S)
    assert cause in str(raised.value)


@pytest.mark.parametrize(("fault", "lands", "cause"), SILENT)
def test_a_snapshot_without_a_proving_answer_is_unavailable_and_never_empty(
    fault: faults.Fault, lands: bool, cause: str, proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = fault
    with pytest.raises(Unavailable) as raised:
        store.snapshot(CALL_TIMEOUT_S)
    assert cause in str(raised.value)


def test_a_snapshot_of_which_a_later_page_failed_is_unavailable(
    proxy: FaultProxy, table: str, tmp_path: Path, ministack: Engine
) -> None:
    store = open_store(proxy.url(table), tmp_path, CALL_TIMEOUT_S)
    store.initialize()
    row = {"epoch": 5, "beat": 9, "nonce": "n", "duration_ms": 1000, "checkpoint": "x" * 2048}
    plant(ministack.url(table), [{"lease": f"trades/{number}", **row} for number in range(700)])
    scans = proxy.count("Scan")
    proxy.fault = Reply(faults.throttled(), Pick("Scan", lambda body: b"ExclusiveStartKey" in body))
    with pytest.raises(Unavailable, match="throttled"):
        store.snapshot(5.0)
    assert proxy.count("Scan") == scans + 2
    proxy.fault = None
    with pytest.raises(Unavailable, match="not complete in time"):
        store.snapshot(0.0)
    assert len(store.snapshot(5.0).leases) == 700
    store.close()


def test_a_trickling_body_holds_one_call_and_not_the_others(
    proxy: FaultProxy, store: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.TrickleBody(CALL_TIMEOUT_S / 3, Pick(when=lambda body: b"stuck" in body))
    outcomes: list[Outcome] = []
    stuck = threading.Thread(
        target=lambda: outcomes.append(store.apply(renew(rows[0], nonce="stuck"), CALL_TIMEOUT_S)), daemon=True
    )
    stuck.start()
    until(lambda: any(b"stuck" in seen.body for seen in proxy.seen("UpdateItem")), 5)
    assert store.renew([renew(row) for row in rows[1:]], CALL_TIMEOUT_S) == [Applied()] * 2
    assert store.read(rows[1].shard, CALL_TIMEOUT_S) is not None
    assert stuck.is_alive()
    proxy.stop_listening()
    stuck.join(5)
    proxy.listen()
    assert isinstance(outcomes[0], Unknown)


# --- the probe --------------------------------------------------------------------------------------------


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


def test_an_engine_that_ignores_conditions_is_unfit(proxy: FaultProxy, store: DynamoStore) -> None:
    proxy.fault = Rewrite(without_condition, Pick("UpdateItem", lambda body: b"ConditionExpression" in body))
    with pytest.raises(Unfit, match="applies a write whose condition is false"):
        store.prove(member(), CALL_TIMEOUT_S)


def test_an_engine_that_ignores_a_part_of_a_condition_is_unfit(proxy: FaultProxy, store: DynamoStore) -> None:
    def without_range(body: bytes) -> bytes:
        call = json.loads(body)
        call["ConditionExpression"] = re.sub(r"(#\d+) BETWEEN :\d+", r"\1 >= :0", call["ConditionExpression"])
        call["ConditionExpression"] = re.sub(r"(#\d+) >= :0 AND (:\d+)", r"\1 <= \2", call["ConditionExpression"])
        low = next(name for name, value in call["ExpressionAttributeValues"].items() if "N" in value)
        del call["ExpressionAttributeValues"][low]
        return json.dumps(call).encode()

    proxy.fault = Rewrite(without_range, Pick("UpdateItem", lambda body: b"BETWEEN" in body))
    with pytest.raises(Unfit, match="applies a write whose condition is false"):
        store.prove(member(), CALL_TIMEOUT_S)


def test_an_engine_that_ignores_conditions_of_statements_is_used_without_batches(
    proxy: FaultProxy, store: DynamoStore
) -> None:
    assert store.batch == 25
    proxy.fault = Rewrite(without_extra_conditions, Pick("BatchExecuteStatement"))
    store.prove(member(), CALL_TIMEOUT_S)
    assert store.batch == 1
    assert store.snapshot(5.0, full=True).members[ME] == member()


def test_an_engine_that_answers_batches_and_does_nothing_is_used_without_them(
    proxy: FaultProxy, store: DynamoStore
) -> None:
    applied = faults.Answer(200, json.dumps({"Responses": [{"TableName": "t"}]}).encode())
    refusal = {"Error": {"Code": "ConditionalCheckFailed", "Message": "no"}}
    refused = faults.Answer(200, json.dumps({"Responses": [refusal]}).encode())
    truth = Pick("BatchExecuteStatement", lambda body: b"probe of batches" in body)
    proxy.faults = (Reply(applied, truth), Reply(refused, Pick("BatchExecuteStatement")))
    store.prove(member(), CALL_TIMEOUT_S)
    assert store.batch == 1


def test_a_late_put_of_an_earlier_probe_spoils_the_probe_but_not_the_verdict(
    proxy: FaultProxy, store: DynamoStore
) -> None:
    def put_again(body: bytes) -> bytes:
        store.apply(PutMember(member()), CALL_TIMEOUT_S)
        return body

    proxy.fault = Rewrite(put_again, Pick("GetItem"))
    with pytest.raises(Unavailable, match="was put again during the probe"):
        store.prove(member(), CALL_TIMEOUT_S)


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnknownOperationException", "ValidationException"])
def test_batches_that_the_engine_or_its_permissions_do_not_know_are_not_used(
    code: str, proxy: FaultProxy, store: DynamoStore
) -> None:
    proxy.fault = Reply(faults.error(code), Pick("BatchExecuteStatement"))
    store.prove(member(), CALL_TIMEOUT_S)
    assert store.batch == 1


@pytest.mark.parametrize("operation", ["UpdateItem", "GetItem", "BatchExecuteStatement"])
@pytest.mark.parametrize("fault", [faults.Close, lambda pick: Reply(faults.throttled(), pick)])
def test_a_probe_that_cannot_reach_the_engine_says_so_and_can_be_repeated(
    operation: str, fault: type[faults.Close], proxy: FaultProxy, store: DynamoStore
) -> None:
    proxy.fault = fault(Pick(operation))
    with pytest.raises(Unavailable, match=operation):
        store.prove(member(), CALL_TIMEOUT_S)
    proxy.fault = None
    store.prove(member(), CALL_TIMEOUT_S)
    assert store.batch == 25


def test_every_write_of_a_probe_goes_to_our_own_row(proxy: FaultProxy, store: DynamoStore) -> None:
    before = proxy.count()
    store.prove(member(), CALL_TIMEOUT_S)
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
    fault: faults.Fault, proxy: FaultProxy, store: DynamoStore
) -> None:
    proxy.fault = fault
    with pytest.raises(Unavailable, match="DescribeTable"):
        store.inspect(CALL_TIMEOUT_S)


def test_a_member_put_without_a_proving_answer_is_unknown(proxy: FaultProxy, store: DynamoStore) -> None:
    proxy.fault = Reply(faults.html())
    assert isinstance(store.apply(PutMember(member()), CALL_TIMEOUT_S), Unknown)


def test_deletion_protection_is_on_where_the_engine_knows_it(
    ministack: Engine, store: DynamoStore, one_table: str
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
