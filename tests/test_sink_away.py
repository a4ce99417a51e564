"""A stop while the sink is away: it is tried a few times more, at once, and not waited for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.aws_ends import Queue, Stream
from tests.child import Child, task
from tests.collector import Collector, status
from tests.engines import Engine
from tests.far_ends import InThread, numbers
from tests.faults import Reply, access_denied
from tests.feed import Feed, Peer
from tests.proxy import FaultProxy
from workers.board import EVENTS_DROPPED, MESSAGES, SINK_RETRIES, Board, Slot
from workers.handler import Connection, Handler, Message
from workers.log import Log
from workers.sinks.condition import LAST_TRIES, Condition
from workers.sinks.interface import SinkAway
from workers.troubles import Troubles

PATIENCE_S = 20  # a third of the wait before the next try
OWN = """
from tenured import Retry, Sink
class Mine(Sink):
    def write(self, events):
        with open({place!r}, "a") as file:
            print("asked", file=file)
        raise Retry("the table is away", after_s=60)
"""

CLOSES_LATER = """
from tenured import Retry, Sink
class Mine(Sink):
    def write(self, events):
        pass
    def close(self):
        raise Retry("the table is locked", after_s=60)
"""


@pytest.fixture
def slot() -> Slot:
    return Board.create().slot(0)


def condition_of(slot: Slot) -> Condition:
    return Condition(slot, Log(lambda line: None, task()), Troubles(slot))


def talk(peer: Peer) -> None:
    peer.accept()
    for number in range(1, 4):
        peer.text(json.dumps({"seq": number}))
    peer.serve()


# --- what a sink meets --------------------------------------------------------------------------------------


def test_a_stop_ends_a_wait_and_so_many_failures_after_it_are_the_last(slot: Slot) -> None:
    condition = condition_of(slot)
    condition.retrying("answer 403 from far.example:443")
    waiting = InThread(lambda: condition.pause(3600))
    condition.leave()
    waiting.result()
    for _ in range(LAST_TRIES - 1):
        condition.retrying("answer 503 from far.example:443")
        InThread(lambda: condition.pause(3600)).result()
    condition.retrying("answer 500 from far.example:443")
    with pytest.raises(SinkAway, match="answer 500 from far"):
        condition.pause(3600)


def test_whatever_goes_through_during_a_stop_gives_the_next_as_many_tries(slot: Slot) -> None:
    condition = condition_of(slot)
    condition.leave()
    for _ in range(LAST_TRIES):
        condition.retrying("no answer")
        InThread(lambda: condition.pause(3600)).result()
        condition.fine()


def test_to_leave_twice_does_no_harm(slot: Slot) -> None:
    condition = condition_of(slot)
    condition.leave()
    condition.leave()


# --- a child ------------------------------------------------------------------------------------------------


def stopped_while_away(sink: str, handler: type[Handler] | None = None, **spec: Any) -> Child:
    """A child whose sink takes nothing, and would be asked again in a minute."""
    given = {"handler": "x"} if handler else {}
    with Feed(talk) as feed, Child(task(feed.url, sink=sink, pointer="/seq", **given, **spec), handler) as child:
        child.word(SINK_RETRIES, 1)
        assert child.stop(PATIENCE_S) == 0
        assert child.slot.read_checkpoint() is None
        assert child.log("child.failed")[-1]["reason"].startswith(
            "not all events are in the sink, for which a stop does not wait: "
        )
    return child


def test_a_collector_is_not_waited_for() -> None:
    with Collector() as collector:
        collector.then(*[status(403)] * 10)
        stopped_while_away(collector.url)
        assert len(collector.posted) == 1 + LAST_TRIES


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_stop_drops_no_event_that_the_far_end_refuses_though_events_may_be_dropped(code: int) -> None:
    with Collector() as collector:
        collector.then(*[status(code)] * 100)
        child = stopped_while_away(collector.url, overflow="drop_oldest")
        assert child.words[EVENTS_DROPPED] == 0


@pytest.mark.parametrize("kind", ["kinesis", "sqs"])
def test_a_service_is_not_waited_for(ministack: Engine, kind: str) -> None:
    with FaultProxy(ministack.port) as proxy:
        far = Stream(ministack.endpoint_url) if kind == "kinesis" else Queue(ministack.endpoint_url)
        action = "kinesis:PutRecords" if kind == "kinesis" else "sqs:SendMessage"
        proxy.fault = Reply(access_denied(action))
        child = stopped_while_away(far.sink(proxy.endpoint_url))
        assert child.words[SINK_RETRIES] == 1 + LAST_TRIES
        assert far.lines() == []


def test_a_sink_of_a_users_own_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.format(place=str(tmp_path / "asked")))
    stopped_while_away(f"{tmp_path}/mine.py:Mine")
    assert (tmp_path / "asked").read_text().splitlines() == ["asked"] * (1 + LAST_TRIES)


def test_a_sink_that_would_be_closed_later_has_all_events_and_so_the_log_says(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLOSES_LATER)
    spec = {"sink": f"{tmp_path}/mine.py:Mine", "pointer": "/seq"}
    with Feed(talk) as feed, Child(task(feed.url, **spec)) as child:
        child.word(MESSAGES, 3)
        assert child.stop(PATIENCE_S) == 0
        assert child.slot.read_checkpoint() == "3"
        (told,) = child.log("child.failed")
        assert told["level"] == "WARNING"
        assert told["reason"] == (
            "the sink was not closed, for which a stop does not wait: the table is locked; all events are in it"
        )


class Pushing(Handler):
    """Fills the sink at once, and again when it is to stop."""

    def message(self, connection: Connection, message: Message) -> None:
        for _ in range(20):
            self.emit("x" * 10_000)

    def stop(self) -> None:
        self.emit("x" * 100_000)


def test_a_handler_that_waits_for_room_in_the_sink_holds_up_no_stop() -> None:
    with Collector() as collector:
        collector.then(*[status(403)] * 10)
        child = stopped_while_away(collector.url, Pushing, sink_buffer=65_536)
        assert child.words[MESSAGES] <= 3


def test_what_the_last_try_delivers_is_committed() -> None:
    with Collector() as collector:
        collector.then(status(403))
        with Feed(talk) as feed, Child(task(feed.url, sink=collector.url, pointer="/seq")) as child:
            child.word(SINK_RETRIES, 1)
            child.word(MESSAGES, 3)
            assert child.stop(PATIENCE_S) == 0
        assert numbers([line for posted in collector.posted[1:] for line in posted.lines]) == [1, 2, 3]
        assert child.slot.read_checkpoint() == "3"
        assert child.log("child.failed") == []
