"""Many connections in one process: what 25 of them cost with 10,000 messages a second in all.

    python -m tests.bench.many [--rounds N] [--seconds N] [--json FILE]

A server sends the messages one by one, evenly, to one connection after the other. Our child holds all connections in
one thread and reads each message by itself, as it comes; beside it one process with a thread and a `WebSocketApp` of
websocket-client for each connection, and one with `websockets` on asyncio. CPU is that of all threads of the process,
as a share of one core. Rounds alternate. The exit code is 1 if the goal is missed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.bench.figures import Figure, alternating, asked, cpu_s, median, report, times
from tests.bench.firehose import in_time
from tests.child import process, task
from tests.wait import until
from workers.board import DEADLINE, MESSAGES, OPEN, Board
from workers.process.kernel import boottime_ns

CONNECTIONS, PER_SECOND, BYTES = 25, 10_000, 200
GOAL = 2.0
OURS, APPS, TASKS = "a tenured child", "threads with WebSocketApp", "websockets on asyncio"
SCRIPTS = {
    APPS: """
import sys, threading, time, websocket
def message(app, text):
    pass
for _ in range(int(sys.argv[2])):
    app = websocket.WebSocketApp(sys.argv[1], on_message=message)
    threading.Thread(target=app.run_forever, kwargs={"skip_utf8_validation": True}).start()
""",
    TASKS: """
import asyncio, sys
from websockets.asyncio.client import connect
async def one(url):
    async with connect(url, compression=None) as client:
        async for message in client:
            pass
async def main():
    await asyncio.gather(*(one(sys.argv[1]) for _ in range(int(sys.argv[2]))))
asyncio.run(main())
""",
}


def share(pid: int, seconds: int) -> float:
    """Of a core that a process uses, once it has settled."""
    time.sleep(1)
    begun_s, used_s = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - used_s) / (time.monotonic() - begun_s) * 100


def script_share(script: str, url: str, seconds: int) -> float:
    other = subprocess.Popen([sys.executable, "-c", script, url, str(CONNECTIONS)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: cpu_s(other.pid) > 0.3, 30)
        return share(other.pid, seconds)
    finally:
        other.kill()
        other.wait()


def child_share(url: str, seconds: int) -> float:
    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = boottime_ns() + 600 * 10**9
    child = process(task(*[url] * CONNECTIONS), board, stderr=subprocess.DEVNULL)
    try:
        until(lambda: words[OPEN] == CONNECTIONS and words[MESSAGES] > 0, 30)
        before, begun_s = words[MESSAGES], time.monotonic()
        used = share(child.pid, seconds)
        rate = (words[MESSAGES] - before) / (time.monotonic() - begun_s)
        assert rate > 0.95 * PER_SECOND, f"only {rate:.0f} messages came in a second"
        return used
    finally:
        child.kill()
        child.wait()


def figures(rounds: int, seconds: int) -> Iterator[Figure]:
    with in_time(CONNECTIONS, PER_SECOND, BYTES) as url:
        runs: dict[str, Callable[[], float]] = {
            APPS: partial(script_share, SCRIPTS[APPS], url, seconds),
            TASKS: partial(script_share, SCRIPTS[TASKS], url, seconds),
            OURS: partial(child_share, url, seconds),
        }
        values = alternating(runs, rounds)
    yield median(OURS, values[OURS], "% of a core")
    yield times(APPS, values[APPS], values[OURS], "% of a core", GOAL)
    yield times(TASKS, values[TASKS], values[OURS], "% of a core")


if __name__ == "__main__":
    options = asked("many", rounds=3, seconds=5)
    sys.exit(report(figures(options.rounds, options.seconds), options.json))
