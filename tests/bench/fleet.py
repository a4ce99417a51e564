"""How quick and how costly real supervisors are: python -m tests.bench.fleet [--json FILE] [--rounds N] [PART ...]

Each part starts real `tenured run` processes against a local feed, on SQLite or on ministack over HTTP. What is timed
is what the feed and the kernel saw (CLOCK_BOOTTIME), not what the supervisors say, except where a figure is named after
its log field. The exit code is 1 if a figure misses its goal. The load average stands beside each figure: on a machine
that is busy with other things the figures are those of that moment.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.arguments import whole
from tests.bench.figures import Figure, cpu_s, in_folders, report, spread
from tests.process.hand import DynamoHand
from tests.process.host import Deaths, Host, overlaps, tenured, wait_streaming
from tests.wait import until
from workers.kernel import boottime_ns

SECOND_NS = 1e9
LEASE_S = 3.0
ACQUAINTED_S = 2.5  # two polls: each has seen the other in the store
CHILDREN = 100
REST_S = 20.0
AWS = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@contextmanager
def ministack_table(name: str) -> Iterator[tuple[str, DynamoHand]]:
    with engines.ministack() as engine:
        store = engine.url(name)
        made = tenured("init", "--store", store)
        assert made.returncode == 0, made.stderr
        yield store, DynamoHand(engine, name)


# --- start ------------------------------------------------------------------------------------------------


def start(folder: Path, rounds: int) -> Iterator[Figure]:
    took_s = []
    for number in range(rounds):
        store = f"sqlite:///{folder}/{number}.db"
        with FeedProcess(folder / f"{number}.jsonl") as feed:
            began_ns = boottime_ns()
            with Host(folder / f"a{number}", store, feed.url("a"), shards=16) as host:
                wait_streaming(feed, host.shards, timeout_s=30)
                took_s.append((max(each.opened_ns for each in feed.connections()) - began_ns) / SECOND_NS)
                host.stop()
    yield Figure(
        "16 shards on SQLite: start to the last stream", statistics.median(took_s), "s", 3, spread(took_s, "s")
    )


# --- two supervisors --------------------------------------------------------------------------------------


class Pair:
    """Two supervisors that share 16 shards evenly; they take turns in leaving the other alone with all."""

    def __init__(self, folder: Path, store: str, feed: FeedProcess) -> None:
        self.feed = feed
        self.leaving, self.staying = (
            Host(folder / name, store, feed.url(name), shards=16, lease_duration=f"{LEASE_S:g}s").start()
            for name in "ab"
        )
        self._share()

    def _share(self) -> None:
        """Until the shares are even and have been for a while: each has seen the other in the store."""
        wait_streaming(self.feed, self.leaving.shards, timeout_s=30)
        for host in (self.leaving, self.staying):
            until(lambda host=host: len(self._shards_of(host)) == 8, 60, 0.1)
        time.sleep(ACQUAINTED_S)

    def _shards_of(self, host: Host) -> list[str]:
        return [each.shard for each in self.feed.connected() if each.supervisor == host.folder.name]

    def turn(self, end: Callable[[Host], None]) -> tuple[Deaths, dict[int, str], dict[str, float]]:
        """End the one that leaves: the deaths of its tree, its children's shards, when each streamed at the other."""
        leaving, staying = self.leaving, self.staying
        shards = {leaving.child_pid(shard): shard for shard in self._shards_of(leaving)}
        deaths = Deaths(each.pid for each in leaving.tree())
        end(leaving)
        wait_streaming(self.feed, leaving.shards, staying.folder.name, 30)
        opened = {each.shard: float(each.opened_ns) for each in self.feed.connected() if each.shard in shards.values()}
        leaving.wait()
        leaving.start()
        self._share()
        self.leaving, self.staying = staying, leaving
        return deaths, shards, opened

    def close(self) -> None:
        for host in (self.leaving, self.staying):
            host.stop()


@contextmanager
def pair(folder: Path) -> Iterator[Pair]:
    with ministack_table("bench-pair") as (store, _), FeedProcess(folder / "feed.jsonl") as feed:
        both = Pair(folder, store, feed)
        try:
            yield both
        finally:
            both.close()


