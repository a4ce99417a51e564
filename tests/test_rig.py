"""The test kit for handlers: what passes in it passes in a child, since the same code calls the handler."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenured import Connection, Handler, Message, Shard
from tests.child import Child, task
from tests.feed import Feed, Peer
from workers.board import MESSAGES
from workers.handler import Timer
from workers.testing import Rig


class Recorder(Handler):
    """Writes down each call, and misbehaves when a message asks for it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def start(self, shard: Shard) -> None:
        self.calls.append(("start", shard.name, shard.stream, shard.index, shard.checkpoint, shard.connections))

    def opened(self, connection: Connection) -> None:
        self.calls.append(("opened", connection.number, connection.send("hello")))

    def message(self, connection: Connection, message: Message) -> None:
        self.calls.append((message, connection.number))
        if message == "close":
            connection.close(4000)
        elif message == "raise":
            raise ValueError("as asked")
        else:
            self.emit(message)
            self.checkpoint(str(message))

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        self.calls.append(("closed", connection.number, code, connection.send("too late")))

    def stop(self) -> None:
        self.calls.append("stop")
        self.emit("bye")


def test_a_handler_is_driven_from_its_start_to_its_stop() -> None:
    rig = Rig(Recorder, shard="trades/7", checkpoint="c", connections=2)
    rig.opened(connection=1)
    rig.receive("a", b"b", connection=1)
    rig.stop()
    assert rig.handler.calls == [
        ("start", "trades/7", "trades", "7", "c", 2),
        ("opened", 1, True),
        ("a", 1),
        (b"b", 1),
        "stop",
        ("closed", 1, 1001, False),
    ]
    assert rig.events == ["a", b"b", "bye"]
    assert rig.sent(1) == ["hello"]
    assert rig.sent(0) == []
    assert rig.ended


def test_the_kit_and_a_child_make_the_same_calls() -> None:
    messages = ["1", "raise", "2", "raise", "close", "3"]

    def behave(peer: Peer) -> None:
        peer.accept()
        for message in messages:
            peer.text(message)
        peer.serve()

    made: list[Recorder] = []

    class InAChild(Recorder):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    spec: dict[str, Any] = {"reconnect_min_ms": 60_000, "reconnect_max_ms": 60_000, "handler": "test:InAChild"}
    with Feed(behave) as feed, Child(task(feed.url, checkpoint="c", **spec), InAChild) as child:
        child.word(MESSAGES, len(messages))
        assert child.stop() == 0
        failed = child.log("handler.failed")
    rig = Rig(Recorder, shard="trades/7", checkpoint="c", collect_errors=True)
    rig.opened()
    rig.receive(*messages)
    rig.closed()
    rig.stop()
    assert [call for call in made[0].calls if call != "stop"] == [call for call in rig.handler.calls if call != "stop"]
    assert [error.first for error in rig.errors] == [record["message_number"] for record in failed] == [2, 4]


def test_an_exception_is_raised_with_the_number_of_its_message() -> None:
    rig = Rig(Recorder)
    rig.opened()
    rig.receive("fine")
    with pytest.raises(ValueError, match="as asked") as raised:
        rig.receive("fine", "raise", "fine")
    assert raised.value.__notes__ == ["about message 3 of connection 0"]
    assert rig.events == ["fine", "fine", "fine"]  # the next message goes on


def test_collected_exceptions_end_the_handler_after_so_many_in_a_row() -> None:
    rig = Rig(Recorder, handler_errors=3, collect_errors=True)
    rig.opened()
    rig.receive("raise", "raise", "fine", "raise", "raise")
    assert not rig.ended
    rig.receive("raise", "unseen")
    assert rig.ended
    assert [(error.first, error.in_a_row) for error in rig.errors] == [(1, 1), (2, 2), (4, 1), (5, 2), (6, 3)]
    assert "stop" in rig.handler.calls
    assert ("unseen", 0) not in rig.handler.calls
    with pytest.raises(ValueError, match="make a new Rig"):
        rig.receive("more")


def test_a_start_that_raises_is_raised() -> None:
    class Unready(Handler):
        def start(self, shard: Shard) -> None:
            raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        Rig(Unready)


def test_timers_fire_when_time_is_let_pass_and_not_once_they_are_cancelled() -> None:
    class Beating(Handler):
        timer: Timer

        def start(self, shard: Shard) -> None:
            self.timer = self.every(10, lambda: self.emit("beat"))
            self.every(25, self.timer.cancel)

    rig = Rig(Beating)
    rig.advance(9.9)
    assert rig.events == []
    rig.advance(0.1)
    assert rig.events == ["beat"]
    rig.advance(1000)
    assert rig.events == ["beat", "beat"]


