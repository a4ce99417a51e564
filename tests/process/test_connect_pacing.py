"""Attempts to connect of all children of one host, through a real supervisor: what the server sees of them."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from pathlib import Path

import pytest

from supervisor import exits
from tests.feed import Feed, Peer
from tests.process.host import Host, tenured
from tests.wait import until

RATE = 10


@pytest.fixture
def store(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path / 'leases.db'}"
    assert tenured("init", "--store", made).returncode == exits.OK
    return made


class Cutter:
    """A server that keeps its clients until it cuts them all at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Peer] = []

    def behave(self, peer: Peer) -> None:
        peer.accept()
        with self._lock:
            self._open.append(peer)
        try:
            peer.serve()
        finally:
            with self._lock:
                self._open.remove(peer)

    @property
    def open(self) -> int:
        return len(self._open)

    def cut(self) -> None:
        with self._lock:
            for peer in self._open:
                peer.sock.shutdown(2)


@pytest.mark.alone
def test_fifty_connections_of_five_children_that_are_cut_at_once_come_back_at_the_configured_rate(
    tmp_path: Path, store: str
) -> None:
    cutter = Cutter()
    with Feed(cutter.behave) as feed:
        urls = "".join(f"\n    {feed.url}/{number}" for number in range(10))
        stream = (f"connect_rate = {RATE}/s", "reconnect_min = 10ms")
        with Host(tmp_path / "a", store, urls, shards=5, stream=stream) as host:
            until(lambda: cutter.open == 50, 30)
            cutter.cut()
            cut_at = time.monotonic()
            until(lambda: cutter.open < 50, 5)
            until(lambda: cutter.open == 50, 30)
            assert host.stop() == exits.OK
    times = sorted(connect.at for connect in feed.connects)
    assert len(times) == 100
    most = max(bisect_left(times, begin + 1) - number for number, begin in enumerate(times))
    assert most <= RATE + 1
    assert times[-1] - cut_at < 50 / RATE + 3, "the rate is used"


def test_what_one_child_is_told_to_wait_is_waited_for_by_all_children_of_the_host(tmp_path: Path, store: str) -> None:
    refused_at: list[float] = []
    refusing, told = threading.Event(), threading.Event()

    def behave(peer: Peer) -> None:
        if refusing.is_set() and not refused_at:
            refused_at.append(time.monotonic())
            peer.refuse(429, "Retry-After: 3")
            told.set()
            return
        peer.accept()
        if peer.path == "/0" and not told.is_set():
            refusing.wait(30)  # then it hangs up, comes back, and is refused
        elif peer.path == "/1" and not told.is_set():
            told.wait(30)
            peer.feed.closing.wait(0.5)  # the word has gone round; now this one is cut, too
        else:
            peer.serve()

    with Feed(behave) as feed:
        url = f"{feed.url}/${{index}}"
        with Host(tmp_path / "a", store, url, shards=2, stream=("reconnect_min = 10ms", "reconnect_max = 20ms")):
            until(lambda: len(feed.connects) == 2, 20)
            refusing.set()
            until(lambda: len(feed.connects) == 5, 20)
    assert [connect.path for connect in feed.connects[2:]].count("/1") == 1
    assert all(connect.at >= refused_at[0] + 2.9 for connect in feed.connects[3:])
