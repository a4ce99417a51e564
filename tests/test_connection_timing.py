"""What a connection does about peers that are silent, slow, or refuse: against a server that misbehaves."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tests.child import Child, task
from tests.feed import TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, MESSAGES, OPEN
from workers.stream import connection as connection_module


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, kept from others."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def silent(peer: Peer) -> None:
    peer.accept()
    peer.wait_for_end()


def test_a_peer_that_stopped_is_found_dead_within_ping_interval_plus_timeout() -> None:
    with Feed(silent) as feed, Child(task(feed.url, ping_interval_ms=300, ping_timeout_ms=200)) as child:
        child.word(OPEN, 1)
        opened = time.monotonic()
        until(lambda: child.log("connection.silent"), 5)
        assert 0.45 <= time.monotonic() - opened <= 1.0
        child.word(CONNECTS, 2)


def test_a_quiet_peer_that_answers_pings_stays_connected() -> None:
    peers: list[Peer] = []

    def behave(peer: Peer) -> None:
        peers.append(peer)
        peer.accept()
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, ping_interval_ms=50, ping_timeout_ms=2000)) as child:
        until(lambda: peers and peers[0].pings >= 5, 5)
        assert child.words[CONNECTS] == 1


def test_a_half_received_frame_ends_at_the_frame_timeout_however_it_trickles() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        for byte in frame(TEXT, b"x" * 10_000):
            peer.raw(bytes([byte]))
            if peer.feed.closing.wait(0.02):
                return

    spec = {"frame_timeout_ms": 400, "ping_interval_ms": 60_000}
    with Feed(behave) as feed, Child(task(feed.url, **spec)) as child:
        child.word(CONNECTS, 1)
        begun = time.monotonic()
        child.word(CONNECTS, 2)
        assert 0.3 <= time.monotonic() - begun <= 1.2
        assert "incomplete" in child.log("connection.closed")[0]["reason"]


def test_a_large_frame_that_stops_in_the_middle_ends_at_the_frame_timeout() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(frame(TEXT, b"x" * 1_000_000)[:500_000])
        peer.wait_for_end()

    with Feed(behave) as feed, Child(task(feed.url, frame_timeout_ms=300)) as child:
        child.word(CONNECTS, 2)
        assert "incomplete" in child.log("connection.closed")[0]["reason"]


def drip(peer: Peer) -> None:
    for byte in peer.upgrade("X-Filler: " + "x" * 1000):
        peer.raw(bytes([byte]))
        if peer.feed.closing.wait(0.05):
            return


def nothing(peer: Peer) -> None:
    peer.wait_for_end()


@pytest.mark.parametrize("behave", [drip, nothing], ids=["dripped", "none at all"])
def test_a_handshake_has_a_total_deadline_and_is_named_as_what_took_too_long(behave: Callable[[Peer], None]) -> None:
    with Feed(behave) as feed, Child(task(feed.url, connect_timeout_ms=300)) as child:
        until(lambda: len(feed.connects) >= 2, 5)
        assert 0.25 <= feed.connects[1].at - feed.connects[0].at <= 1.0
        reasons = [record["reason"] for record in until(lambda: child.log("connection.closed"), 5)]
        assert set(reasons) == {"no connection in time: the upgrade was not complete"}
        assert child.words[CONNECTS] == 0


def test_a_server_that_accepts_and_closes_is_not_hammered_even_if_the_jitter_is_always_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.close(1000)

    monkeypatch.setattr(connection_module, "chance", lambda: 0.0)
    with Feed(behave) as feed, Child(task(feed.url, reconnect_min_ms=1, reconnect_max_ms=500, stable_after_ms=60_000)):
        until(lambda: len(feed.connects) >= 25, 20)
        times = [connect.at for connect in feed.connects]
        assert all(later - earlier >= 0.48 for earlier, later in zip(times, times[10:], strict=False))


def test_a_connection_that_was_stable_is_opened_again_without_the_old_backoff() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        if len(peer.feed.connects) < 12:
            peer.feed.closing.wait(0.02)
        else:
            peer.serve()

    spec = {"reconnect_min_ms": 1, "reconnect_max_ms": 60_000, "stable_after_ms": 1}
    with Feed(behave) as feed, Child(task(feed.url, **spec)) as child:
        child.word(CONNECTS, 12)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_permanent_refusal_is_retried_slowly_and_its_reason_logged(status: int) -> None:
    with (
        Feed(lambda peer: peer.refuse(status)) as feed,
        Child(task(feed.url, reconnect_min_ms=1, reconnect_max_ms=300)) as child,
    ):
        until(lambda: len(feed.connects) >= 3, 5)
        times = [connect.at for connect in feed.connects]
        assert all(later - earlier >= 0.28 for earlier, later in itertools.pairwise(times))
        closed = child.log("connection.closed")[0]
        assert closed["permanent"] is True
        assert closed["level"] == "ERROR"
        assert str(status) in closed["reason"]
        assert child.slot.read_trouble() == f"connection 0: the server answered {status} (permanent)"


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_transient_refusal_is_retried_soon(status: int) -> None:
    def behave(peer: Peer) -> None:
        if len(peer.feed.connects) < 3:
            peer.refuse(status, body="<html>" + "x" * 200_000)
        else:
            peer.accept()
            peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, reconnect_min_ms=1, reconnect_max_ms=60_000)) as child:
        child.word(OPEN, 1)
        assert str(status) in child.log("connection.closed")[0]["reason"]
        assert child.slot.read_trouble() == ""


def test_the_trouble_of_a_closed_connection_does_not_repeat_what_the_peer_wrote() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.close(4009, "token s3cret has expired")

    with Feed(behave) as feed, Child(task(feed.url, reconnect_min_ms=60_000, reconnect_max_ms=60_000)) as child:
        until(lambda: child.log("connection.closed"), 5)
        assert child.slot.read_trouble() == "connection 0: the peer closed it with 4009"


def test_retry_after_is_a_floor_for_every_connection_of_the_child_to_that_host() -> None:
    def behave(peer: Peer) -> None:
        if peer.path == "/limited" and len(peer.feed.connects) <= 2:
            peer.refuse(429, "Retry-After: 1")
            return
        peer.accept()
        if peer.path == "/cut" and len(peer.feed.connects) <= 2:
            until(lambda: len(peer.feed.connects) >= 2, 5)
            peer.feed.closing.wait(0.1)  # the refusal comes first
            return
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url + "/cut", feed.url + "/limited")) as child:
        child.word(OPEN, 2)
        limited = [connect.at for connect in feed.connects if connect.path == "/limited"]
        assert all(connect.at >= limited[0] + 0.99 for connect in feed.connects[2:])
        assert len(feed.connects) == 4


def test_five_thousand_failed_attempts_need_no_more_stack_and_memory_than_a_thousand(closed_port: int) -> None:
    child = Child(task(f"ws://127.0.0.1:{closed_port}", reconnect_min_ms=1, reconnect_max_ms=1))
    with child:
        until(lambda: child.log_text().count("cannot be reached") >= 1000, 30, 0.2)
        before = child.footprint()
        until(lambda: child.log_text().count("cannot be reached") >= 5000, 60, 0.2)
        after = child.footprint()
    assert after.frames <= before.frames + 15  # the depth at which the loop happens to be seen
    assert after.threads <= before.threads + 3
    assert after.resident_bytes - before.resident_bytes < 3 * 1024 * 1024


def test_messages_go_on_while_another_connection_fails(closed_port: int) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(100):
            peer.text(str(number))
        peer.serve()

    with Feed(behave) as feed, Child(task(f"ws://127.0.0.1:{closed_port}", feed.url)) as child:
        child.word(MESSAGES, 100)
