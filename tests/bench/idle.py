"""What a supervisor and its children cost at rest: python -m tests.bench.idle [--json FILE] [--children N]

A real `tenured run` with N children, each with one connection to a feed that sends nothing, T = 10 s; on SQLite, then
on ministack. For a while the kernel's account of each process is read: CPU time, and how often it gave up a core by
itself to wait, which is how often something woke it. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.bench.figures import Figure, asked, cpu_s, in_folders, median, report, spread
from tests.bench.fleet import AWS, made
from tests.process.host import Host, wait_streaming

SETTLE_S = 5.0  # what the start left behind is over
QUIET = ["idle_timeout = 1h"]  # nobody has to tell that nothing comes
REST_S = 15.0  # four renewals of each lease
PARENT_CPU_MAX_PERCENT = 3.0


def wakeups(pid: int) -> int:
    """Of all threads that live."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt_switches"))
        total += int(line.split()[1])
    return total


def at_rest(folder: Path, store: str, name: str, count: int) -> Iterator[Figure]:
    folder.mkdir()
    room = [f"capacity = {count}"]
    with (
        FeedProcess(folder / "feed.jsonl", rate=0) as feed,
        Host(
            folder / "a", store, feed.url("a"), shards=count, lease_duration="10s", supervisor=room, stream=QUIET
        ) as host,
    ):
        wait_streaming(feed, host.shards, timeout_s=60)
        parent = psutil.Process(host.pid)
        (server,) = parent.children()
        pids = [host.pid, server.pid, *(each.pid for each in server.children())]
        time.sleep(SETTLE_S)
        before, began_s = [(cpu_s(pid), wakeups(pid)) for pid in pids], time.monotonic()
        time.sleep(REST_S)
        after, took_s = [(cpu_s(pid), wakeups(pid)) for pid in pids], time.monotonic() - began_s
        host.stop()
    pairs = list(zip(before, after, strict=True))
    percent = [(later[0] - earlier[0]) / took_s * 100 for earlier, later in pairs]
    woken = [(later[1] - earlier[1]) / took_s for earlier, later in pairs]
    fleet = f"{count} idle children, {name}"
    of_core = "of one core, with its snapshots and renewals"
    yield Figure(f"{fleet}: CPU of the supervisor", percent[0], "%", PARENT_CPU_MAX_PERCENT, of_core)
    yield Figure(f"{fleet}: CPU of the fork server", percent[1], "%", detail="of one core")
    detail = f"each: {spread(percent[2:], '%')}"
    yield Figure(f"{fleet}: CPU of all children together", sum(percent[2:]), "%", detail=detail)
    yield Figure(f"{fleet}: wakeups of the supervisor", woken[0], "/s")
    yield median(f"{fleet}: wakeups of a child", woken[2:], "/s")


def on_sqlite(folder: Path, count: int) -> Iterator[Figure]:
    yield from at_rest(folder / "a", f"sqlite:///{folder}/leases.db", "SQLite", count)


def on_ministack(folder: Path, count: int) -> Iterator[Figure]:
    with engines.ministack() as engine:
        yield from at_rest(folder / "a", made(engine.url("bench-idle")), "ministack", count)


def main() -> int:
    options = asked("idle", children=100)
    engines.install("ministack")
    os.environ.update(AWS)
    parts = {"sqlite": on_sqlite, "ministack": on_ministack}
    return report(
        in_folders((name, partial(part, count=options.children)) for name, part in parts.items()), options.json
    )


if __name__ == "__main__":
    sys.exit(main())
