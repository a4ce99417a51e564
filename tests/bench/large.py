"""Large messages: does their time grow as they do, and what memory do they take at most?

    python -m tests.bench.large [--rounds N] [--json FILE]

A server sends one message of 8, 16, 32 or 64 MiB, in fragments of 16 KiB or as one frame, text or binary, to a real
child with the sink `discard`. Time is CPU of the child from before the message until it was handed over; memory is the
growth of the most that was ever resident, in sizes of the message. Beside it, for the smallest size, `recv()` of
websocket-client. The exit code is 1 if a goal is missed: 64 MiB cost more than 1.5 times what eight times 8 MiB do, or
more than 2.5 times their size in memory.
"""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figure, asked, cpu_s, median, report, times
from tests.bench.firehose import serving, when_told
from tests.child import process, task
from tests.feed import BINARY, TEXT, frame
from tests.wait import until
from workers.board import DEADLINE, MESSAGES, OPEN, Board
from workers.process.kernel import boottime_ns

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
    words[DEADLINE] = boottime_ns() + 600 * 10**9
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


def measured(name: str, opcode: int, fragmented: bool, rounds: int) -> Iterator[Figure]:
    cpu_ms: dict[int, list[float]] = {}
    memory: list[float] = []
    for size in SIZES:
        data = encoded(opcode, size * MIB, fragmented)
        costs = [child_cost(data, size * MIB) for _ in range(rounds)]
        cpu_ms[size], memory = [cost.cpu_ms for cost in costs], [cost.memory for cost in costs]
    few, much = SIZES[0], SIZES[-1]
    growth = statistics.median(cpu_ms[much]) / statistics.median(cpu_ms[few]) / (much / few)
    yield median(f"{name}: {few} MiB", cpu_ms[few], "ms")
    yield median(f"{name}: {much} MiB", cpu_ms[much], "ms")
    yield Figure(f"{name}: a MiB of {much}, times one of {few}", growth, "x", GROWTH_MAX)
    yield median(f"{name}: memory at most, times the message", memory, "x", MEMORY_MAX)
    data = encoded(opcode, few * MIB, fragmented)
    yield times(f"{name}: {few} MiB, websocket-client", [peer_ms(data) for _ in range(rounds)], cpu_ms[few], "ms")


def figures(rounds: int) -> Iterator[Figure]:
    for shape in shapes():
        yield from measured(*shape, rounds)


if __name__ == "__main__":
    options = asked("large", rounds=3)
    sys.exit(report(figures(options.rounds), options.json))
