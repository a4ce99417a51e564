"""Frames, pings and close frames between a child and a server, right and wrong; backpressure; the end; the deadline."""

from __future__ import annotations

import itertools
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from tests.child import Child, lines, process, task
from tests.feed import BINARY, PING, PONG, TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import (
    BYTES,
    CONNECTS,
    DEADLINE,
    HEARTBEAT,
    LAST_EVENT,
    MESSAGES,
    OPEN,
    STARTED,
    VIOLATIONS,
    WANT,
    Board,
)
from workers.sinks.delivery import FENCED
from workers.spec import StreamSpec
from workers.stream.connection import Connection
from workers.stream.session import policy_of
from workers.stream.target import Target
from workers.websocket.dial import Opened


def good(peer: Peer) -> None:
    peer.accept()
    peer.serve()


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


# --- messages -----------------------------------------------------------------------------------------------


def test_messages_of_any_size_and_kind_reach_the_sink_in_order(tmp_path: Path) -> None:
    texts = ["", "a", "grüße 🎉", "x" * 125, "x" * 126, "y" * 70_000, "z" * 3_000_000, '"\\\n\x00\u2028']

    def behave(peer: Peer) -> None:
        peer.accept()
        for text in texts:
            peer.text(text)
        peer.raw(frame(BINARY, b"\x00\xff"))
        peer.serve()

    path = tmp_path / "events"
    with Feed(behave) as feed, Child(task(feed.url, epoch=12, sink=f"jsonl:{path}")) as child:
        child.word(MESSAGES, len(texts) + 1)
    events = lines(path)
    assert [event.get("data") for event in events] == [*texts, None]
    assert events[-1]["data_base64"] == "AP8="
    assert [event["seq"] for event in events] == list(range(1, len(texts) + 2))
    assert {(event["shard"], event["epoch"], event["connection"]) for event in events} == {("trades/7", 12, 0)}


def test_the_board_shows_what_the_child_does() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text("äx")
        peer.serve()

    before_ns = boottime_ns()
    with Feed(behave) as feed, Child(task(feed.url + "/a", feed.url + "/b")) as child:
        child.word(MESSAGES, 2)
        child.word(OPEN, 2)
        words = child.words
        assert (words[WANT], words[OPEN], words[CONNECTS], words[MESSAGES], words[BYTES]) == (2, 2, 2, 2, 6)
        assert before_ns < words[STARTED] < words[LAST_EVENT] <= boottime_ns()
        beat = words[HEARTBEAT]
        until(lambda: words[HEARTBEAT] > beat, 1)
    assert child.words[OPEN] == 0


def test_a_ping_is_answered_with_its_bytes() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(frame(PING, b"one"))
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url)):
        until(lambda: feed.pongs, 5)
        assert feed.pongs == [b"one"]


def test_several_pings_in_one_read_are_answered_by_a_pong_for_the_last() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(b"".join(frame(PING, str(number).encode()) for number in range(1000)))
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url)):
        until(lambda: b"999" in feed.pongs, 5)
        assert len(feed.pongs) < 100


def violates(peer: Peer, data: bytes) -> None:
    peer.accept()
    peer.text("before")
    peer.raw(data)
    peer.serve()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"x", reserved=0x40), 1002),
        (frame(TEXT, b"x", masked=True), 1002),
        (b"\x82\x7f" + (8 * 1024**3).to_bytes(8, "big") + b"x" * 20_000_000, 1009),
    ],
    ids=["invalid UTF-8", "reserved bit", "masked", "8 GiB announced"],
)
def test_a_violation_is_answered_by_its_close_code_and_a_new_connection(data: bytes, code: int) -> None:
    with Feed(lambda peer: violates(peer, data)) as feed, Child(task(feed.url)) as child:
        until(lambda: code in feed.close_codes, 5)
        child.word(CONNECTS, 2)
        assert child.log("connection.closed")[0]["code"] == code
        assert child.words[MESSAGES] >= 1
        assert child.words[VIOLATIONS] >= 1


def test_a_header_that_announces_gigabytes_costs_no_memory() -> None:
    before = psutil.Process().memory_info().rss
    data = b"\x81\x7f" + (8 * 1024**3).to_bytes(8, "big")
    with Feed(lambda peer: violates(peer, data)) as feed, Child(task(feed.url)) as child:
        child.word(CONNECTS, 3)
    assert psutil.Process().memory_info().rss - before < 16 * 1024 * 1024


