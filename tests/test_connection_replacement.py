"""`max_age`: a connection is replaced by a new one before it is closed, and nothing is missed in between."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tenured import Connection, Handler
from tests.child import Child, lines, task
from tests.feed import TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, OPEN
from workers.spec import StreamSpec
from workers.stream import session
from workers.stream.connection import Connection as DialedConnection

S = 1_000_000_000


@pytest.fixture(autouse=True)
def _short_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SETTLE_MIN_NS", 200_000_000)
    monkeypatch.setattr(session, "SETTLE_MAX_NS", 1_500_000_000)


class Ticker:
    """One feed of numbers for all connections, as an exchange has: each connection gets those of its time."""

    def __init__(self) -> None:
        self.next = 0
        self._peers: list[Peer] = []
        self._lock = threading.Lock()
        self._pause = threading.Event()

    def behave(self, peer: Peer) -> None:
        peer.accept()
        if peer.number % 2:  # some take a moment before they begin
            peer.feed.closing.wait(0.5)
        with self._lock:
            self._peers.append(peer)
        peer.serve()

    def run(self, until_: Callable[[], bool]) -> None:
        while not until_():
            with self._lock:
                for peer in list(self._peers):
                    try:
                        peer.raw(frame(TEXT, str(self.next).encode()))
                    except OSError:
                        self._peers.remove(peer)
                self.next += 1
            self._pause.wait(0.002)


def test_the_new_connection_delivers_before_the_old_one_is_closed_and_no_message_is_missed(tmp_path: Path) -> None:
    path, ticker, seen_open = tmp_path / "events", Ticker(), set()
    spec = {"max_age_ms": 1000, "sink": f"jsonl:{path}", "close_code": 4321}
    with Feed(ticker.behave) as feed, Child(task(feed.url, **spec)) as child:
        child.word(OPEN, 1)

        def over() -> bool:
            seen_open.add(child.words[OPEN])
            return len(child.log("connection.closed")) >= 3

        ticker.run(over)
        assert child.words[CONNECTS] >= 4
    numbers = [int(event["data"]) for event in lines(path)]
    assert set(range(min(numbers), max(numbers) + 1)) == set(numbers)
    assert len(numbers) > len(set(numbers)), "both deliver for a moment"
    assert seen_open == {1}
    replaced = child.log("connection.closed")[:3]
    assert {(record["code"], record["level"]) for record in replaced} == {(4321, "INFO")}
    assert feed.close_codes[:3] == [4321] * 3


def test_a_quiet_feed_is_replaced_after_its_time_to_settle_with_its_subscriptions_sent_again() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, max_age_ms=1000, subscribe=("a", "b"))) as child:
        until(lambda: len(child.log("connection.closed")) >= 1, 5)
        age_s = feed.connects[1].at - feed.connects[0].at
        assert 0.85 <= age_s <= 1.3
        assert [text for number, text in feed.texts if number == 1] == ["a", "b"]
        assert child.words[OPEN] == 1


def test_a_replacement_that_fails_leaves_the_connection_alone_and_is_tried_again_later() -> None:
    def behave(peer: Peer) -> None:
        if 1 <= peer.number <= 3:
            peer.refuse(503)
            return
        peer.accept()
        while not peer.feed.closing.wait(0.02):
            peer.text("tick")

    troubles: set[str | None] = set()
    spec = {"max_age_ms": 1000, "reconnect_min_ms": 200, "reconnect_max_ms": 400}
    with Feed(behave) as feed, Child(task(feed.url, **spec)) as child:

        def replaced() -> bool:
            troubles.add(child.slot.read_trouble())
            return child.words[CONNECTS] >= 2

        until(replaced, 10)
        closed = child.log("connection.closed")
        assert [record["reason"] for record in closed[:3]] == ["the server answered 503"] * 3
        assert all("code" not in record or record["code"] is None for record in closed[:3])
        assert "connection 0: its replacement failed: the server answered 503" in troubles
        until(lambda: child.slot.read_trouble() == "", 1)
        assert child.words[OPEN] == 1


def settling(newest_open: bool, paused: bool) -> tuple[DialedConnection, Mock]:
    """A connection at 100 s, whose replacement is 10 s old and, as its age may be short, due to be replaced itself."""
    home = Mock(policy=session.policy_of(StreamSpec(stream="s", max_age_ms=1000)))
    connection = DialedConnection(0, home)
    old = Mock(paused=paused, due_ns=session.NEVER_NS)
    new = Mock(open=newest_open, subscribed_ns=90 * S, data_ns=95 * S, heard=True, due_ns=session.NEVER_NS)
    connection._links = [old, new]
    connection._retires_ns = 91 * S
    connection.tick(100 * S)
    return connection, old


def test_an_old_connection_that_takes_its_time_to_close_costs_no_turn_of_the_loop() -> None:
    connection, old = settling(newest_open=True, paused=False)
    assert old.close.call_count == 1
    assert connection.due_ns > 100 * S


def test_the_old_one_stays_while_the_new_one_is_closing() -> None:
    connection, old = settling(newest_open=False, paused=False)
    assert old.close.call_count == 0
    assert 100 * S < connection.due_ns < 101 * S


def test_the_old_one_says_goodbye_also_while_its_consumer_is_behind() -> None:
    _, old = settling(newest_open=True, paused=True)
    assert old.close.call_count == 1


def test_a_replacement_that_ends_before_it_took_over_leaves_the_old_connection_in_its_place() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        if peer.number == 1:
            peer.close(1011)
            return
        while not peer.feed.closing.wait(0.02):
            peer.text(f"{peer.number}")

    with Feed(behave) as feed, Child(task(feed.url, max_age_ms=1000)) as child:
        until(lambda: child.log("connection.closed"), 5)
        assert child.log("connection.closed")[0]["code"] == 1011
        assert child.words[OPEN] == 1
        child.word(CONNECTS, 3)
        until(lambda: len(child.log("connection.closed")) >= 2, 5)
        assert "replaced" in child.log("connection.closed")[1]["reason"]


def test_a_connection_that_ends_while_its_replacement_is_dialed_is_not_dialed_twice() -> None:
    go_on = threading.Event()

    def behave(peer: Peer) -> None:
        if peer.number == 0:
            peer.accept()
            until(lambda: peer.feed.accepted >= 2, 5)
            return
        go_on.wait(5)
        peer.accept()
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, max_age_ms=1000)) as child:
        until(lambda: child.log("connection.closed"), 5)
        assert child.words[OPEN] == 0
        go_on.set()
        child.word(OPEN, 1)
        assert feed.accepted == 2


def recording(record: list[Any]) -> type[Handler]:
    class Recorder(Handler):
        def opened(self, connection: Connection) -> None:
            record.append("opened")
            connection.send(f"hello {record.count('opened')}")

        def closed(self, connection: Connection, code: int, reason: str) -> None:
            record.append("closed")

    return Recorder


def test_a_handler_sees_the_new_one_opened_then_the_old_one_closed_and_sends_on_the_newest() -> None:
    record: list[Any] = []

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, max_age_ms=1000, handler="x"), recording(record)) as child:
        until(lambda: record.count("closed") >= 1, 5)
        assert record[:3] == ["opened", "opened", "closed"]
        assert feed.texts[:2] == [(0, "hello 1"), (1, "hello 2")]
        assert child.words[OPEN] == 1


def test_a_far_end_that_ends_the_old_connection_for_the_new_one_is_not_asked_again_before_its_age() -> None:
    peers: list[Peer] = []

    def behave(peer: Peer) -> None:
        peer.accept()
        if peers:
            peers[-1].raw(frame(0x8, (1008).to_bytes(2, "big")))
        peers.append(peer)
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, max_age_ms=1500)) as child:
        begun = time.monotonic()
        child.word(CONNECTS, 3)
        assert time.monotonic() - begun > 2.0, "two ages, each a tenth shorter at most"


def test_a_stop_closes_the_old_one_and_the_new_one() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, max_age_ms=1000)) as child:
        child.word(CONNECTS, 2)
        begun = time.monotonic()
        assert child.stop() == 0
        assert time.monotonic() - begun < 0.9
        assert feed.close_codes == [1001, 1001]
        assert child.words[OPEN] == 0


def test_what_a_peer_sent_before_a_handler_closed_is_delivered_however_long_the_handler_takes() -> None:
    count, text = 1200, "x" * 10_000
    seen: list[int] = []
    moment = threading.Event()

    class Slow(Handler):
        def opened(self, connection: Connection) -> None:
            self.timer = self.every(0.2, lambda: self.end(connection))

        def end(self, connection: Connection) -> None:
            self.timer.cancel()
            connection.close()

        def message(self, connection: Connection, message: str | bytes) -> None:
            moment.wait(0.002)
            seen.append(int(str(message).split(" ")[0]))

    def behave(peer: Peer) -> None:
        peer.accept()
        if peer.number == 0:
            peer.raw(b"".join(frame(TEXT, f"{number} {text}".encode()) for number in range(count)))
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, handler="x"), Slow) as child:
        until(lambda: len(seen) == count or child.words[CONNECTS] > 1, 20)
        assert seen == list(range(count))


def test_what_waits_unread_on_the_old_connection_is_delivered_however_long_the_sink_takes() -> None:
    count, text = 4000, "x" * 4000

    def behave(peer: Peer) -> None:
        peer.accept()
        if peer.number == 0:
            peer.raw(b"".join(frame(TEXT, f"{number} {text}".encode()) for number in range(count)))
        peer.serve()

    out_fd, in_fd = os.pipe()
    spec = {"max_age_ms": 1000, "sink": "stdout", "sink_buffer": 64 * 1024}
    with open(out_fd, "rb") as out, open(in_fd, "wb") as in_, Feed(behave) as feed:
        child = Child(task(feed.url, **spec), stdout_fd=in_.fileno())
        with child:
            child.word(CONNECTS, 2)
            taken_over = time.monotonic() + 1.5 + 1.0  # and had its second for the close handshake, if it were closed
            until(lambda: time.monotonic() > taken_over, 5)
            assert not child.log("connection.closed")
            events = [json.loads(line) for line in itertools.islice(out, count)]
            until(lambda: child.log("connection.closed"), 10)
    assert [int(event["data"].split(" ")[0]) for event in events] == list(range(count))
