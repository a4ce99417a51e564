"""What many children cost, and how they end: python -m tests.bench.children [--children N] [--json FILE]

First the fork server alone: N real children of it, from the request until each has set up its shard.

Then whole parents with children that each hold one connection to a local feed: a real `tenured run` on SQLite,
multiprocessing's fork server, a loop of `subprocess.Popen`, supervisord. A child's start is the time between the first
and the last connection that the feed saw, for each but the first; tenured makes a claim for each meanwhile. Each
parent is started twice. For tenured the first start is one in an empty store, in which it makes the rows and paces its
claims of them, and the second one a restart after a kill -9, when nothing paces it; to the others both are the same.
Then what is left two seconds after the kill -9 of the parent, and how long a SIGTERM takes until all are gone. Those of
which each child is an interpreter of its own get fewer children. The exit code is 1 if a goal is missed.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from supervisor.demo.feed_process import FeedProcess
from supervisor.processes.child_events import ChildEvent, StartFailed
from supervisor.processes.children import Children
from tests.bench import parents
from tests.bench.figures import Figure, asked, in_folders, median, pss_mib, report, spread, times
from tests.bench.firehose import serving, stay
from tests.process.conftest import ROOT, task
from tests.process.host import COMMAND, Deaths, Host
from tests.wait import until
from workers.board import Board
from workers.process.kernel import boottime_ns

ROUNDS = 5
TURNS = 3  # of each parent
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
    """How one parent did. `first_ms`, `again_ms` and `child_mib`: of a child, at its two starts; `all_mib`: of all
    processes, divided by the children; `left`: of so many processes under it, a while after a kill -9, of which the
    last other one died after `killed_s`; `stopped_ms`: from a SIGTERM to the last death, divided by the children."""

    first_ms: float
    again_ms: float
    child_mib: list[float]
    all_mib: float
    left: int
    of: int
    killed_s: float
    stopped_ms: float


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
    before = len(feed.connections())
    with life(parent, feed) as (process, tree):
        first_ms = each_ms_since(before, feed)
        deaths, killed_ns = Deaths(each.pid for each in tree), boottime_ns()
        process.kill()
        time.sleep(LEFT_S)
        left = len(tree) - len(deaths.at_ns)
        killed_s = max(((at_ns - killed_ns) / SECOND_NS for at_ns in deaths.at_ns.values()), default=0)
    before = len(feed.connections())
    with life(parent, feed) as (process, tree):
        again_ms = each_ms_since(before, feed)
        child_mib = [pss_mib(each.pid) for each in tree if is_child(each)]
        all_mib = sum(pss_mib(pid) for pid in (process.pid, *(each.pid for each in tree))) / parent.count
        deaths, stopped_ns = Deaths(each.pid for each in tree), boottime_ns()
        process.terminate()
        until(lambda: len(deaths.at_ns) == len(tree), 60, 0.01)
        stopped_ms = (max(deaths.at_ns.values()) - stopped_ns) / 1e6 / parent.count
    return Ends(first_ms, again_ms, child_mib, all_mib, left, len(tree), killed_s, stopped_ms)


def each_ms_since(before: int, feed: FeedProcess) -> float:
    opened_ns = [each.opened_ns for each in feed.connections()[before:]]
    return (max(opened_ns) - min(opened_ns)) / 1e6 / (len(opened_ns) - 1)


def is_child(process: psutil.Process) -> bool:
    """Not a server between, nor the helper that multiprocessing starts."""
    return not process.children() and "resource_tracker" not in " ".join(process.cmdline())


def of_parents(folder: Path, count: int) -> Iterator[Figure]:
    found: dict[str, list[Ends]] = {}
    with FeedProcess(folder / "feed.jsonl", rate=0) as feed:
        for number in range(TURNS):
            place = folder / f"{number}"
            place.mkdir()
            for parent in all_parents(place, feed, count):
                found.setdefault(parent.name, []).append(ends(parent, feed))
    yield from after_kill(found, count)
    ours = found.pop(OURS)
    again_ms = [each.again_ms for each in ours]
    yield median(f"start to connection, each: {OURS}, again after a kill -9", again_ms, "ms")
    yield median(f"start to connection, each: {OURS}, for the first time", [each.first_ms for each in ours], "ms")
    for name, turns in found.items():
        yield times(f"start to connection, each: {name}", [each.again_ms for each in turns], again_ms, "ms")
    child_mib = [statistics.median(each.child_mib) for each in ours]
    yield median(f"PSS of a child: {OURS}", child_mib, "MiB")
    for name, turns in found.items():
        theirs = [statistics.median(each.child_mib) for each in turns]
        yield times(f"PSS of a child: {name}", theirs, child_mib, "MiB")
    all_mib = [each.all_mib for each in ours]
    yield median(f"PSS of all processes, for each child: {OURS}", all_mib, "MiB")
    for name, turns in found.items():
        yield times(f"PSS of all processes, for each child: {name}", [each.all_mib for each in turns], all_mib, "MiB")


def after_kill(found: Mapping[str, Sequence[Ends]], count: int) -> Iterator[Figure]:
    killed_s = [each.killed_s for each in found[OURS]]
    name = f"kill -9 of the parent of {count} children: all gone, worst"
    yield Figure(name, max(killed_s), "s", GONE_S, spread(killed_s, "s"))
    for name, turns in found.items():
        left, of = max(each.left for each in turns), f"of {turns[0].of} processes under it, at most"
        yield Figure(f"kill -9, processes left {LEFT_S:g} s later: {name}", left, "", 0 if name == OURS else None, of)
    for name, turns in found.items():
        yield median(f"SIGTERM to all gone, for each child: {name}", [each.stopped_ms for each in turns], "ms")


if __name__ == "__main__":
    options = asked("children", children=200)
    works = (("up", up), ("parents", of_parents))
    parts = ((name, partial(work, count=options.children)) for name, work in works)
    sys.exit(report(in_folders(parts), options.json))
