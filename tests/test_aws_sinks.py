"""The kinesis and sqs sinks against a local engine, behind a proxy that breaks things."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.aws_ends import FailEntries, FailRecords, InTurn, Queue, Stream
from tests.engines import Engine
from tests.far_ends import Enough, InThread, Naps, Told, batches, context, names, numbers
from tests.faults import (
    Answer,
    Close,
    CutBody,
    EatAnswers,
    Fault,
    Hang,
    Reply,
    TrickleBody,
    access_denied,
    error,
    expired_token,
    html,
    server_error,
    throttled,
    wrong_clock,
)
from tests.proxy import FaultProxy
from tests.sinks import batch
from tests.wait import until
from workers.sinks import kinesis, sqs
from workers.sinks.choice import sink_of
from workers.sinks.interface import BadSink
from workers.sinks.outcome import Again, Partly, Safe, Unfit
from workers.sinks.sqs import body_of, group_of

TIMEOUT_MS = 2000
POLICY = Path(__file__).resolve().parents[1] / "etc" / "aws" / "policy-sinks.json"


@pytest.fixture(scope="module")
def one_proxy(ministack: Engine) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.port) as running:
        yield running


@pytest.fixture
def proxy(one_proxy: FaultProxy) -> Iterator[FaultProxy]:
    yield one_proxy
    one_proxy.faults = ()


@pytest.fixture
def stream(ministack: Engine) -> Stream:
    return Stream(ministack.endpoint_url)


@pytest.fixture
def queue(ministack: Engine) -> Queue:
    return Queue(ministack.endpoint_url)


@pytest.fixture
def fifo(ministack: Engine) -> Queue:
    return Queue(ministack.endpoint_url, fifo=True)


class Rig:
    """A sink that never really waits between requests."""

    def __init__(
        self, text: str, most: int = 1_000_000, shard: str = "trades/7", sleep: Any = None, **spec: Any
    ) -> None:
        self.naps = sleep or Naps(most)
        self.report = Told(self.naps)
        given = {"sink_timeout_ms": TIMEOUT_MS, **spec}
        self.sink = sink_of(text, context(self.report, shard, **given), pytest.fail)
        self.sink.open()

    def write(self, events: int = 20) -> None:
        self.sink.write(batches(events))
        self.sink.flush()


def in_order(found: list[int]) -> list[int]:
    """What a consumer has that takes an event only when it follows the last one."""
    taken: list[int] = []
    for number in found:
        if number == len(taken) + 1:
            taken.append(number)
    return taken


# --- kinesis ------------------------------------------------------------------------------------------------


def test_events_are_records_in_order_in_one_shard_of_the_stream_under_the_name_of_theirs(
    stream: Stream, proxy: FaultProxy
) -> None:
    before = proxy.count("PutRecords")
    rig = Rig(stream.sink(proxy.endpoint_url))
    rig.write(1200)
    records = stream.records()
    assert names([record["Data"] for record in records]) == [("trades/7", 12, seq) for seq in range(1, 1201)]
    assert {record["PartitionKey"] for record in records} == {"trades/7"}
    assert all(record["Data"].endswith(b"}\n") for record in records)
    assert proxy.count("PutRecords") - before == 3
    assert rig.report.retries == []


def test_a_request_has_a_mebibyte_at_most(stream: Stream, proxy: FaultProxy) -> None:
    before = proxy.count("PutRecords")
    Rig(stream.sink(proxy.endpoint_url)).sink.write([batch("a" * 500_000, "b" * 500_000, "c" * 500_000)])
    sent = [len(json.loads(seen.body)["Records"]) for seen in proxy.seen("PutRecords")[before:]]
    assert sent == [2, 1]
    assert numbers(stream.lines()) == [1, 2, 3]


def test_after_a_failure_of_some_records_all_from_the_first_of_them_on_come_again_in_order(
    stream: Stream, proxy: FaultProxy
) -> None:
    proxy.fault = InTurn([FailRecords((3, 7)), FailRecords(tuple(range(17))), FailRecords((0, 16), "InternalFailure")])
    rig = Rig(stream.sink(proxy.endpoint_url))
    rig.write(20)
    found = numbers(stream.lines())
    assert in_order(found) == list(range(1, 21))
    assert found[:18] == [1, 2, 3, 5, 6, 7, *range(9, 21)]
    assert rig.report.retries == [
        f"ProvisionedThroughputExceededException for 2 of 20 events from kinesis stream {stream.name}",
        f"ProvisionedThroughputExceededException for 17 of 17 events from kinesis stream {stream.name}",
        f"InternalFailure for 2 of 17 events from kinesis stream {stream.name}",
    ]


def test_a_record_that_the_stream_does_not_take_is_named_and_waits_behind_all_before_it(
    stream: Stream, proxy: FaultProxy
) -> None:
    rig = Rig(stream.sink(proxy.endpoint_url), most=2, sink_timeout_ms=5000)
    with pytest.raises(Enough):
        rig.sink.write([batch("a", "b", "c" * 1_100_000, "d")])
    assert numbers(stream.lines()) == [1, 2]
    assert "ValidationException from kinesis stream" in rig.report.retries[-1]
    assert "to event 3 alone (11001" in rig.report.retries[-1]
    assert min(rig.naps.seconds) >= 60


def test_a_stream_that_is_missing_is_told_and_used_as_soon_as_it_is_there(ministack: Engine, proxy: FaultProxy) -> None:
    stream = Stream(ministack.endpoint_url, create=False)
    report_pauses: list[float] = []

    def create(seconds: float) -> None:
        report_pauses.append(seconds)
        stream.create()
        until(lambda: stream.lines() == [], 10)

    rig = Rig(stream.sink(proxy.endpoint_url), sleep=create)
    rig.write(3)
    assert numbers(stream.lines()) == [1, 2, 3]
    assert rig.report.retries == [f"ResourceNotFoundException from kinesis stream {stream.name}"]
    assert report_pauses[0] >= 60


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({}, "none"),
        ({"Records": [{"SequenceNumber": "1"}]}, "none"),
        ({"Records": [{"SequenceNumber": "1"}] * 3}, "none"),
        ({"Records": [{"SequenceNumber": "1"}] * 2}, Safe()),
        ({"FailedRecordCount": 0, "Records": [{"SequenceNumber": "1"}, {}]}, Partly((1,), "error for 1 of 2 events")),
        ({"Records": [{"ErrorCode": "X"}, {"SequenceNumber": "1"}]}, Partly((0, 1), "X for 1 of 2 events")),
    ],
)
def test_only_an_answer_that_speaks_of_each_record_proves_anything(answer: dict[str, Any], outcome: Any) -> None:
    found = kinesis.outcome_of(answer, 2)
    assert isinstance(found, Again) if outcome == "none" else found == outcome


# --- sqs ----------------------------------------------------------------------------------------------------


def test_events_are_messages_ten_in_a_request_whose_bodies_are_their_lines(queue: Queue, proxy: FaultProxy) -> None:
    before = proxy.count("SendMessageBatch")
    rig = Rig(queue.sink(proxy.endpoint_url))
    rig.write(25)
    lines = queue.lines()
    assert sorted(names(lines)) == [("trades/7", 12, seq) for seq in range(1, 26)]
    assert not any(line.endswith(b"\n") for line in lines)
    assert proxy.count("SendMessageBatch") - before == 3
    assert rig.report.retries == []


def test_a_fifo_queue_has_all_in_order_in_the_group_of_the_shard_under_ids_that_make_copies_known(
    fifo: Queue, proxy: FaultProxy
) -> None:
    proxy.fault = InTurn([EatAnswers(), EatAnswers()])
    rig = Rig(fifo.sink(proxy.endpoint_url))
    rig.write(25)
    messages = fifo.messages()
    assert numbers([message["Body"].encode() for message in messages]) == list(range(1, 26))
    assert {message["Attributes"]["MessageGroupId"] for message in messages} == {"trades/7"}
    assert [message["Attributes"]["MessageDeduplicationId"] for message in messages[:2]] == [
        "trades/7/12/1",
        "trades/7/12/2",
    ]
    assert len(rig.report.retries) == 2


def test_messages_that_failed_are_sent_again_alone_and_in_order(fifo: Queue, proxy: FaultProxy) -> None:
    proxy.fault = InTurn([FailEntries(lambda place, _: place in (2, 5, 6)), FailEntries(lambda place, _: place == 1)])
    before = proxy.count("SendMessageBatch")
    rig = Rig(fifo.sink(proxy.endpoint_url))
    rig.write(10)
    sent = [
        numbers([entry["MessageBody"].encode() for entry in json.loads(seen.body)["Entries"]])
        for seen in proxy.seen("SendMessageBatch")[before:]
    ]
    assert sent == [list(range(1, 11)), [3, 6, 7], [6]]
    assert sorted(numbers(fifo.lines())) == list(range(1, 11))
    assert rig.report.retries[0] == f"InternalError for 3 of 10 events from sqs queue {fifo.name}"


def test_a_message_that_is_at_fault_itself_is_named_and_the_others_are_not_held_up_by_it(
    queue: Queue, proxy: FaultProxy
) -> None:
    proxy.fault = FailEntries(lambda _, body: '"data":"4 ' in body, "AWS.SimpleQueueService.InvalidMessage", True)
    rig = Rig(queue.sink(proxy.endpoint_url), most=2)
    with pytest.raises(Enough):
        rig.write(10)
    assert sorted(numbers(queue.lines())) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert rig.report.retries[-1].startswith(f"InvalidMessage from sqs queue {queue.name}, to event 4 alone (")
    assert rig.naps.seconds[-1] >= 60


def test_a_request_has_256_kib_at_most_and_one_that_is_too_long_is_halved(queue: Queue, proxy: FaultProxy) -> None:
    before = proxy.count("SendMessageBatch")
    too_long = Reply(error("AWS.SimpleQueueService.BatchRequestTooLong"))
    proxy.fault = InTurn([too_long])
    rig = Rig(queue.sink(proxy.endpoint_url))
    rig.sink.write([batch(*["x" * 60_000] * 8)])
    sent = [len(json.loads(seen.body)["Entries"]) for seen in proxy.seen("SendMessageBatch")[before:]]
    assert sent == [4, 2, 2, 4]
    assert sorted(numbers(queue.lines())) == list(range(1, 9))
    assert rig.naps.seconds == []


def test_every_text_arrives_also_what_the_service_refuses_as_it_is(queue: Queue, proxy: FaultProxy) -> None:
    texts = ["\ufffe\uffff", "\x00\x01\x1f\x7f\x85", "\ud800", "\U0001f389\u2028", "\t\r\n", '"\\']
    rig = Rig(queue.sink(proxy.endpoint_url))
    rig.sink.write([batch(*texts)])
    assert rig.report.retries == []
    bodies = [line.decode() for line in queue.lines()]
    assert sorted(json.loads(body)["data"] for body in bodies) == sorted(texts)
    assert not set("".join(bodies)) & {"\ufffe", "\uffff", "\n", "\r", "\x00", "\x1f"}


def test_ids_of_a_long_shard_fit_and_differ() -> None:
    long = ["x" * 64 + "/" + "y" * 63 + last for last in "ab"]
    assert group_of("trades/7") == "trades/7"
    assert len({group_of(shard) for shard in long}) == 2
    assert all(len(f"{group_of(shard)}/{2**63}/{2**63}") <= 128 for shard in long)


def test_an_escape_is_made_only_where_one_is_needed() -> None:
    assert body_of(b'{"data":"a"}\n') == '{"data":"a"}'
    assert json.loads(body_of('{"data":"\uffff\\\\uffff"}\n'.encode()))["data"] == "\uffff\\uffff"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({}, "none"),
        ({"Successful": [{"Id": "0"}]}, "none"),
        ({"Successful": [{"Id": "0"}, {"Id": "0"}]}, "none"),
        ({"Successful": [{"Id": "0"}, {"Id": "1"}], "Failed": [{"Id": "1"}]}, "none"),
        ({"Successful": [{"Id": "1"}, {"Id": "0"}]}, Safe()),
        ({"Successful": [{"Id": "0"}], "Failed": [{"Id": "1", "Code": "A.B"}]}, Partly((1,), "B for 1 of 2 events")),
        ({"Failed": [{"Id": "1", "Code": "B", "SenderFault": True}, {"Id": "0", "SenderFault": True}]}, Unfit("error")),
        (
            {"Failed": [{"Id": "1", "SenderFault": True}, {"Id": "0", "Code": "Throttled", "SenderFault": True}]},
            Partly((0, 1), "Throttled for 2 of 2 events"),
        ),
    ],
)
def test_only_an_answer_that_speaks_of_each_message_proves_anything(answer: dict[str, Any], outcome: Any) -> None:
    found = sqs.outcome_of(answer, 2)
    assert isinstance(found, Again) if outcome == "none" else found == outcome


# --- both ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=["kinesis", "sqs"])
def end(request: pytest.FixtureRequest) -> Stream | Queue:
    found: Stream | Queue = request.getfixturevalue("stream" if request.param == "kinesis" else "queue")
    return found


@pytest.mark.parametrize(
    ("fault", "reason", "slow"),
    [
        (Reply(server_error()), "InternalServerError", False),
        (Reply(throttled()), "ProvisionedThroughputExceededException", False),
        (Reply(error("KMSThrottlingException")), "KMSThrottlingException", False),
        (Reply(access_denied("x")), "AccessDeniedException", True),
        (Reply(expired_token()), "ExpiredTokenException", False),
        (Reply(wrong_clock()), "InvalidSignatureException", True),
        (Reply(html()), "no proper answer (", False),
        (Reply(Answer(200, b"{}")), "no proper answer (", False),
        (Reply(Answer(200, b"\xff\xfe{")), "no proper answer (", False),
        (Reply(Answer(503, b"busy", "text/plain")), "503", False),
        (Close(), "no answer", False),
        (CutBody(), "no ", False),
        (EatAnswers(), "no answer", False),
        (Hang(), "no answer", False),
        (TrickleBody(0.05), "no answer", False),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_whatever_goes_wrong_lets_nothing_go_is_told_by_its_code_and_ends_within_the_limit(
    end: Stream | Queue, proxy: FaultProxy, fault: Fault, reason: str, slow: bool
) -> None:
    proxy.fault = InTurn([fault])
    rig = Rig(end.sink(proxy.endpoint_url))
    began = time.monotonic()
    rig.write(9)
    assert time.monotonic() - began < 4
    assert sorted(set(numbers(end.lines()))) == list(range(1, 10))
    (told,) = rig.report.retries
    assert told.startswith(reason)
    assert end.name in told
    assert "assumed-role" not in told
    assert (rig.naps.seconds[0] >= 60) == slow


def test_a_call_is_sent_once_per_attempt(end: Stream | Queue, proxy: FaultProxy) -> None:
    before = proxy.count()
    proxy.fault = InTurn([Reply(server_error()), Hang(), Close()])
    Rig(end.sink(proxy.endpoint_url)).write(5)
    assert proxy.count() - before == 4


def test_credentials_that_are_refused_are_looked_for_anew(
    end: Stream | Queue, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    steps = [("old", "old-token"), ("new", "new-token")]

    def issue(_: float) -> None:
        key, token = steps.pop(0)
        lines = [f"aws_access_key_id = {key}", "aws_secret_access_key = s", f"aws_session_token = {token}"]
        file.write_text("\n".join(["[default]", *lines, ""]))

    before = proxy.count()
    proxy.fault = InTurn([Reply(expired_token())])
    rig = Rig(end.sink(proxy.endpoint_url), sleep=issue, sink_timeout_ms=5000)
    rig.write(3)
    assert [reason.partition(" from ")[0] for reason in rig.report.retries] == [
        "no AWS credentials",
        "ExpiredTokenException",
    ]
    assert [seen.token for seen in proxy.seen()[before:]] == ["old-token", "new-token"]


def test_a_sink_without_a_region_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, stream: Stream) -> None:
    rig = Rig(f"kinesis:{stream.name}", most=1)
    with pytest.raises(Enough):
        rig.write(1)
    assert "no region (add ?region=eu-west-1 to the sink, or set AWS_REGION)" in rig.report.retries[0]


def test_the_region_of_the_environment_is_taken(
    monkeypatch: pytest.MonkeyPatch, stream: Stream, proxy: FaultProxy
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    Rig(f"kinesis:{stream.name}?endpoint_url={proxy.endpoint_url}").write(2)
    assert numbers(stream.lines()) == [1, 2]


def test_calls_that_hang_hold_a_bounded_number_of_threads(end: Stream | Queue, proxy: FaultProxy) -> None:
    proxy.fault = TrickleBody(0.005)
    rig = Rig(end.sink(proxy.endpoint_url), sink_timeout_ms=100)
    before = proxy.count()
    writing = InThread(lambda: rig.write(4))
    until(lambda: any("calls before this one still hang" in reason for reason in rig.report.retries), 20)
    assert proxy.count() - before <= 8
    proxy.faults = ()
    writing.result()


def test_the_policy_for_sinks_allows_what_they_call_and_no_action_more(
    stream: Stream, queue: Queue, proxy: FaultProxy
) -> None:
    before = proxy.count()
    for end in (stream, queue):
        Rig(end.sink(proxy.endpoint_url)).write(1)
    made = {seen.operation for seen in proxy.seen()[before:]}
    allowed = {statement["Action"] for statement in json.loads(POLICY.read_text())["Statement"]}
    assert made == {"PutRecords", "SendMessageBatch"}
    assert allowed == {"kinesis:PutRecords", "sqs:SendMessage"}  # which is what a batch of messages asks for, too


@pytest.mark.parametrize("text", ["kinesis:a b", "kinesis:a?x=y", "sqs:events", "sqs:https://h/1/q?region=A"])
def test_a_text_that_names_no_far_end_is_no_sink(text: str) -> None:
    with pytest.raises(BadSink):
        Rig(text)
