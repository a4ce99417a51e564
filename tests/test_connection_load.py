"""Connections that carry more than the consumer, or their neighbours, can bear."""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time

from tests.child import Child, process, task
from tests.feed import CLOSE, PING, PONG, TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, DEADLINE, HEARTBEAT, MESSAGES, Board

BLOCK = frame(TEXT, b"x" * 1000) * 200
STALLED = {"sink": "stdout", "sink_buffer": 64 * 1024}


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def flood(peer: Peer) -> None:
    """Send without end, and record meanwhile what the client says."""
    peer.accept()

    def write() -> None:
        try:
            while not peer.feed.closing.is_set():
                peer.raw(BLOCK)
        except OSError:
            return

    threading.Thread(target=write, daemon=True).start()
    while True:
        opcode, payload = peer.next_frame()
        if opcode == PONG:
            peer.feed.pongs.append(payload)
        elif opcode == CLOSE:
            peer.feed.close_codes.append(int.from_bytes(payload[:2], "big"))
            return


def test_flooding_connections_hardly_delay_a_quiet_one() -> None:
    delays: list[float] = []

    def behave(peer: Peer) -> None:
        if peer.path != "/quiet":
            flood(peer)
            return
        peer.accept()
        for number in range(40):
            begun = time.monotonic()
            peer.raw(frame(PING, str(number).encode()))
            assert peer.next_frame() == (PONG, str(number).encode())
            delays.append(time.monotonic() - begun)
            peer.feed.closing.wait(0.02)
        peer.serve()

    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 600 * 10**9
    with Feed(behave) as feed:
        child = process(task(*[feed.url + "/busy"] * 4, feed.url + "/quiet"), board)
        try:
            until(lambda: len(delays) == 40, 30)
            assert words[MESSAGES] > 10_000
        finally:
            child.kill()
            child.wait()
    assert statistics.median(delays) < 0.15


def test_while_the_sink_takes_nothing_pongs_tell_the_peer_that_we_live_and_it_is_not_given_up() -> None:
    out_fd, in_fd = os.pipe()
    spec = {**STALLED, "ping_interval_ms": 100, "ping_timeout_ms": 100, "idle_timeout_ms": 300}
    with open(out_fd, "rb") as out, open(in_fd, "wb") as in_, Feed(flood) as feed:
        with Child(task(feed.url, **spec), stdout_fd=in_.fileno()) as child:
            until(lambda: feed.pongs.count(b"") >= 8, 10)
            assert child.words[CONNECTS] == 1
            assert not child.log("connection.silent")
            threading.Thread(target=lambda: [None for _ in out], daemon=True).start()
        in_.close()


def test_a_stop_sends_its_close_frame_also_where_nothing_is_read_since_the_sink_takes_nothing() -> None:
    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 600 * 10**9
    with Feed(flood) as feed:
        child = process(task(feed.url, close_code=4002, ping_interval_ms=100, **STALLED), board, subprocess.PIPE)
        try:
            until(lambda: feed.pongs, 10)
            child.terminate()
            until(lambda: feed.close_codes == [4002], 5)
            beat = words[HEARTBEAT]
            until(lambda: words[HEARTBEAT] > beat, 2)
        finally:
            child.kill()
            child.communicate()
