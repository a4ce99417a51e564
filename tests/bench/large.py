"""Large messages: does their time grow as they do, and what memory do they take at most?

    python -m tests.bench.large [--rounds N]

A server sends one message of 8, 16, 32 or 64 MiB, in fragments of 16 KiB or as one frame, text or binary, to a real
child with the sink `discard`. Time is CPU of the child from before the message until it was handed over; memory is the
growth of the most that was ever resident, in sizes of the message. Beside it, for the smallest size, `recv()` of
websocket-client. The exit code is 1 if a goal is missed: 64 MiB cost more than 1.5 times what eight times 8 MiB do, or
more than 2.5 times their size in memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.arguments import whole
from tests.bench.figures import cpu_s
from tests.bench.firehose import serving, when_told
from tests.child import process, task
from tests.feed import BINARY, TEXT, frame
from tests.wait import until
from workers.board import DEADLINE, MESSAGES, OPEN, Board

MIB = 1024 * 1024
SIZES = (8, 16, 32, 64)
FRAGMENT_BYTES = 16 * 1024
GROWTH_MAX, MEMORY_MAX = 1.5, 2.5

PEER = """
import sys, time, websocket
client = websocket.WebSocket(skip_utf8_validation=True, enable_multithread=False)
client.connect(sys.argv[1])
begun = time.process_time()
assert client.recv()
print((time.process_time() - begun) * 1000)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_ms: float
    memory: float  # in sizes of the message


def encoded(opcode: int, size: int, fragmented: bool) -> bytes:
    payload = (b"x" if opcode == TEXT else b"\xff") * size
    if not fragmented:
        return frame(opcode, payload)
    pieces = [payload[at : at + FRAGMENT_BYTES] for at in range(0, size, FRAGMENT_BYTES)]
    last = len(pieces) - 1
    return b"".join(frame(0 if n else opcode, piece, n == last) for n, piece in enumerate(pieces))


def resident_bytes(pid: int, which: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))


def child_cost(data: bytes, size: int) -> Cost:
    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 600 * 10**9
    go = multiprocessing.Event()
    with serving(when_told, data, go) as url:
        child = process(task(url, max_message=64 * MIB), board, stderr=subprocess.DEVNULL)
        try:
            until(lambda: words[OPEN], 30, 0.001)
            before, begun_s = resident_bytes(child.pid, "VmRSS"), cpu_s(child.pid)
            go.set()
            until(lambda: words[MESSAGES], 60, 0.001)
            return Cost((cpu_s(child.pid) - begun_s) * 1000, (resident_bytes(child.pid, "VmHWM") - before) / size)
        finally:
            child.kill()
            child.wait()


def peer_ms(data: bytes) -> float:
    go = multiprocessing.Event()
    go.set()
    with serving(when_told, data, go) as url:
        command = [sys.executable, "-c", PEER, url]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def shapes() -> Iterator[tuple[str, int, bool]]:
    for kind, opcode in (("text", TEXT), ("binary", BINARY)):
        yield f"{kind}, fragments of 16 KiB", opcode, True
        yield f"{kind}, one frame", opcode, False


def measured(name: str, opcode: int, fragmented: bool, rounds: int) -> bool:
    medians: dict[int, float] = {}
    memory = 0.0
    for size in SIZES:
        data = encoded(opcode, size * MIB, fragmented)
        costs = [child_cost(data, size * MIB) for _ in range(rounds)]
        medians[size] = statistics.median(cost.cpu_ms for cost in costs)
        memory = statistics.median(cost.memory for cost in costs)
        print(f"{name:28} {size:3} MiB {medians[size]:8.1f} ms CPU, at most {memory:.2f} times its size", flush=True)
    data = encoded(opcode, SIZES[0] * MIB, fragmented)
    theirs = statistics.median(peer_ms(data) for _ in range(rounds))
    times = theirs / medians[SIZES[0]]
    print(f"{name:28} {SIZES[0]:3} MiB {theirs:8.1f} ms in websocket-client, {times:.1f} times ours")
    growth = medians[SIZES[-1]] / medians[SIZES[0]] / (SIZES[-1] / SIZES[0])
    met = growth <= GROWTH_MAX and memory <= MEMORY_MAX
    goals = f"growth by size {growth:.2f}, goal {GROWTH_MAX}; memory {memory:.2f}, goal {MEMORY_MAX}"
    print(f"{name:28} {goals}: {'met' if met else 'MISSED'}", flush=True)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.large")
    parser.add_argument("--rounds", type=whole, default=3)
    options = parser.parse_args()
    results = [measured(*shape, options.rounds) for shape in shapes()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
