"""`send_rate` and `connect_rate`: how often a child sends and connects. The test is the parent, where one is asked."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenured import Connection, Handler, Message
from tests.child import Child, task
from tests.feed import PING, Feed, Peer, frame
from tests.wait import until
from workers.board import ASKED, CONNECTS, FLOORS, GRANTED, GRANTED_AT, MESSAGES, OPEN, REFUSED
from workers.stream import floors, loop
from workers.stream.paced import QUEUE_MAX_BYTES
from workers.stream.target import Target
from workers.websocket.dial import Opened, dial
from workers.websocket.route import Route, found

S = 1_000_000_000


def good(peer: Peer) -> None:
    peer.accept()
    peer.serve()


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


# --- sending ------------------------------------------------------------------------------------------------


def timed(arrived: list[float]) -> Any:
    def behave(peer: Peer) -> None:
        peer.accept()
        while True:
            opcode, payload = peer.next_frame()
            if opcode == 0x1:
                arrived.append(time.monotonic())
                peer.feed.texts.append((peer.number, payload.decode()))
            elif opcode == 0x8:
                peer.feed.close_codes.append(int.from_bytes(payload[:2], "big"))
                peer.raw(frame(0x8, payload))
                return

    return behave


def test_where_sends_are_paced_and_there_is_nothing_to_send_messages_are_heard_at_once() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        until(lambda: child.words[OPEN], 20)
        peer.text("at once")
        peer.serve()

    with Feed(behave) as feed:
        child = Child(task(feed.url, send_rate=10))
        with child:
            child.word(MESSAGES, 1)  # well before the first ping


def test_subscriptions_and_what_a_handler_sends_leave_in_order_and_not_faster_than_the_rate() -> None:
    class Chatty(Handler):
        def opened(self, connection: Connection) -> None:
            for number in range(5):
                assert connection.send(f"sent {number}")

    arrived: list[float] = []
    subscribe = tuple(f"subscribe {number}" for number in range(10))
    with Feed(timed(arrived)) as feed, Child(task(feed.url, send_rate=20, subscribe=subscribe, handler="x"), Chatty):
        until(lambda: len(arrived) == 15, 5)
    assert [text for _, text in feed.texts] == [*subscribe, *(f"sent {number}" for number in range(5))]
    assert arrived[-1] - arrived[0] >= 14 / 20 - 0.06


def test_a_ping_is_answered_and_a_close_frame_sent_while_messages_wait_for_their_turn() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve(messages=1)
        peer.raw(frame(PING, b"now"))
        peer.serve()

    subscribe = tuple(str(number) for number in range(100))
    with Feed(behave) as feed, Child(task(feed.url, send_rate=0.1, subscribe=subscribe)) as child:
        until(lambda: feed.pongs == [b"now"], 5)
        begun = time.monotonic()
        assert child.stop() == 0
        assert time.monotonic() - begun < 0.9
    assert [text for _, text in feed.texts] == ["0"]
    assert feed.close_codes == [1001]


def test_a_send_is_refused_when_too_much_waits_already() -> None:
    accepted: list[bool] = []

    class Flood(Handler):
        def opened(self, connection: Connection) -> None:
            accepted.extend(connection.send("x" * 100_000) for _ in range(20))

    with Feed(good) as feed, Child(task(feed.url, send_rate=1, handler="x"), Flood) as child:
        until(lambda: len(accepted) == 20, 5)
        assert child.words[OPEN] == 1
    assert accepted.index(False) == QUEUE_MAX_BYTES // 100_000 + 1
    assert not any(accepted[accepted.index(False) :])


# --- connecting ---------------------------------------------------------------------------------------------


@contextmanager
def parent(child: Child, every_s: float, asked: list[int]) -> Iterator[None]:
    """Grants one attempt after the other, as the supervisor does."""
    done = threading.Event()

    def run() -> None:
        next_ns = 0
        words = child.words
        while not done.wait(0.001):
            if words[ASKED] != words[GRANTED]:
                next_ns = max(next_ns, boottime_ns())
                asked.append(words[ASKED])
                words[GRANTED_AT] = next_ns
                words[GRANTED] = words[ASKED]
                next_ns += int(every_s * S)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_with_a_connect_rate_each_attempt_asks_and_begins_when_it_is_granted() -> None:
    asked: list[int] = []
    with Feed(good) as feed, Child(task(*[feed.url] * 6, connect_rate=5.0)) as child, parent(child, 0.2, asked):
        child.word(OPEN, 6)
    times = [connect.at for connect in feed.connects]
    assert all(later - earlier >= 0.15 for earlier, later in itertools.pairwise(times))
    assert asked == [1, 2, 3, 4, 5, 6]


def test_failed_attempts_and_reconnects_ask_as_well() -> None:
    def behave(peer: Peer) -> None:
        if peer.number == 0:
            peer.refuse(503)
        elif peer.number == 1:
            peer.accept()
        else:
            good(peer)

    asked: list[int] = []
    with Feed(behave) as feed, Child(task(feed.url, connect_rate=5.0)) as child, parent(child, 0.2, asked):
        child.word(CONNECTS, 2)
    assert asked == [1, 2, 3]
    assert feed.connects[2].at - feed.connects[0].at >= 0.38


def test_without_an_answer_no_attempt_begins() -> None:
    with Feed(good) as feed, Child(task(feed.url, connect_rate=5.0)) as child:
        until(lambda: child.words[ASKED] == 1, 5)
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + 0.5, 5)
        assert feed.accepted == 0
        begun = time.monotonic()
        assert child.stop() == 0
        assert time.monotonic() - begun < 0.5


def test_no_attempt_begins_before_the_floor_that_another_child_was_told() -> None:
    with Feed(good) as feed:
        child = Child(task(feed.url))
        floors.write(child.words, FLOORS, {floors.mark_of(feed.url.partition("://")[2]): boottime_ns() + S})
        begun = time.monotonic()
        with child:
            child.word(OPEN, 1)
    assert feed.connects[0].at - begun >= 0.99


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_told_to_the_parent_for_the_other_children(status: int) -> None:
    with Feed(lambda peer: peer.refuse(status, "Retry-After: 30")) as feed, Child(task(feed.url)) as child:
        (until_ns,) = until(lambda: floors.read(child.words, REFUSED), 5).values()
        left_s = (until_ns - boottime_ns()) / S
        assert 28 < left_s <= 30
        assert len(feed.connects) == 1


# --- what stalls between the wish to connect and the connection -----------------------------------------------


def spaced(feed: Feed, every_s: float) -> bool:
    """Each connection came at its own time, whatever a busy machine added to each."""
    times = sorted(connect.at for connect in feed.connects)
    return all(later - earlier >= every_s * 0.75 for earlier, later in itertools.pairwise(times))


def test_targets_that_stall_and_are_there_all_at_once_use_up_no_permission_and_keep_the_rate() -> None:
    stalled, release = threading.Semaphore(0), threading.Event()

    class Slow(Handler):
        def target(self, connection: Connection) -> tuple[str, dict[str, str]]:
            stalled.release()
            release.wait(20)
            return super().target(connection)

    asked: list[int] = []
    with Feed(good) as feed:
        child = Child(task(*[feed.url] * 6, connect_rate=5.0, handler="x"), Slow)
        with child, parent(child, 0.2, asked):
            for _ in range(6):
                assert stalled.acquire(timeout=20)
            assert asked == []
            release.set()
            child.word(OPEN, 6)
    assert asked == [1, 2, 3, 4, 5, 6]
    assert spaced(feed, 0.2)


def test_a_name_that_takes_long_uses_up_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve, stalled, release = socket.getaddrinfo, threading.Semaphore(0), threading.Event()

    def slow(*args: Any, **named: Any) -> Any:
        stalled.release()
        release.wait(20)
        return resolve(*args, **named)

    asked: list[int] = []
    with Feed(good) as feed:
        child = Child(task(*[feed.url] * 4, connect_rate=5.0))
        monkeypatch.setattr("workers.websocket.route.getaddrinfo", slow)
        with child, parent(child, 0.2, asked):
            for _ in range(4):
                assert stalled.acquire(timeout=20)
            assert asked == []
            release.set()
            child.word(OPEN, 4)
    assert spaced(feed, 0.2)


def test_a_permission_that_ran_out_before_the_connection_began_is_asked_for_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late: list[Route] = []

    def held_up(route: Route, context: Any, begin_by_ns: int) -> Any:
        if late:
            return dial(route, context, begin_by_ns)
        late.append(route)
        return dial(route, context, boottime_ns())

    monkeypatch.setattr("workers.stream.ground.dial", held_up)
    asked: list[int] = []
    with Feed(good) as feed, Child(task(feed.url, connect_rate=5.0)) as child, parent(child, 0.2, asked):
        child.word(OPEN, 1)
        assert child.log("connection.closed") == [], "nothing failed"
    assert asked == [1, 2]
    assert len(feed.connects) == 1


def test_a_permission_is_used_whatever_a_handler_does_meanwhile() -> None:
    free, speak, inside = threading.Event(), threading.Event(), threading.Event()

    class Long(Handler):
        def target(self, connection: Connection) -> tuple[str, dict[str, str]]:
            assert connection.number == 0 or free.wait(20)
            return super().target(connection)

        def message(self, connection: Connection, message: Message) -> None:
            inside.set()
            until(lambda: feed.accepted == 2, 20)

    def behave(peer: Peer) -> None:
        peer.accept()
        if peer.number == 0:
            assert speak.wait(20)
            peer.text("takes long")
        peer.serve()

    with Feed(behave) as feed:
        child = Child(task(feed.url, feed.url, connect_rate=5.0, connect_timeout_ms=60_000, handler="x"), Long)
        with child:
            with parent(child, 0.2, []):
                child.word(OPEN, 1)
            free.set()
            until(lambda: child.words[ASKED] != child.words[GRANTED], 20)
            speak.set()
            assert inside.wait(20)
            with parent(child, 0.2, []):
                child.word(OPEN, 2)
            assert child.log("handler.failed") == [], "the second was opened while the handler was busy"


def test_what_waited_for_its_permission_is_found_anew_when_the_connection_ended_that_it_was_to_replace() -> None:
    cut = threading.Event()

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text('{"seq": 1}')
        if peer.number == 0:
            assert cut.wait(20)
            peer.text('{"seq": 2}')
            return
        peer.serve()

    spec = {"pointer": "/seq", "connect_rate": 5.0, "max_age_ms": 2000}
    with Feed(behave) as feed, Child(task(feed.url + "/${checkpoint:-0}", **spec)) as child:
        with parent(child, 0.2, []):
            child.word(OPEN, 1)
        until(lambda: child.words[ASKED] != child.words[GRANTED], 20)
        child.word(MESSAGES, 1)
        cut.set()
        until(lambda: child.log("connection.closed"), 20)
        with parent(child, 0.2, []):
            child.word(CONNECTS, 2)
    assert [connect.path for connect in feed.connects][:2] == ["/0", "/2"]


def test_an_address_that_took_long_to_fail_leaves_the_others_for_another_permission() -> None:
    with Feed(good) as feed:
        way = found(Target(feed.url), boottime_ns() + 5 * S)
        (address,) = way.addresses
        nobody = replace(address, address=("127.0.0.1", 1))
        both = replace(way, addresses=(nobody, address))
        opened = dial(both, ssl.create_default_context)
        assert isinstance(opened, Opened), "an address that fails is not the end"
        opened.sock.close()
        left = dial(replace(way, addresses=(address,)), ssl.create_default_context, boottime_ns())
    assert isinstance(left, Route)
    assert left.addresses == (address,)
    assert 0 < left.left_ns < 5 * S
    assert len(feed.connects) == 1


def test_a_child_whose_connections_wait_for_their_permission_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = itertools.count()
    turn = loop.Loop._turn

    def counted(self: loop.Loop) -> None:
        next(turns)
        turn(self)

    monkeypatch.setattr(loop.Loop, "_turn", counted)
    with Feed(good) as feed, Child(task(*[feed.url] * 20, connect_rate=1 / 60)) as child:
        until(lambda: child.words[ASKED], 20)
        child.words[GRANTED_AT] = boottime_ns() + 60 * S
        child.words[GRANTED] = child.words[ASKED]
        begun_ns, before = boottime_ns() + S, 0
        until(lambda: boottime_ns() > begun_ns, 20)  # by now all have found their way, and none has begun
        before = next(turns)
        until(lambda: boottime_ns() > begun_ns + 2 * S, 20)
        assert next(turns) - before <= 12, "twice a second, for the heartbeat"
    assert feed.accepted == 0


def test_a_permission_that_a_floor_has_overtaken_lapses_and_another_is_asked_for_behind_the_floor() -> None:
    with Feed(good) as feed, Child(task(feed.url, connect_rate=5.0)) as child:
        until(lambda: child.words[ASKED], 20)
        floor_ns = boottime_ns() + S
        floors.write(child.words, FLOORS, {floors.mark_of(feed.url.partition("://")[2]): floor_ns})
        child.words[GRANTED_AT] = floor_ns - S // 2
        child.words[GRANTED] = child.words[ASKED]
        child.word(ASKED, 2)
        assert boottime_ns() >= floor_ns
        assert feed.accepted == 0
        child.words[GRANTED_AT] = boottime_ns()
        child.words[GRANTED] = child.words[ASKED]
        child.word(OPEN, 1)


def test_what_one_host_asks_for_holds_up_no_other_host_of_the_stream() -> None:
    with Feed(lambda peer: peer.refuse(503, "Retry-After: 3000")) as closed, Feed(good) as other:
        with Child(task(closed.url, other.url)) as child:
            floors_of_others = {floors.mark_of(closed.url.partition("://")[2]): boottime_ns() + 3000 * S}
            floors.write(child.words, FLOORS, floors_of_others)
            child.word(OPEN, 1)
        assert len(other.connects) == 1


def test_what_one_host_asks_for_holds_up_no_attempt_that_goes_to_another_one_by_now(tmp_path: Path) -> None:
    cut = threading.Event()

    def closed(peer: Peer) -> None:
        if peer.path == "/0":
            child.word(OPEN, 1)  # else the other one would be held up, rightly
            peer.refuse(429, "Retry-After: 3000")
            return
        peer.accept()
        assert cut.wait(20)

    url = tmp_path / "url"
    with Feed(closed) as first, Feed(good) as other:
        url.write_text(first.url)
        child = Child(task(f"${{file:{url}}}/0", f"${{file:{url}}}/1"))
        with child:
            until(lambda: floors.read(child.words, REFUSED), 20)
            url.write_text(other.url)
            cut.set()
            until(lambda: other.connects, 20)
    assert [connect.path for connect in other.connects] == ["/1"]