def test_timers_fire_in_the_order_of_their_time() -> None:
    class Beating(Handler):
        def start(self, shard: Shard) -> None:
            self.every(3, lambda: self.emit("three"))
            self.every(2, lambda: self.emit("two"))

    rig = Rig(Beating)
    rig.advance(5)
    assert rig.events == ["two", "three", "two"]


def test_tokens_are_committed_behind_the_events_before_them_and_the_last_of_a_call_counts() -> None:
    rig = Rig(Recorder)
    rig.opened()
    rig.receive("1", "2")
    assert rig.checkpoints == ["2"]
    rig.receive("3")
    assert rig.checkpoints == ["2", "3"]


def test_a_connection_that_the_handler_closed_tells_its_code_and_takes_nothing_more() -> None:
    rig = Rig(Recorder)
    rig.opened()
    rig.receive("close")
    assert rig.close_codes() == [4000]
    rig.closed()
    assert rig.handler.calls[-1] == ("closed", 0, 4000, False)
    rig.opened()
    rig.closed()
    assert rig.handler.calls[-1] == ("closed", 0, 1006, False)
    assert rig.sent() == ["hello", "hello"]


def test_a_connection_can_be_replaced_before_it_goes() -> None:
    rig = Rig(Recorder)
    rig.opened()
    rig.opened()
    rig.closed(1000)
    rig.receive("a")
    assert rig.handler.calls[1:] == [("opened", 0, True), ("opened", 0, True), ("closed", 0, 1000, True), ("a", 0)]
    rig.closed()
    assert rig.handler.calls[-1] == ("closed", 0, 1006, False)


def test_what_needs_a_child_cannot_be_called_while_the_handler_is_being_made() -> None:
    class Hasty(Handler):
        def __init__(self) -> None:
            self.every(1, print)

    with pytest.raises(AttributeError, match="from start on, not in __init__"):
        Rig(Hasty)


def test_the_target_is_that_of_the_handler_or_of_the_file() -> None:
    class Ticketed(Handler):
        def target(self, connection: Connection) -> tuple[str, dict[str, str]]:
            url, headers = super().target(connection)
            return f"{url}/?ticket={connection.number}", {**headers, "X-Ticket": "1"}

    rig = Rig(Ticketed, connections=2, url="wss://a.example", headers={"A": "b"})
    assert rig.target(connection=1) == ("wss://a.example/?ticket=1", {"A": "b", "X-Ticket": "1"})
    assert Rig(Handler, url="wss://a.example").target() == ("wss://a.example", {})


def test_a_test_that_drives_what_is_not_there_is_told() -> None:
    rig = Rig(Handler)
    with pytest.raises(ValueError, match=r"call opened\(\) first"):
        rig.receive("early")
    with pytest.raises(ValueError, match=r"call opened\(\) first"):
        rig.closed()
    with pytest.raises(ValueError, match="expected 0 or more"):
        rig.advance(-1)


def test_what_must_not_be_sent_emitted_committed_or_closed_with_is_refused_as_in_a_child() -> None:
    class Wrong(Handler):
        def message(self, connection: Connection, message: Message) -> None:
            value: Any = json.loads(message)
            match message:
                case "1":
                    self.emit(value)
                case "2":
                    self.checkpoint(value)
                case "3":
                    connection.send(value)
                case "4":
                    connection.close(1006)
                case _:
                    self.every(0, print)

    rig = Rig(Wrong, collect_errors=True)
    rig.opened()
    rig.receive("1", "2", "3", "4", "5")
    assert [type(error.error) for error in rig.errors] == [TypeError, TypeError, TypeError, ValueError, ValueError]


class Beating(Handler):
    """Fails at every message, while its timer works, or the other way round."""

    beats = True

    def start(self, shard: Shard) -> None:
        self.every(1, self.beat)

    def message(self, connection: Connection, message: Message) -> None:
        if self.beats:
            raise ValueError("no such trade")

    def beat(self) -> None:
        if not self.beats:
            raise ValueError("no heart")


class Heartless(Beating):
    beats = False


@pytest.mark.parametrize("kind", [Beating, Heartless])
def test_what_works_forgives_no_failures_of_another_kind(kind: type[Beating]) -> None:
    rig = Rig(kind, handler_errors=3, collect_errors=True)
    rig.opened()
    for beats in range(1, 4):
        assert not rig.ended
        rig.receive("x")
        if not rig.ended:
            rig.advance(1)
        assert [error.in_a_row for error in rig.errors] == list(range(1, beats + 1))
    assert rig.ended