def takeover(folder: Path, rounds: int) -> Iterator[Figure]:
    failover_s: list[float] = []
    gone_s: list[float] = []
    handover_s: list[float] = []
    with pair(folder) as both:
        for _ in range(rounds):
            killed_ns = 0

            def kill(host: Host) -> None:
                nonlocal killed_ns
                killed_ns = boottime_ns()
                host.kill()

            deaths, _, opened = both.turn(kill)
            gone_s.append((max(deaths.at_ns.values()) - killed_ns) / SECOND_NS)
            failover_s += [(at_ns - killed_ns) / SECOND_NS for at_ns in opened.values()]
        for _ in range(rounds):
            deaths, shards, opened = both.turn(lambda host: host.signal(15))
            handover_s += [(opened[shard] - deaths.at_ns[pid]) / SECOND_NS for pid, shard in shards.items()]
        doubles = len(overlaps(both.feed))
    bound_s = LEASE_S + 1.5
    yield Figure(
        "kill -9, T = 3 s: shard streams at the other, worst", max(failover_s), "s", bound_s, spread(failover_s, "s")
    )
    yield Figure("shards connected under two epochs at once", doubles, "", 0, f"{2 * rounds} takeovers of 8 shards")
    yield Figure("kill -9: every process gone, worst", max(gone_s), "s", 1, spread(gone_s, "s"))
    yield Figure(
        "planned stop: child dead to stream at the peer, worst", max(handover_s), "s", 1, spread(handover_s, "s")
    )


# --- many children ----------------------------------------------------------------------------------------


def many(folder: Path, _rounds: int) -> Iterator[Figure]:
    yield from _many(folder / "sqlite", f"sqlite:///{folder}/leases.db", "SQLite", full=True)
    with ministack_table("bench-many") as (store, _):
        yield from _many(folder / "ministack", store, "ministack", full=False)


def _many(folder: Path, store: str, name: str, full: bool) -> Iterator[Figure]:
    folder.mkdir()
    with (
        FeedProcess(folder / "feed.jsonl", rate=0) as feed,
        Host(
            folder / "a", store, feed.url("a"), shards=CHILDREN, lease_duration="10s", supervisor=["capacity = 1000"]
        ) as host,
    ):
        wait_streaming(feed, host.shards, timeout_s=60)
        if full:
            yield from _up(host)
            yield _memory(host)
        yield from _at_rest(host, name)
        host.stop()


def _up(host: Host) -> Iterator[Figure]:
    claimed = {each["shard"]: _seconds(each["time"]) for each in host.log("lease.claimed")}
    opened = {each["shard"]: _seconds(each["time"]) for each in host.log("connection.opened")}
    each_s = [opened[shard] - claimed[shard] for shard in claimed]
    whole_s = max(opened.values()) - min(claimed.values())
    yield Figure(f"{CHILDREN} children: claim to connection, worst", max(each_s), "s", 3, spread(each_s, "s"))
    paced = f"the claims themselves took {max(claimed.values()) - min(claimed.values()):.2f} s, paced at a first start"
    yield Figure(f"{CHILDREN} children: first claim to last connection", whole_s, "s", None, paced)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _memory(host: Host) -> Figure:
    each_mb = [psutil.Process(pid).memory_full_info().pss / 2**20 for pid in host.child_pids().values()]
    return Figure("memory of an idle child (PSS), median", statistics.median(each_mb), "MB", 2.5, spread(each_mb, "MB"))


def _at_rest(host: Host, store: str) -> Iterator[Figure]:
    parent = psutil.Process(host.pid)
    server = parent.children()[0]
    children = server.children()
    time.sleep(3)  # what the start left behind is over
    before, began = [cpu_s(each.pid) for each in (parent, server, *children)], time.monotonic()
    time.sleep(REST_S)
    after, took_s = [cpu_s(each.pid) for each in (parent, server, *children)], time.monotonic() - began
    shares = [(later - earlier) / took_s * 100 for earlier, later in zip(before, after, strict=True)]
    yield Figure(f"CPU of the parent at rest, {CHILDREN} leases, T = 10 s, {store}", shares[0], "%", 3, "of one core")
    yield Figure(f"CPU of the fork server, {store}", shares[1], "%")
    yield Figure(f"CPU of all {CHILDREN} children together, {store}", sum(shares[2:]), "%")


# --- all of it --------------------------------------------------------------------------------------------

Part = Callable[[Path, int], Iterator[Figure]]
PARTS: dict[str, Part] = {"start": start, "takeover": takeover, "many": many}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    engines.install()
    os.environ.update(AWS)
    parts = ((name, lambda folder, part=PARTS[name]: part(folder, options.rounds)) for name in options.parts or PARTS)
    return report(in_folders(parts), options.json)


if __name__ == "__main__":
    sys.exit(main())