def test_a_message_beyond_the_configured_limit_is_refused() -> None:
    with (
        Feed(lambda peer: violates(peer, frame(BINARY, b"x" * 1001))) as feed,
        Child(task(feed.url, max_message=1000)),
    ):
        until(lambda: 1009 in feed.close_codes, 5)


def test_the_close_frame_of_a_peer_is_answered_with_its_code() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        if len(peer.feed.connects) == 1:
            peer.close(4123, "maintenance")
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url)) as child:
        child.word(CONNECTS, 2)
        assert feed.close_codes[0] == 4123
        closed = child.log("connection.closed")[0]
        assert closed["code"] == 4123
        assert "maintenance" in closed["reason"]


def test_a_connection_that_is_cut_is_told_as_1006_and_opened_again() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        if len(peer.feed.connects) > 1:
            peer.serve()

    with Feed(behave) as feed, Child(task(feed.url)) as child:
        child.word(CONNECTS, 2)
        assert child.log("connection.closed")[0]["code"] == 1006


def test_a_busy_connection_does_not_starve_a_quiet_one() -> None:
    block = frame(TEXT, b"x" * 1000) * 500

    def behave(peer: Peer) -> None:
        peer.accept()
        while peer.path == "/busy":
            peer.raw(block)
        for number in range(20):
            peer.raw(frame(PING, str(number).encode()))
            assert peer.next_frame() == (PONG, str(number).encode())
        peer.feed.texts.append((0, "answered"))
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url + "/busy", feed.url + "/quiet")):
        until(lambda: feed.texts, 10)


def test_a_turn_reads_a_bounded_number_of_times_however_much_there_is() -> None:
    sock = Mock(spec=socket.socket)
    sock.recv.side_effect = lambda size: (frame(TEXT, b"x" * 62) * 4096)[:size]
    home = Mock(policy=policy_of(StreamSpec(stream="s")), message_max_bytes=1_000_000)
    home.held.return_value = False
    connection = Connection(0, home)
    attempt = Mock(outcome=Opened(sock, b"", Target("ws://feed.example")), target=Target("ws://feed.example"))
    connection._attempt = attempt
    connection.settle(attempt, 1)
    connection._links[-1].ready(selectors.EVENT_READ)
    assert 1 <= sock.recv.call_count <= 8


# --- a slow consumer ----------------------------------------------------------------------------------------


def test_a_consumer_that_stands_still_stops_the_reading_and_loses_nothing() -> None:
    count, text = 60_000, "x" * 1000

    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(0, count, 100):
            peer.raw(b"".join(frame(TEXT, f"{number + index} {text}".encode()) for index in range(100)))
        peer.serve()

    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 600 * 10**9
    with Feed(behave) as feed:
        task_ = task(feed.url, sink="stdout", ping_interval_ms=100, ping_timeout_ms=100)
        child = process(task_, board, stdout=subprocess.PIPE)
        try:
            until(lambda: words[MESSAGES] > 0, 10)
            before = psutil.Process(child.pid).memory_info().rss
            until(unchanged(lambda: words[MESSAGES], 0.3), 10)
            assert words[MESSAGES] < count
            assert psutil.Process(child.pid).memory_info().rss - before < 20 * 1024 * 1024
            assert boottime_ns() - words[HEARTBEAT] < 1_000_000_000
            assert words[CONNECTS] == 1  # a silence of our own making is not held against the peer
            assert child.stdout is not None
            numbers = [int(line.split(b'"data":"', 1)[1].split(b" ", 1)[0]) for line in take(child.stdout, count)]
            assert numbers == list(range(count))
        finally:
            child.kill()
            child.wait()


def unchanged(read: Callable[[], int], duration_s: float) -> Callable[[], bool]:
    """A condition: the value has been the same for so long."""
    seen = [(read(), time.monotonic())]

    def condition() -> bool:
        if read() != seen[-1][0]:
            seen.append((read(), time.monotonic()))
        return time.monotonic() - seen[-1][1] >= duration_s

    return condition


def take(stream: Iterable[bytes], count: int) -> list[bytes]:
    return list(itertools.islice(stream, count))


def test_a_peer_that_does_not_read_is_given_up() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        while True:
            peer.raw(frame(PING, b"x" * 125) + frame(TEXT, b"x" * 60_000))

    spec = {"subscribe": tuple("y" * 1_000_000 for _ in range(8))}
    with Feed(behave) as feed, Child(task(feed.url, **spec)) as child:
        closed = until(lambda: child.log("connection.closed"), 10)[0]
        assert "does not read" in closed["reason"]


