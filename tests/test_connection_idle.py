"""A feed that answers pings and sends no data: told, counted, and opened anew where the file says so."""

from __future__ import annotations

import threading
import time

from tests.child import Child, task
from tests.feed import PING, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, MESSAGES, OPEN, SILENCES

QUIET = {"ping_interval_ms": 50, "ping_timeout_ms": 5000, "idle_timeout_ms": 400}


def good(peer: Peer) -> None:
    peer.accept()
    peer.serve()


def test_a_silence_of_data_is_told_once_though_pings_are_answered() -> None:
    with Feed(good) as feed, Child(task(feed.url, **QUIET)) as child:
        child.word(OPEN, 1)
        opened = time.monotonic()
        silent = until(lambda: child.log("connection.silent"), 5)[0]
        assert 0.3 <= time.monotonic() - opened <= 0.9
        assert (silent["kind"], silent["connection"], silent["level"]) == ("data", 0, "WARNING")
        assert "no message came within idle_timeout, 0.4 s" in silent["reason"]
        assert "connection 0: no message came within idle_timeout" in (child.slot.read_trouble() or "")
        until(lambda: time.monotonic() > opened + 1.3, 5)
        assert (len(child.log("connection.silent")), child.words[SILENCES], child.words[CONNECTS]) == (1, 1, 1)


def test_the_servers_own_pings_are_no_data() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        while not peer.feed.closing.wait(0.02):
            peer.raw(frame(PING, b"here"))

    with Feed(behave) as feed, Child(task(feed.url, **QUIET)) as child:
        until(lambda: child.log("connection.silent"), 5)


def test_a_message_ends_the_silence_and_the_next_one_is_told_again() -> None:
    speak = threading.Event()

    def behave(peer: Peer) -> None:
        peer.accept()
        speak.wait(5)
        peer.text("back")
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, **QUIET)) as child:
        child.word(SILENCES, 1)
        until(child.slot.read_trouble, 1)
        speak.set()
        child.word(MESSAGES, 1)
        until(lambda: child.slot.read_trouble() == "", 0.3)
        child.word(SILENCES, 2)
        assert len(child.log("connection.silent")) == 2


def test_a_feed_that_speaks_often_enough_is_not_silent() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        while not peer.feed.closing.wait(0.05):
            peer.text("tick")

    with Feed(behave) as feed, Child(task(feed.url, **QUIET)) as child:
        child.word(MESSAGES, 16)
        assert child.words[SILENCES] == 0


def test_reconnect_closes_a_silent_connection_with_4000_and_its_reason_and_opens_a_new_one() -> None:
    said: list[bytes] = []

    def behave(peer: Peer) -> None:
        peer.accept()
        while (got := peer.next_frame())[0] != 0x8:
            if got[0] == PING:
                peer.raw(frame(0xA, got[1]))
        said.append(got[1])
        peer.raw(frame(0x8, got[1]))

    with Feed(behave) as feed, Child(task(feed.url, on_idle="reconnect", **QUIET)) as child:
        child.word(CONNECTS, 3)
        assert child.words[SILENCES] >= 2
        closed = child.log("connection.closed")[0]
        assert closed["code"] == 4000
        assert "no message came" in closed["reason"]
    assert said[0][:2] == (4000).to_bytes(2, "big")
    assert said[0][2:].decode().startswith("no message came within idle_timeout, 0.4 s")


def test_an_idle_timeout_that_is_off_is_no_matter() -> None:
    with Feed(good) as feed, Child(task(feed.url, **{**QUIET, "idle_timeout_ms": 0})) as child:
        child.word(OPEN, 1)
        until(lambda: feed.connects and time.monotonic() > feed.connects[0].at + 0.8, 5)
        assert child.words[SILENCES] == 0


def test_a_peer_that_answers_nothing_is_counted_as_silent_too() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.wait_for_end()

    with Feed(behave) as feed, Child(task(feed.url, ping_interval_ms=100, ping_timeout_ms=100)) as child:
        child.word(SILENCES, 2)
        assert {record["kind"] for record in child.log("connection.silent")} == {"peer"}
