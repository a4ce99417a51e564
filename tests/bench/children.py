"""What many children cost, and how they end: python -m tests.bench.children [--children N] [--json FILE]

First the fork server alone: N real children of it, from the request until each has set up its shard.

Then whole parents with children that each hold one connection to a local feed: a real `tenured run` on SQLite,
multiprocessing's fork server, a loop of `subprocess.Popen`, supervisord. A child's start is the time between the first
and the last connection that the feed saw, for each but the first; tenured makes a claim for each meanwhile. Of tenured
the second start is timed, after a kill -9, when nothing paces it. Then what is left two seconds after a kill -9 of the
parent, and how long a SIGTERM takes until all are gone. Those of which each child is an interpreter of its own get
fewer children. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from supervisor.demo.feed_process import FeedProcess
from supervisor.processes.child_events import ChildEvent, StartFailed
from supervisor.processes.children import Children
from tests.bench import parents
from tests.bench.figures import Figure, asked, in_folders, median, pss_mb, report, times
from tests.bench.firehose import serving, stay
from tests.process.conftest import ROOT, task
from tests.process.host import COMMAND, Deaths, Host
from tests.wait import until
from workers.board import Board
from workers.process.kernel import boottime_ns

ROUNDS = 5
INTERPRETERS = 40
EACH_MS, GONE_S = 5.0, 1.0
LEFT_S = 2.0
SECOND_NS = 1e9
OURS = "tenured"


# --- the fork server alone --------------------------------------------------------------------------------


async def each_ms(url: str, count: int, lock_fd: int) -> list[float]:
    """Milliseconds for each of `count` children, several times; the one that warms up the fork server left out."""
    loop, events = asyncio.get_running_loop(), asyncio.Queue[ChildEvent]()
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    board = Board.create()
    children = Children(board, lock_fd, events.put_nowait, loop, environment=environment, start_budget_s=30)
    children.prepare([], [], [])
    took_ms = []
    for epoch in range(1, ROUNDS + 2):
        shards = [f"bench/{number}" for number in range(count if epoch > 1 else 1)]
        began_ns = boottime_ns()
        for shard in shards:
            wanted = task(shard, epoch, url=(url,), sink="discard")  # type: ignore[arg-type]
            children.start(wanted, boottime_ns() + 10**12)
        while sum(bool(each.started) for each in children.reports().values()) < len(shards):
            failed = [event for event in _taken(events) if isinstance(event, StartFailed)]
            assert not failed, failed
            await asyncio.sleep(0.001)
        took_ms.append((boottime_ns() - began_ns) / 1e6 / len(shards))
        for shard in shards:
            children.kill(shard, epoch)
        while children.pids():
            await asyncio.sleep(0.001)
    children.close()
    return took_ms[1:]


def _taken(events: asyncio.Queue[ChildEvent]) -> list[ChildEvent]:
    return [events.get_nowait() for _ in range(events.qsize())]


@contextmanager
def unlogged() -> Iterator[None]:
    """Processes that are started meanwhile log nowhere."""
    kept_fd, null_fd = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_fd, 2)
    try:
        yield
    finally:
        os.dup2(kept_fd, 2)
        os.close(kept_fd)
        os.close(null_fd)


def up(_folder: Path, count: int) -> Iterator[Figure]:
    with serving(stay) as url, tempfile.TemporaryFile() as lock, unlogged():
        took_ms = asyncio.run(each_ms(url, count, lock.fileno()))
    yield median(f"{count} children up, each", took_ms, "ms", EACH_MS)


# --- whole parents ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parent:
    """`command` runs one whose children, `count` of them, connect to the feed."""

    name: str
    count: int
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """How one parent did. `each_ms` and `pss_mb`: of a child; `left`: processes a while after a kill -9, of which the
    last other one died after `killed_s`; `stopped_s`: from a SIGTERM to the last death."""

    each_ms: float
    pss_mb: list[float]
    left: int
    killed_s: float
    stopped_s: float


def all_parents(folder: Path, feed: FeedProcess, count: int) -> Iterator[Parent]:
    store, room = f"sqlite:///{folder}/leases.db", [f"capacity = {count}"]
    host = Host(folder / OURS, store, feed.url(), shards=count, lease_duration="10s", supervisor=room)
    url = f"ws://127.0.0.1:{feed.port}"
    script = [sys.executable, "-m", "tests.bench.parents"]
    yield Parent(OURS, count, (*COMMAND, "run", "-c", str(host.config)))
    urls = [f"{url}/{number}" for number in range(count)]
    yield Parent("multiprocessing, forkserver", count, (*script, "forkserver", *urls))
    yield Parent("subprocess.Popen", INTERPRETERS, (*script, "popen", *urls[:INTERPRETERS]))
    yield Parent("supervisord", INTERPRETERS, parents.supervisord(folder, url, INTERPRETERS))


@contextmanager
def life(parent: Parent, feed: FeedProcess) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A parent and its tree, from its start until it and what it leaves behind are gone."""
    tree: list[psutil.Process] = []
    with subprocess.Popen(parent.command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: len(feed.connected()) == parent.count, 120, 0.1)
            tree += psutil.Process(process.pid).children(recursive=True)
            yield process, tree
        finally:
            process.kill()
            for each in tree:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
    until(lambda: not feed.connected(), 30, 0.1)


