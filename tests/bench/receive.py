"""What a received message costs in CPU: our child against other libraries, in the same run.

    python -m tests.bench.receive [--rounds N] [--messages N] [--sizes BYTES ...] [--only plain|tls|price]

All are fed by the same kind of server, a process that sends one block of frames, encoded beforehand, again and again.
The others are set as fast as they go (see `receivers`); the child is a real process that runs the whole loop with the
sink `discard`, and checks all text strictly. CPU is user + system time of the receiving process, all its threads,
between two of its own message counts, so that start and connect are left out. Rounds alternate; medians are shown, and
a ratio is that of two medians.

`price`: the same child with what costs more: a sink that writes, a pointer into each batch or message, a handler. The
file of the sink `jsonl` is in a temporary folder. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.arguments import whole
from tests.bench.figures import cpu_s
from tests.bench.firehose import CERTIFICATE, pour, serving
from tests.bench.receivers import RECEIVERS
from tests.child import process, task
from tests.wait import until
from workers.board import DEADLINE, MESSAGES, Board

SIZES = (100, 1024)
OURS = "tenured"
FACTORS = {"websocket-client": 1, "websockets": 1, "aiohttp": 4, "picows": 10, OURS: 10}  # messages, by speed
HANDLER = Path(__file__).with_name("handlers.py")


@dataclass(frozen=True, slots=True)
class Goal:
    """The peer's cost is at least `ratio` times ours."""

    peer: str
    size: int
    ratio: float


PLAIN = (
    Goal("websocket-client", 100, 10),
    Goal("websocket-client", 1024, 6),
    Goal("websockets", 100, 4),
    Goal("websockets", 1024, 3),
    Goal("picows", 100, 1),
    Goal("picows", 1024, 1 / 1.5),
)
TLS = (Goal("websocket-client", 100, 6), Goal("websocket-client", 1024, 3))


def peer_us(name: str, url: str, messages: int) -> float:
    """CPU microseconds per message."""
    command = [sys.executable, "-m", "tests.bench.receivers", name, url, str(messages)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def child_us(url: str, messages: int, **spec: Any) -> float:
    """CPU microseconds per message of our child."""
    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 600 * 10**9
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


def alternating(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """All runs in turn, again and again."""
    values: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            values[name].append(run())
    return values


def against_peers(size: int, tls: bool, goals: Sequence[Goal], options: argparse.Namespace) -> bool:
    with serving(pour, size, tls=tls) as url:
        runs: dict[str, Callable[[], float]] = {
            name: lambda name=name: peer_us(name, url, options.messages * FACTORS[name])  # type: ignore[misc]
            for name in RECEIVERS
        }
        runs[OURS] = lambda: child_us(url, options.messages * FACTORS[OURS])
        values = alternating(runs, options.rounds)
    what = f"{size} B over TLS" if tls else f"{size} B"
    medians = {name: statistics.median(each) for name, each in values.items()}
    for name, each in values.items():
        print(f"{what:14} {name:18} {medians[name]:8.3f} us ({min(each):.3f} to {max(each):.3f})", end="")
        ratio = medians[name] / medians[OURS]
        print("" if name == OURS else f"  {ratio:6.2f} times ours{verdict(name, size, ratio, goals)}", flush=True)
    return all(medians[goal.peer] >= goal.ratio * medians[OURS] for goal in goals if goal.size == size)


def verdict(name: str, size: int, ratio: float, goals: Sequence[Goal]) -> str:
    for goal in goals:
        if (goal.peer, goal.size) == (name, size):
            return f", goal {goal.ratio:.2f}: {'met' if ratio >= goal.ratio else 'MISSED'}"
    return ""


def prices(size: int, options: argparse.Namespace) -> None:
    """What is asked for besides, and what it adds to each message."""
    with serving(pour, size) as url, tempfile.TemporaryDirectory(prefix="bench-receive-") as folder:
        few, many = options.messages * 2, options.messages * 10
        jsonl = f"jsonl:{folder}/events.jsonl"
        runs: dict[str, Callable[[], float]] = {
            "discard": lambda: child_us(url, many),
            "checkpoint = /seq": lambda: child_us(url, many, checkpoint="/seq"),
            "sequence = /seq": lambda: child_us(url, few, sequence="/seq"),
            "id = /seq": lambda: child_us(url, few, id="/seq"),
            "handler, message()": lambda: child_us(url, many, handler=f"{HANDLER}:Each"),
            "handler, messages()": lambda: child_us(url, many, handler=f"{HANDLER}:Batches"),
            "handler that emits": lambda: child_us(url, many, handler=f"{HANDLER}:Emits"),
            "sink = jsonl": lambda: child_us(url, few, sink=jsonl),
        }
        values = alternating(runs, options.rounds)
    plain = statistics.median(values["discard"])
    for name, each in values.items():
        median = statistics.median(each)
        more = "" if name == "discard" else f"  {median - plain:+.3f} us"
        print(f"{size:5} B  {name:24} {median:8.3f} us ({min(each):.3f} to {max(each):.3f}){more}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.receive")
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument("--messages", type=whole, default=50_000, help="of the slowest; the faster get up to ten times")
    parser.add_argument("--sizes", type=whole, nargs="+", default=SIZES)
    parser.add_argument("--only", choices=("plain", "tls", "price"))
    options = parser.parse_args()
    print("CPU per message, median (lowest to highest)")
    met = True
    for size in options.sizes:
        if options.only in (None, "plain"):
            met = against_peers(size, False, PLAIN, options) and met
        if options.only in (None, "tls"):
            met = against_peers(size, True, TLS, options) and met
        if options.only in (None, "price"):
            prices(size, options)
    print("every goal was met" if met else "a goal was MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
