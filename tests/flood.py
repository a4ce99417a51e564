"""A feed that is far faster than what consumes it: what the child then takes, and where each message is.

A server offers numbered messages at `RATE_PER_S` and writes what the socket takes; the rest waits with it. A real child
hands them to something that bears `SLOW_PER_S`: a sink of a user's own, or a handler in front of a file. At the end the
consumer is told to hurry, so that all that the socket took must arrive, once and in order, but for what may be dropped.
"""

from __future__ import annotations

import itertools
import json
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.child import process, task
from tests.feed import TEXT, Feed, Peer, frame
from tests.wait import ready, until
from workers.board import DEADLINE, EVENTS_DROPPED, LAST_EVENT, MESSAGES, SINK_WAITING, Board
from workers.process.kernel import boottime_ns

RATE_PER_S = 50_000
SLOW_PER_S = 1_000
MESSAGE_BYTES = 100
_BLOCK = 500

SINK = """
import os, time
from tenured import Sink

class Slow(Sink):
    def write(self, events):
        with open({folder!r} + "/delivered", "a") as file:
            for event in events:
                print(event.data, file=file)
        if not os.path.exists({folder!r} + "/hurry"):
            time.sleep(len(events) / {per_s})
"""
HANDLER = """
import os, time
from tenured import Handler

class Slow(Handler):
    def start(self, shard):
        self.hurry = False
        self.every(0.2, self.look)

    def look(self):
        self.hurry = os.path.exists({folder!r} + "/hurry")

    def message(self, connection, message):
        if not self.hurry:
            time.sleep(1 / {per_s})
        self.emit(message)
"""


@dataclass(frozen=True, slots=True)
class Flooded:
    """What became of the messages that the server offered, and by how much the child's memory grew at most."""

    offered: int
    waiting_at_server: int
    delivered: int
    dropped: int
    in_order: bool
    before_hurry: int  # delivered until then
    grown_mib: float
    waiting_max_bytes: int  # by the board
    exit_code: int


class _Server:
    """Offers by the clock until `stop`, then says no more than what the socket took a part of."""

    def __init__(self) -> None:
        self.stop, self.done = threading.Event(), threading.Event()
        self.offered = self.taken = 0

    def behave(self, peer: Peer) -> None:
        peer.accept()
        peer.sock.setblocking(False)
        begun = time.monotonic()
        left = b""
        in_hand = 0
        while not self.stop.is_set():
            self.offered = int((time.monotonic() - begun) * RATE_PER_S)
            if not left:
                self.taken += in_hand
                in_hand = min(_BLOCK, self.offered - self.taken)
                left = b"".join(
                    frame(TEXT, b"%0*d" % (MESSAGE_BYTES, self.taken + number)) for number in range(in_hand)
                )
            left = self._send(peer, left)
        peer.sock.settimeout(60)
        peer.sock.sendall(left)
        self.taken += in_hand
        self.done.set()
        peer.serve()

    def _send(self, peer: Peer, left: bytes) -> bytes:
        if not left or not ready([peer.sock], select.POLLOUT, 0.01):
            self.stop.wait(0.002)
            return left
        return left[peer.sock.send(left) :]


def flood(folder: Path, consumer: str, seconds: float, **spec: Any) -> Flooded:
    """`consumer`: sink or handler."""
    source = (SINK if consumer == "sink" else HANDLER).format(folder=str(folder), per_s=SLOW_PER_S)
    (folder / "slow.py").write_text(source)
    code = f"{folder}/slow.py:Slow"
    events = folder / "events"
    given: dict[str, Any] = {"sink": code} if consumer == "sink" else {"sink": f"jsonl:{events}", "handler": code}
    server, board = _Server(), Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 3600 * 10**9
    with Feed(server.behave) as feed:
        child = process(task(feed.url, base=str(folder), **given, **spec), board)
        try:
            until(lambda: words[LAST_EVENT] and words[MESSAGES] > 0, 20)
            begun_mib, samples, waiting = resident_mib(child.pid), [0.0], [0]
            for _ in _seconds(seconds):
                samples.append(resident_mib(child.pid))
                waiting.append(words[SINK_WAITING])
                assert child.poll() is None, "the child ended"
            before_hurry = sum(1 for _ in numbers(folder))
            server.stop.set()
            (folder / "hurry").touch()
            until(lambda: _settled(folder, server, words[EVENTS_DROPPED]), 60, 0.2)
            samples.append(resident_mib(child.pid))
        finally:
            exit_code = _ended(child)
    found = list(numbers(folder))
    return Flooded(
        offered=server.offered,
        waiting_at_server=server.offered - server.taken,
        delivered=len(found),
        dropped=words[EVENTS_DROPPED],
        in_order=all(first < second for first, second in itertools.pairwise(found)),
        before_hurry=before_hurry,
        grown_mib=max(samples) - begun_mib,
        waiting_max_bytes=max(waiting),
        exit_code=exit_code,
    )


def _seconds(seconds: float) -> Iterator[int]:
    """A number every 50 ms."""
    pause = threading.Event()
    end = time.monotonic() + seconds
    for number in itertools.count():
        if time.monotonic() >= end:
            return
        pause.wait(0.05)
        yield number


def _settled(folder: Path, server: _Server, dropped: int) -> bool:
    return server.done.is_set() and sum(1 for _ in numbers(folder)) + dropped == server.taken


def _ended(child: subprocess.Popen[bytes]) -> int:
    child.send_signal(signal.SIGTERM)
    try:
        return child.wait(20)
    finally:
        child.kill()


def numbers(folder: Path) -> Iterator[int]:
    """Of the messages that were delivered."""
    for name, number in (("delivered", int), ("events", lambda line: int(json.loads(line)["data"]))):
        path = folder / name
        if path.exists():
            yield from map(number, path.read_bytes().splitlines())


def resident_mib(pid: int) -> float:
    """Memory of the process, without what it shares with files."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:")) / 1024