# --- the end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1001, 4001])
def test_a_stop_sends_a_close_frame_on_every_connection(code: int) -> None:
    with Feed(good) as feed, Child(task(*[feed.url] * 5, close_code=code)) as child:
        child.word(OPEN, 5)
        begun = time.monotonic()
        assert child.stop() == 0
        assert time.monotonic() - begun < 0.9
        until(lambda: len(feed.close_codes) == 5, 5)
        assert set(feed.close_codes) == {code}


def test_a_stop_waits_a_second_for_a_peer_that_does_not_answer() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.wait_for_end()

    with Feed(behave) as feed, Child(task(feed.url)) as child:
        child.word(OPEN, 1)
        begun = time.monotonic()
        assert child.stop() == 0
        assert 0.9 < time.monotonic() - begun < 1.3


def test_what_comes_before_the_answer_to_the_close_frame_is_delivered(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.next_frame()
        peer.text("late")
        peer.close(1001)

    path = tmp_path / "events"
    with Feed(behave) as feed, Child(task(feed.url, sink=f"jsonl:{path}")) as child:
        child.word(OPEN, 1)
        assert child.stop() == 0
    assert [event["data"] for event in lines(path)] == ["late"]


@pytest.mark.parametrize("state", ["waiting", "dialing"])
def test_a_stop_without_an_open_connection_is_immediate(state: str) -> None:
    def behave(peer: Peer) -> None:
        if state == "waiting":
            peer.refuse(401)
        else:
            peer.wait_for_end()

    with Feed(behave) as feed, Child(task(feed.url, reconnect_max_ms=60_000)) as child:
        until(lambda: feed.connects and (state == "dialing" or child.log("connection.closed")), 5)
        begun = time.monotonic()
        assert child.stop() == 0
        assert time.monotonic() - begun < 0.5


def test_a_sink_that_fails_ends_the_child_with_a_reason_and_a_close_frame() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text("for nobody")
        peer.serve()

    reader_fd, writer_fd = os.pipe()
    os.close(reader_fd)
    with open(writer_fd, "wb", buffering=0) as pipe, Feed(behave) as feed:
        with Child(task(feed.url, sink="stdout"), stdout_fd=pipe.fileno()) as child:
            assert child.wait() == 1
        assert "Broken pipe" in child.log("child.failed")[0]["reason"]
        assert len(child.log("child.failed")) == 1
        assert feed.close_codes == [1001]


def test_nothing_is_delivered_after_the_deadline(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        while not peer.feed.closing.wait(0.002):
            peer.text("tick")

    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 600 * 10**9
    path = tmp_path / "events"
    with Feed(behave) as feed:
        child = process(task(feed.url, sink=f"jsonl:{path}"), board)
        until(lambda: words[MESSAGES] > 0, 10)
        words[DEADLINE] = boottime_ns() + 200_000_000
        deadline_unix_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) + 200_000_000
        assert child.wait(10) == FENCED
    # A write that had begun may end after it; the kernel's timer has the last word, a few milliseconds later.
    assert path.stat().st_mtime_ns <= deadline_unix_ns + 10_000_000


def test_a_deadline_that_passed_while_the_child_was_stopped_ends_it_before_its_next_delivery() -> None:
    go_on = threading.Event()

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text("in time")
        go_on.wait(10)
        peer.text("late")
        peer.serve()

    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 600 * 10**9
    with Feed(behave) as feed:
        child = process(task(feed.url, sink="stdout"), board, stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert b"in time" in child.stdout.readline()
        child.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, 5)
        words[DEADLINE] = 1
        go_on.set()
        child.send_signal(signal.SIGCONT)
        assert child.wait(10) == FENCED
        assert child.stdout.read() == b""


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"sink": "kafka:"}, "sink 'kafka:' is none"),
        ({"sink": "jsonl:/nowhere/at/all"}, "cannot be opened: No such file"),
        ({"sink": "jsonl:/dev/null"}, "no regular file"),
        ({"subscribe": ("${nonsense}",)}, "a ${...} is no name"),
        ({"handler": "nowhere.py:X"}, "there is no file"),
        ({"max_message": 10}, "max_message"),
    ],
)
def test_a_task_that_cannot_be_done_ends_with_78_and_a_sentence(spec: dict[str, str], sentence: str) -> None:
    child = Child(task("ws://127.0.0.1:1", **spec))
    with child:
        assert child.wait() == 78
    assert sentence in child.log("child.failed")[0]["reason"]
