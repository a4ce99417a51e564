"""What a scrape costs the loop: python -m tests.bench.metrics [--shards N] [--seconds N] [--json FILE]

A loop gets a byte from another process every few milliseconds, with the instant at which it was sent; the reaction is
the time until the loop has read it. Once a second a thread asks for a page: of `Metrics`, over a state of as many
shards, and, in the same run, of prometheus_client's own gauges and counters of the same numbers. Beside them the loop
that nobody scrapes. The exit code is 1 if a figure misses its goal.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from supervisor.core.model import Report
from supervisor.core.state import State
from supervisor.metrics.families import PER_SHARD
from supervisor.metrics.metrics import Metrics
from tests.bench.figures import Figure, asked, median, p99, report, spread, times
from tests.core import mine, ns, state
from tests.metrics import ruled

MS = 1000.0
SCRAPE_EVERY_S = 1.0
GOAL_MS = 2.0
OURS, THEIRS = "tenured's", "prometheus_client's"
SENDER = """
import os, struct, time
while True:
    time.sleep(0.002)
    os.write(1, struct.pack("d", time.monotonic()))
"""

Scrape = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Run:
    """`reactions`: when each byte was sent, and how long it took until it was read; `pages`: when each was made."""

    reactions: list[tuple[float, float]] = field(default_factory=list)
    pages: list[tuple[float, float]] = field(default_factory=list)

    def all_ms(self) -> list[float]:
        return [took_s * MS for _, took_s in self.reactions]

    def during_pages_ms(self) -> list[float]:
        return [
            took_s * MS
            for sent_s, took_s in self.reactions
            if any(began_s <= sent_s + took_s and sent_s <= ended_s for began_s, ended_s in self.pages)
        ]

    def pages_ms(self) -> list[float]:
        return [(ended_s - began_s) * MS for began_s, ended_s in self.pages]


def nobody(shards: int) -> None:
    return None


def ours(shards: int) -> Scrape:
    made, reports = known(shards)
    metrics = Metrics("1.0")
    metrics.stepped(made, ns(2))
    metrics.reported(reports, 0, 1)
    return metrics.render


def theirs(shards: int) -> Scrape:
    """As many series of the same names, as one makes them with the library; their values stand there already."""
    registry = CollectorRegistry()
    made, _ = known(shards)
    for family in PER_SHARD:
        if family.kind == "gauge":
            gauge = Gauge(family.name, family.meaning, ["shard"], registry=registry)
            for name in made.rules.shards:
                gauge.labels(name).set(1.5)
        else:
            counter = Counter(family.name, family.meaning, ["shard"], registry=registry)
            for name in made.rules.shards:
                counter.labels(name).inc(15)
    return lambda: generate_latest(registry)


def known(shards: int) -> tuple[State, dict[str, Report]]:
    names = [f"trades/{number}" for number in range(shards)]
    reports = {name: Report(8, ns(1), True, 1, 1, 1000, ns(1), None, 100_000, 3) for name in names}
    return ruled(state(*(mine(name) for name in names)), *names), reports


async def measure(seconds: float, scrape: Scrape | None) -> Run:
    """A loop that reads, and a thread that scrapes."""
    loop, run, done = asyncio.get_running_loop(), Run(), threading.Event()
    with subprocess.Popen([sys.executable, "-c", SENDER], stdout=subprocess.PIPE) as sender:
        assert sender.stdout is not None
        fd = sender.stdout.fileno()
        loop.add_reader(fd, _react, fd, run)
        thread = threading.Thread(target=_scrape, args=(scrape, run, done))
        thread.start()
        await asyncio.sleep(seconds)
        loop.remove_reader(fd)
        sender.kill()
    done.set()
    thread.join()
    return run


def _react(fd: int, run: Run) -> None:
    data = os.read(fd, 4096)
    now_s = time.monotonic()
    run.reactions.extend((sent_s, now_s - sent_s) for sent_s in memoryview(data).cast("d"))


def _scrape(scrape: Scrape | None, run: Run, done: threading.Event) -> None:
    while scrape and not done.wait(SCRAPE_EVERY_S):
        began_s = time.monotonic()
        scrape()
        run.pages.append((began_s, time.monotonic()))


def figures(shards: int, seconds: int) -> Iterator[Figure]:
    scrapes = (("nobody", nobody, None), (OURS, ours, GOAL_MS), (THEIRS, theirs, None))
    runs = {name: asyncio.run(measure(seconds, make(shards))) for name, make, _ in scrapes}
    for name, _, goal in scrapes:
        all_ms = runs[name].all_ms()
        yield Figure(f"reaction, p99, scraped: {name}", p99(all_ms), "ms", goal, spread(all_ms, "ms"))
    for name in (OURS, THEIRS):
        during = runs[name].during_pages_ms()
        yield Figure(f"reaction while a page is made, p99: {name}", p99(during), "ms", None, spread(during, "ms"))
    page = f"a page of {shards} shards x {len(PER_SHARD)} metrics"
    yield median(f"{page}: {OURS}", runs[OURS].pages_ms(), "ms")
    pairs = min(len(runs[name].pages) for name in (OURS, THEIRS))
    yield times(f"{page}: {THEIRS}", runs[THEIRS].pages_ms()[:pairs], runs[OURS].pages_ms()[:pairs], "ms")


if __name__ == "__main__":
    options = asked("metrics", shards=500, seconds=10)
    sys.exit(report(figures(options.shards, options.seconds), options.json))
