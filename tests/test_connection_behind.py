"""Connections behind a slow sink, or behind each other: what is noticed meanwhile, and that nothing is lost."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from tests.child import Child, task
from tests.feed import PING, TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, HEARTBEAT, MESSAGES, OPEN, SINK_WAITING

SINK = """
import pathlib, time
from tenured import Sink
class Slow(Sink):
    def write(self, events):
        {wait}
"""
STANDS = "while not pathlib.Path({go!r}).exists(): time.sleep(0.01)"
CRAWLS = "time.sleep(len(events) / 1000)"


def slow(folder: Path, wait: str) -> dict[str, object]:
    (folder / "slow.py").write_text(SINK.format(wait=wait.format(go=f"{folder}/go")))
    return {"sink": f"{folder}/slow.py:Slow", "sink_buffer": 65_536}


def flooding(peer: Peer) -> None:
    with contextlib.suppress(OSError):
        while not peer.feed.closing.is_set():
            peer.raw(frame(TEXT, b"x" * 1000) * 100)


def test_what_was_received_is_delivered_although_a_pong_of_ours_could_not_be_sent_any_more(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        if peer.number:
            peer.serve()
            return
        peer.accept()
        peer.raw(frame(TEXT, b"x" * 1000) * 180)
        peer.close(1001)
        peer.sock.close()

    spec = slow(tmp_path, STANDS) | {"ping_interval_ms": 200, "reconnect_min_ms": 60_000, "reconnect_max_ms": 60_000}
    with Feed(behave) as feed, Child(task(feed.url, **spec)) as child:
        child.word(SINK_WAITING, 65_536)
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + 1.5, 5)  # several pongs; the second one fails
        (tmp_path / "go").touch()
        child.word(MESSAGES, 180)
        until(lambda: child.log("connection.closed"), 10)
        assert child.log("connection.closed")[0]["code"] == 1001


def test_a_silent_connection_is_noticed_although_another_one_keeps_the_sink_busy(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        if peer.path == "/flood":
            threading.Thread(target=flooding, args=(peer,), daemon=True).start()
        else:
            threading.Thread(target=pinging, args=(peer,), daemon=True).start()
        peer.serve()

    def pinging(peer: Peer) -> None:
        with contextlib.suppress(OSError):
            while not peer.feed.closing.wait(0.1):
                peer.raw(frame(PING, b"a"))

    spec = slow(tmp_path, CRAWLS) | {"idle_timeout_ms": 1500}
    with Feed(behave) as feed, Child(task(feed.url + "/flood", feed.url + "/quiet", **spec)) as child:
        until(lambda: child.log("connection.silent"), 10)
        assert [line["connection"] for line in child.log("connection.silent")] == [1]


def test_after_a_pause_a_silence_is_told_when_it_is_one_and_not_at_the_next_ping(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(frame(TEXT, b"x" * 1000) * 1000)
        peer.serve()

    spec = slow(tmp_path, STANDS) | {"idle_timeout_ms": 1000, "ping_interval_ms": 60_000}
    with Feed(behave) as feed, Child(task(feed.url, **spec)) as child:
        child.word(SINK_WAITING, 65_536)
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + 1.5, 5)
        assert not child.log("connection.silent"), "it had not been listened to"
        (tmp_path / "go").touch()
        child.word(MESSAGES, 1000)
        all_ns = time.monotonic()
        until(lambda: child.log("connection.silent"), 10)
        assert time.monotonic() - all_ns < 2.0


def test_a_replaced_connection_ends_although_the_sink_is_always_behind(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        threading.Thread(target=flooding_until_closed, args=(peer,), daemon=True).start()
        peer.serve()

    def flooding_until_closed(peer: Peer) -> None:
        with contextlib.suppress(OSError):
            while not peer.feed.closing.is_set() and len(peer.feed.close_codes) <= peer.number:
                peer.raw(frame(TEXT, b"x" * 100) * 10)

    spec = slow(tmp_path, CRAWLS) | {"max_age_ms": 1000}
    with Feed(behave) as feed, Child(task(feed.url, **spec)) as child:
        child.word(CONNECTS, 2)
        until(lambda: feed.close_codes, 20)  # our close frame came, whatever waits unread
        assert child.words[OPEN] == 1


def test_tiny_frames_do_not_hold_up_the_heartbeat_or_a_stop() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        threading.Thread(target=empty, args=(peer,), daemon=True).start()
        peer.serve()

    def empty(peer: Peer) -> None:
        with contextlib.suppress(OSError):
            while not peer.feed.closing.is_set():
                peer.raw(frame(PING, b"") * 20_000)

    with Feed(behave) as feed, Child(task(*[f"{feed.url}/{number}" for number in range(4)])) as child:
        child.word(OPEN, 4)
        beats, between_ns, begun = {child.words[HEARTBEAT]: child.cpu_ns()}, [0], time.monotonic()

        def looked_long_enough() -> bool:
            spent_ns = child.cpu_ns()
            between_ns.append(spent_ns - beats.setdefault(child.words[HEARTBEAT], spent_ns))
            return len(beats) > 3 and time.monotonic() > begun + 2

        until(looked_long_enough, 60)
        assert max(between_ns) < 1_000_000_000
        begun = time.monotonic()
        assert child.stop() == 0
        assert time.monotonic() - begun < 5


def test_an_old_connections_silence_is_no_trouble_while_its_replacement_delivers() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        if peer.number:
            threading.Thread(target=talking, args=(peer,), daemon=True).start()
        peer.serve()

    def talking(peer: Peer) -> None:
        with contextlib.suppress(OSError):
            while not peer.feed.closing.wait(0.05):
                peer.text("alive")

    with Feed(behave) as feed, Child(task(feed.url, idle_timeout_ms=1300, max_age_ms=1200)) as child:
        child.word(CONNECTS, 2)
        until(lambda: child.log("connection.closed"), 10)
        assert not child.slot.read_trouble()
