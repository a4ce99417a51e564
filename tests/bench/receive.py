"""What a received message costs in CPU: our child against other libraries, in the same run.

    python -m tests.bench.receive [--rounds N] [--messages N] [--json FILE]

All are fed by the same kind of server, a process that sends one block of frames, encoded beforehand, again and again.
The others are set as fast as they go (see `receivers`); the child is a real process that runs the whole loop with the
sink `discard`, and checks all text strictly. CPU is user + system time of the receiving process, all its threads,
between two of its own message counts, so that start and connect are left out. Rounds alternate.

`adds`: the same child with what costs more: a sink that writes, a pointer into each batch or message, a handler. The
file of the sink `jsonl` is in a temporary folder. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, alternating, asked, cpu_s, median, report, spread, times
from tests.bench.firehose import CERTIFICATE, pour, serving
from tests.bench.receivers import RECEIVERS
from tests.child import process, task
from tests.wait import until
from workers.board import DEADLINE, MESSAGES, Board
from workers.process.kernel import boottime_ns

SIZES = (100, 1024)
OURS = "tenured"
FACTORS = {"websocket-client": 1, "websockets": 1, "aiohttp": 4, "picows": 10, OURS: 10}  # messages, by speed
HANDLER = Path(__file__).with_name("handlers.py")
PLAIN, TLS = "plain", "TLS"
GOALS = {  # the peer's cost is at least so many times ours
    (PLAIN, 100, "websocket-client"): 10,
    (PLAIN, 1024, "websocket-client"): 6,
    (PLAIN, 100, "websockets"): 4,
    (PLAIN, 1024, "websockets"): 3,
    (PLAIN, 100, "picows"): 1,
    (PLAIN, 1024, "picows"): 0.66,
    (TLS, 100, "websocket-client"): 6,
    (TLS, 1024, "websocket-client"): 3,
}


def peer_us(name: str, url: str, messages: int) -> float:
    """CPU microseconds per message."""
    command = [sys.executable, "-m", "tests.bench.receivers", name, url, str(messages)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def child_us(url: str, messages: int, **spec: Any) -> float:
    """CPU microseconds per message of our child."""
    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 600 * 10**9
    child = process(task(url, tls_ca=CERTIFICATE, **spec), board, stderr=subprocess.DEVNULL)
    try:
        until(lambda: words[MESSAGES] > messages // 10, 30, 0.001)
        begin, begin_s = words[MESSAGES], cpu_s(child.pid)
        until(lambda: words[MESSAGES] >= begin + messages, 60, 0.001)
        end, end_s = words[MESSAGES], cpu_s(child.pid)
    finally:
        child.kill()
        child.wait()
    return (end_s - begin_s) / (end - begin) * 1e6


def against_peers(way: str, size: int, options: argparse.Namespace) -> Iterator[Figure]:
    with serving(pour, size, tls=way == TLS) as url:
        runs: dict[str, Callable[[], float]] = {
            name: partial(peer_us, name, url, options.messages * FACTORS[name]) for name in RECEIVERS
        }
        runs[OURS] = partial(child_us, url, options.messages * FACTORS[OURS])
        values = alternating(runs, options.rounds)
    yield median(f"{way}, {size} B: {OURS}", values[OURS], "us")
    for name in RECEIVERS:
        yield times(f"{way}, {size} B: {name}", values[name], values[OURS], "us", GOALS.get((way, size, name)))


def added(size: int, options: argparse.Namespace) -> Iterator[Figure]:
    """What is asked for besides, and what it adds to each message."""
    with serving(pour, size) as url, tempfile.TemporaryDirectory(prefix="bench-receive-") as folder:
        few, many = partial(child_us, url, options.messages * 2), partial(child_us, url, options.messages * 10)
        runs: dict[str, Callable[[], float]] = {
            "nothing": many,
            "checkpoint = /seq": partial(many, checkpoint="/seq"),
            "sequence = /seq": partial(few, sequence="/seq"),
            "id = /seq": partial(few, id="/seq"),
            "a handler with messages()": partial(many, handler=f"{HANDLER}:Batches"),
            "a handler with message()": partial(many, handler=f"{HANDLER}:Each"),
            "a handler that emits each message": partial(many, handler=f"{HANDLER}:Emits"),
            "the sink jsonl, files included": partial(few, sink=f"jsonl:{folder}/events.jsonl"),
        }
        values = alternating(runs, options.rounds)
    nothing = values.pop("nothing")
    for name, each in values.items():
        adds, noise = statistics.median(each) - statistics.median(nothing), _range(each) + _range(nothing)
        whole_us = f"with the message {spread(each, 'us')}"
        yield Figure(f"adds, {size} B: {name}", adds, "us", detail=whole_us, noise=noise)


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    for size in SIZES:
        yield from against_peers(PLAIN, size, options)
        yield from against_peers(TLS, size, options)
        yield from added(size, options)


if __name__ == "__main__":
    given = asked("receive", rounds=3, messages=50_000)  # messages of the slowest; the faster get up to ten times
    sys.exit(report(figures(given), given.json))
