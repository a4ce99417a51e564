"""DynamoDB behind a network that misbehaves: every fault becomes the right outcome, and no write is sent twice."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.records import Lease
from supervisor.stores.dynamodb import DynamoStore
from supervisor.stores.interface import Denied, Unavailable
from supervisor.stores.location import open_store
from supervisor.writes import Applied, Forget, Outcome, PutMember, Refused, Unknown, after_claim
from tests import faults
from tests.contract.rows import (
    CALL_TIMEOUT_S,
    ME,
    OTHER,
    TIMEOUT_S,
    claim,
    create,
    depose,
    member,
    pause,
    plant,
    raw_item,
    renew,
    wish,
)
from tests.engines import Engine
from tests.faults import Pick, Reply
from tests.proxy import FaultProxy
from tests.wait import until


@pytest.fixture
def rows(proved: DynamoStore, patient_store: DynamoStore) -> list[Lease]:
    """Three leases of ours, of no other test."""
    stream = secrets.token_hex(4)
    return [claimed(patient_store, f"{stream}/{number}") for number in range(3)]


def claimed(store: DynamoStore, shard: str) -> Lease:
    created = store.apply(create(shard), TIMEOUT_S)
    assert isinstance(created, Applied)
    assert created.row is not None
    outcome = store.apply(claim(created.row), TIMEOUT_S)
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
    proved: DynamoStore,
    rows: list[Lease],
    ministack: Engine,
    one_table: str,
) -> None:
    sent = proxy.count()
    proxy.fault = fault
    outcome = proved.apply(renew(rows[0]), CALL_TIMEOUT_S)
    assert_unknown(outcome, cause)
    assert proxy.count() == sent + 1
    proxy.fault = None
    assert beat_in(ministack, one_table, rows[0]) == (1 if lands else 0)
    # Whether it landed or not, the next attempt keeps the lease.
    assert proved.apply(renew(rows[0], beat_high=1, beat=2, nonce="next"), CALL_TIMEOUT_S) == Applied()


@pytest.mark.parametrize(("fault", "lands", "cause"), SILENT)
def test_a_batch_without_a_proving_answer_is_unknown_for_all_and_was_sent_once(
    fault: faults.Fault,
    lands: bool,
    cause: str,
    proxy: FaultProxy,
    proved: DynamoStore,
    rows: list[Lease],
    ministack: Engine,
    one_table: str,
) -> None:
    sent = proxy.count()
    proxy.fault = fault
    outcomes = proved.renew([renew(row) for row in rows], CALL_TIMEOUT_S)
    assert len(outcomes) == len(rows)
    for outcome in outcomes:
        assert_unknown(outcome, cause)
    assert proxy.count() == sent + 1
    proxy.fault = None
    assert [beat_in(ministack, one_table, row) for row in rows] == [1 if lands else 0] * len(rows)
    again = [renew(row, beat_high=1, beat=2, nonce=f"next {row.shard}") for row in rows]
    assert proved.renew(again, CALL_TIMEOUT_S) == [Applied()] * len(rows)


def assert_unknown(outcome: Outcome, cause: str) -> None:
    assert isinstance(outcome, Unknown)
    assert cause in outcome.cause
    assert not outcome.unsent
    assert len(outcome.cause) < 200
    assert "test-secret-key" not in outcome.cause


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_batch_answered_with_another_number_of_responses_is_unknown_for_all(
    count: int, proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    body = json.dumps({"Responses": [{"TableName": "t"}] * count}).encode()
    proxy.fault = Reply(faults.Answer(200, body), forwarded=True)
    assert all(isinstance(outcome, Unknown) for outcome in proved.renew([renew(row) for row in rows], CALL_TIMEOUT_S))


def test_a_statement_of_a_batch_that_fails_otherwise_is_unknown_for_itself_alone(
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    busy = {"Error": {"Code": "ProvisionedThroughputExceeded", "Message": "slow down"}}
    body = json.dumps({"Responses": [{"TableName": "t"}, busy, {"Error": {}}]}).encode()
    proxy.fault = Reply(faults.Answer(200, body))
    applied, throttled, junk = proved.renew([renew(row) for row in rows], CALL_TIMEOUT_S)
    assert applied == Applied()
    assert isinstance(throttled, Unknown)
    assert "throttled" in throttled.cause
    assert isinstance(junk, Unknown)


def test_an_answer_that_carries_another_nonce_proves_nothing(
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = Reply(faults.Answer(200, json.dumps({"Attributes": {"nonce": {"S": "another"}}}).encode()))
    assert isinstance(proved.apply(renew(rows[0]), CALL_TIMEOUT_S), Unknown)


@pytest.mark.parametrize(("fault", "lands", "cause"), SILENT)
def test_a_wish_without_a_proving_answer_is_unknown_and_was_sent_once(
    fault: faults.Fault,
    lands: bool,
    cause: str,
    proxy: FaultProxy,
    proved: DynamoStore,
    rows: list[Lease],
    ministack: Engine,
    one_table: str,
) -> None:
    sent = proxy.count()
    proxy.fault = fault
    assert_unknown(proved.apply(wish(rows[0], OTHER), CALL_TIMEOUT_S), cause)
    assert proxy.count() == sent + 1
    item = raw_item(ministack.url(one_table), rows[0].shard)
    assert item.get("move") == ({"S": OTHER} if lands else None)


@pytest.mark.parametrize(
    "forged",
    [
        {"lease": {"S": "another"}},
        {"lease": None},
        {"owner": {"S": OTHER}},
        {"owner": None},
        {"epoch": {"N": "9"}},
        {"epoch": None},
        {"move": {"S": "any"}, "paused": {"BOOL": False}},
        {"move": None, "paused": None},
        {"move": {"BOOL": True}, "paused": {"S": "true"}},
    ],
    ids=str,
)
def test_an_answer_that_does_not_carry_the_row_as_seen_with_the_wish_in_it_proves_nothing(
    forged: dict[str, dict[str, str] | None], proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    row = rows[0]
    seen = {"lease": {"S": row.shard}, "owner": {"S": ME}, "epoch": {"N": "8"}}
    wished = {"move": {"S": OTHER}, "paused": {"BOOL": True}}
    for write in (wish(row, OTHER), pause(row)):
        answer_with(proxy, seen | wished)
        assert proved.apply(write, CALL_TIMEOUT_S) == Applied()
        answer_with(proxy, seen | wished | forged)
        assert isinstance(proved.apply(write, CALL_TIMEOUT_S), Unknown)
    for write in (wish(row, None), pause(row, False)):
        answer_with(proxy, seen)
        assert proved.apply(write, CALL_TIMEOUT_S) == Applied()
        answer_with(proxy, seen | wished)
        assert isinstance(proved.apply(write, CALL_TIMEOUT_S), Unknown)


def answer_with(proxy: FaultProxy, attributes: Mapping[str, object]) -> None:
    present = {name: value for name, value in attributes.items() if value is not None}
    proxy.fault = Reply(faults.Answer(200, json.dumps({"Attributes": present}).encode()))


def test_a_forced_write_is_proven_by_what_only_it_can_have_left_or_found(
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    row = rows[0]
    deposition, forget = depose(row), Forget(row.shard, row.epoch)
    found = {"lease": {"S": row.shard}, "epoch": {"N": str(row.epoch)}}
    for write, proof, none in (
        (deposition, {"nonce": {"S": deposition.nonce}}, {"nonce": {"S": row.nonce}}),
        (forget, found, found | {"epoch": {"N": "1"}}),
        (forget, found, {}),
    ):
        answer_with(proxy, proof)
        assert proved.apply(write, CALL_TIMEOUT_S) == Applied()
        answer_with(proxy, none)
        assert isinstance(proved.apply(write, CALL_TIMEOUT_S), Unknown)


@pytest.mark.parametrize("operation", ["UpdateItem", "PartiQLUpdate"])
def test_a_denied_action_is_named(operation: str, proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]) -> None:
    proxy.fault = Reply(faults.access_denied(operation))
    outcome = proved.renew([renew(row) for row in rows], CALL_TIMEOUT_S)[0]
    assert isinstance(outcome, Unknown)
    assert f"dynamodb:{operation} is not permitted" in outcome.cause
    assert outcome.denied
    for look in (proved.snapshot, lambda timeout_s: proved.read(rows[0].shard, timeout_s)):
        with pytest.raises(Denied):
            look(CALL_TIMEOUT_S)


def test_a_refused_connection_is_unknown_and_certainly_unsent(
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.stop_listening()
    outcome = until_unsent(proved, rows[0])
    assert "cannot connect" in outcome.cause
    with pytest.raises(Unavailable, match="cannot connect"):
        proved.snapshot(CALL_TIMEOUT_S)
    proxy.listen()
    assert proved.apply(renew(rows[0]), CALL_TIMEOUT_S) == Applied()


def until_unsent(store: DynamoStore, row: Lease) -> Unknown:
    """The first attempt may still find the closed connection in the pool."""
    for _ in range(3):
        outcome = store.apply(renew(row), CALL_TIMEOUT_S)
        assert isinstance(outcome, Unknown)
        if outcome.unsent:
            return outcome
    raise AssertionError(outcome)


def test_a_renewal_that_a_proxy_sends_twice_is_refused_by_its_own_nonce(
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.Duplicate()
    write = renew(rows[0])
    outcome = proved.apply(write, CALL_TIMEOUT_S)
    assert isinstance(outcome, Refused)
    assert outcome.row is not None
    assert (outcome.row.nonce, outcome.row.beat) == (write.nonce, 1)
    batch = [renew(replace(row, beat=beat)) for row, beat in zip(rows, (1, 0, 0), strict=True)]
    for write, refused in zip(batch, proved.renew(batch, CALL_TIMEOUT_S), strict=True):
        assert isinstance(refused, Refused)
        assert refused.row is not None
        assert refused.row.nonce == write.nonce


def test_a_late_renewal_that_lands_after_the_next_one_changes_nothing(
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease], ministack: Engine, one_table: str
) -> None:
    held = faults.HoldRequests(Pick(when=lambda body: b"first attempt" in body))
    proxy.fault = held
    late = renew(rows[0], nonce="first attempt", checkpoint="older")
    assert isinstance(proved.apply(late, CALL_TIMEOUT_S), Unknown)
    newer = renew(rows[0], beat_high=1, beat=2, nonce="second attempt", checkpoint="newer")
    assert proved.apply(newer, CALL_TIMEOUT_S) == Applied()
    held.release()
    until(lambda: held.landed, 5)
    assert held.landed[0].status == 400
    item = raw_item(ministack.url(one_table), rows[0].shard)
    assert (item["beat"]["N"], item["checkpoint"]["S"]) == ("2", "newer")


@pytest.mark.parametrize("lost_in_a_row", [1, 7])
def test_renewals_whose_answers_are_lost_for_ever_and_ever_never_lose_the_lease(
    lost_in_a_row: int, proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.EatAnswers(Pick(when=lambda body: b"lost" in body))
    applied = 0
    for beat in range(1, 500):
        lost = beat % (lost_in_a_row + 1) != 0
        nonce = f"{'lost' if lost else 'heard'} {beat}"
        attempt = renew(
            rows[0], beat_low=applied, beat_high=beat - 1, beat=beat, nonce=nonce, checkpoint=f"token {beat}"
        )
        outcome = proved.apply(attempt, CALL_TIMEOUT_S)
        if lost:
            assert isinstance(outcome, Unknown)
        else:
            assert outcome == Applied()
            applied = beat
    row = proved.read(rows[0].shard, CALL_TIMEOUT_S)
    assert row is not None
    assert (row.owner, row.epoch, row.beat, row.checkpoint) == (ME, rows[0].epoch, 499, "token 499")


def test_a_claim_whose_answer_was_lost_is_unknown_and_can_be_read(
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.EatAnswers(Pick("UpdateItem"))
    write = claim(rows[0], owner=OTHER)
    assert isinstance(proved.apply(write, CALL_TIMEOUT_S), Unknown)
    assert proved.read(rows[0].shard, CALL_TIMEOUT_S) == after_claim(rows[0], write)


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
    fault: faults.Fault, lands: bool, cause: str, proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = fault
    with pytest.raises(Unavailable) as raised:
        proved.read(rows[0].shard, CALL_TIMEOUT_S)
    assert cause in str(raised.value)


@pytest.mark.parametrize(("fault", "lands", "cause"), SILENT)
def test_a_snapshot_without_a_proving_answer_is_unavailable_and_never_empty(
    fault: faults.Fault, lands: bool, cause: str, proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = fault
    with pytest.raises(Unavailable) as raised:
        proved.snapshot(CALL_TIMEOUT_S)
    assert cause in str(raised.value)


@pytest.mark.parametrize(
    "junk", [None, 1, "row", [], {}, {"epoch": {"N": "1"}}, {"lease": None}, {"lease": {"N": "1"}}]
)
def test_a_snapshot_with_something_that_is_no_row_is_unavailable_and_no_row_counts_as_missing(
    junk: object, proxy: FaultProxy, proved: DynamoStore
) -> None:
    items = [{"lease": {"S": "trades/0"}}, junk]
    proxy.fault = Reply(faults.Answer(200, json.dumps({"Items": items, "Count": 2, "ScannedCount": 2}).encode()))
    with pytest.raises(Unavailable, match="the answer proves nothing"):
        proved.snapshot(CALL_TIMEOUT_S)


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
    proxy: FaultProxy, proved: DynamoStore, rows: list[Lease]
) -> None:
    proxy.fault = faults.TrickleBody(CALL_TIMEOUT_S / 3, Pick(when=lambda body: b"stuck" in body))
    outcomes: list[Outcome] = []
    stuck = threading.Thread(
        target=lambda: outcomes.append(proved.apply(renew(rows[0], nonce="stuck"), CALL_TIMEOUT_S)), daemon=True
    )
    stuck.start()
    until(lambda: any(b"stuck" in seen.body for seen in proxy.seen("UpdateItem")), 5)
    assert proved.renew([renew(row) for row in rows[1:]], CALL_TIMEOUT_S) == [Applied()] * 2
    assert proved.read(rows[1].shard, CALL_TIMEOUT_S) is not None
    assert stuck.is_alive()
    proxy.stop_listening()
    stuck.join(5)
    proxy.listen()
    assert isinstance(outcomes[0], Unknown)


def test_a_member_put_without_a_proving_answer_is_unknown(proxy: FaultProxy, proved: DynamoStore) -> None:
    proxy.fault = Reply(faults.html())
    assert isinstance(proved.apply(PutMember(member()), CALL_TIMEOUT_S), Unknown)
