"""What each cost becomes as children are added: python -m tests.bench.growth [--seconds N] [--json FILE]

One real `tenured run` on SQLite, T = 10 s, with 10 to 500 children, each with one idle connection. First how
long a start takes until all stream, after a kill -9, when nothing paces it. Then, at rest: memory, CPU of the parent,
and how long its loop takes to answer `health` through the control socket, while nobody asks anything else. At last how
late renewals are: all are due at one instant, and the last one of a round is in the store so long after the first.
`plot` draws the figures.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from supervisor.ask import ask, socket_path
from supervisor.demo.feed_process import FeedProcess
from tests.bench.figures import Figure, asked, cpu_s, in_folders, median, p99, pss_mib, report, spread
from tests.process.host import Host, wait_streaming
from tests.wait import until
from workers.process.kernel import boottime_ns

COUNTS = (10, 100, 200, 500)
OVERALL = "memory of all processes, for each of"  # so many children
LEASE_S = 10.0
RENEW_S = LEASE_S / 3
SETTLE_S = 5.0
ASK_EVERY_S, LOOK_EVERY_S = 0.02, 0.002
START, PARENT_MIB, SERVER_MIB, CHILD_MIB, ALL_MIB, CPU, ANSWER, LATE = (
    "kill -9 to all stream again",
    "memory of the parent",
    "memory of the fork server",
    "memory of a child",
    "memory of all",
    "CPU of the parent at rest",
    "the loop answers, p99",
    "a round of renewals, first to last",
)


def name(count: int, what: str) -> str:
    return f"{count} children: {what}"


def figures(folder: Path, count: int, seconds: int) -> Iterator[Figure]:
    store, room = folder / "leases.db", [f"capacity = {count}"]
    with (
        FeedProcess(folder / "feed.jsonl", rate=0) as feed,
        Host(
            folder, f"sqlite:///{store}", feed.url(), shards=count, lease_duration=f"{LEASE_S:g}s", supervisor=room
        ) as host,
    ):
        wait_streaming(feed, host.shards, timeout_s=120)
        killed_ns = boottime_ns()
        host.kill()
        host.start()
        until(lambda: sum(each.opened_ns > killed_ns for each in feed.connections()) == count, 120, 0.1)
        began_s = (max(each.opened_ns for each in feed.connections()) - killed_ns) / 1e9
        yield Figure(name(count, START), began_s, "s")
        time.sleep(SETTLE_S)
        yield from memory(host, count)
        yield from at_rest(host, count, seconds)
        yield median(name(count, LATE), rounds_ms(store, seconds), "ms")
        host.stop()


def memory(host: Host, count: int) -> Iterator[Figure]:
    (server,) = psutil.Process(host.pid).children()
    children_mib = [pss_mib(each.pid) for each in server.children()]
    parent_mib, server_mib = pss_mib(host.pid), pss_mib(server.pid)
    yield Figure(name(count, PARENT_MIB), parent_mib, "MiB")
    yield Figure(name(count, SERVER_MIB), server_mib, "MiB")
    yield Figure(name(count, CHILD_MIB), statistics.median(children_mib), "MiB", None, spread(children_mib, "MiB"))
    all_mib = parent_mib + server_mib + sum(children_mib)
    yield Figure(name(count, ALL_MIB), all_mib, "MiB")
    yield Figure(f"{OVERALL} {count} children", all_mib / count, "MiB")


def at_rest(host: Host, count: int, seconds: int) -> Iterator[Figure]:
    used_s, began_s = cpu_s(host.pid), time.monotonic()
    time.sleep(seconds)
    share = (cpu_s(host.pid) - used_s) / (time.monotonic() - began_s) * 100
    yield Figure(name(count, CPU), share, "% of a core")
    socket, took_ms = socket_path(host.folder / "run"), []
    for _ in range(int(seconds / ASK_EVERY_S)):
        asked_ns = boottime_ns()
        ask(socket, "health", timeout_s=10)
        took_ms.append((boottime_ns() - asked_ns) / 1e6)
        time.sleep(ASK_EVERY_S)
    yield Figure(name(count, ANSWER), p99(took_ms), "ms", None, spread(took_ms, "ms"))


def rounds_ms(store: Path, seconds: int) -> list[float]:
    """How long each round took, from the look before its first change to the one that saw its last."""
    rounds: list[tuple[float, float]] = []
    until_s = time.monotonic() + max(seconds, 4 * RENEW_S)
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)) as file:
        beats, looked_s = _beats(file), time.monotonic()
        while (now_s := time.monotonic()) < until_s:
            before, beats = beats, _beats(file)
            if beats != before and rounds and now_s - rounds[-1][1] < RENEW_S / 4:
                rounds[-1] = (rounds[-1][0], now_s)
            elif beats != before:
                rounds.append((looked_s, now_s))
            looked_s = now_s
            time.sleep(LOOK_EVERY_S)
    return [(ended_s - began_s) * 1000 for began_s, ended_s in rounds[1:-1]]  # the others may be halves


def _beats(file: sqlite3.Connection) -> int:
    return int(file.execute("SELECT sum(beat) FROM leases WHERE substr(lease, 1, 1) <> '@'").fetchone()[0])


if __name__ == "__main__":
    options = asked("growth", seconds=10)
    parts = ((f"growth-{count}", partial(figures, count=count, seconds=options.seconds)) for count in COUNTS)
    sys.exit(report(in_folders(parts), options.json))