def ends(parent: Parent, feed: FeedProcess) -> Ends:
    with life(parent, feed) as (process, tree):
        deaths, killed_ns = Deaths(each.pid for each in tree), boottime_ns()
        process.kill()
        time.sleep(LEFT_S)
        left = len(tree) - len(deaths.at_ns)
        killed_s = max(((at_ns - killed_ns) / SECOND_NS for at_ns in deaths.at_ns.values()), default=0)
    before = len(feed.connections())
    with life(parent, feed) as (process, tree):
        opened_ns = [each.opened_ns for each in feed.connections()[before:]]
        memory_mb = [pss_mb(each.pid) for each in tree if is_child(each)]
        deaths, stopped_ns = Deaths(each.pid for each in tree), boottime_ns()
        process.terminate()
        until(lambda: len(deaths.at_ns) == len(tree), 60, 0.01)
        stopped_s = (max(deaths.at_ns.values()) - stopped_ns) / SECOND_NS
    each_ms = (max(opened_ns) - min(opened_ns)) / 1e6 / (parent.count - 1)
    return Ends(each_ms, memory_mb, left, killed_s, stopped_s)


def is_child(process: psutil.Process) -> bool:
    """Not a server between, nor the helper that multiprocessing starts."""
    return not process.children() and "resource_tracker" not in " ".join(process.cmdline())


def of_parents(folder: Path, count: int) -> Iterator[Figure]:
    with FeedProcess(folder / "feed.jsonl", rate=0) as feed:
        found = {parent: ends(parent, feed) for parent in all_parents(folder, feed, count)}
    ours = next(end for parent, end in found.items() if parent.name == OURS)
    yield Figure(f"kill -9 of the parent of {count} children: all gone", ours.killed_s, "s", GONE_S)
    for parent, end in found.items():
        goal = 0 if end is ours else None
        yield Figure(
            f"kill -9, left {LEFT_S:g} s later: {parent.name}",
            end.left,
            "",
            goal,
            f"of {parent.count} children and what serves them",
        )
    for parent, end in found.items():
        yield Figure(f"SIGTERM to all gone: {parent.name}", end.stopped_s, "s", None, f"{parent.count} children")
    yield Figure(f"start to connection, each: {OURS}", ours.each_ms, "ms", None, f"{count} children, a claim for each")
    yield median(f"PSS: {OURS}", ours.pss_mb, "MB")
    for parent, end in found.items():
        if end is not ours:
            yield times(f"start to connection, each: {parent.name}", [end.each_ms], [ours.each_ms], "ms")
            yield times(f"PSS: {parent.name}", [statistics.median(end.pss_mb)], [statistics.median(ours.pss_mb)], "MB")


if __name__ == "__main__":
    options = asked("children", children=200)
    works = (("up", up), ("parents", of_parents))
    parts = ((name, partial(work, count=options.children)) for name, work in works)
    sys.exit(report(in_folders(parts), options.json))
