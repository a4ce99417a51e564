"""What an operator's commands cost a stream: python -m tests.bench.wishes [--json FILE] [PART ...]

    sqlite    two supervisors of 8 shards on an SQLite file
    table     the same on ministack

Each moves shards there and back 8 times, one at a time: from the death of the old child to the connection of the new
one, as the feed sees it. Then it pauses all shards 6 times: from the start of the command, whose process takes some
time to be there, to the end of the last connection. T and p have their defaults, 10 s and 1 s; the children end when
they are told to. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.bench.figures import Figure, in_folders, report, spread
from tests.bench.fleet import AWS
from tests.process.host import Deaths, Host, tenured, wait_streaming
from tests.wait import until
from workers.process.kernel import boottime_ns

SECOND_NS = 1e9
LEASE = "10s"
SHARDS = 8
MOVES = 8
PAUSES = 6
GAP_MAX_S = 0.7
PAUSE_MAX_S = 2.0  # a poll and a second


def command(store: str, *arguments: str) -> None:
    done = tenured(*arguments, "--store", store, timeout_s=90)
    assert done.returncode == 0, done.stderr


def moves(store: str, feed: FeedProcess, hosts: Sequence[Host]) -> Iterator[float]:
    """Seconds without the stream, of each move."""
    ids = {name: str(host.log("supervisor.started")[0]["supervisor"]) for name, host in zip("ab", hosts, strict=True)}
    for number in range(MOVES):
        shard = hosts[0].shards[number % SHARDS]
        (before,) = feed.connected(shard)
        target = "ab".replace(before.supervisor, "")
        pid = hosts["ab".index(before.supervisor)].child_pid(shard)
        deaths = Deaths([pid])
        command(store, "move", shard, "--to", ids[target])
        wait_streaming(feed, [shard], target)
        yield (feed.connected(shard)[0].opened_ns - deaths.wait(pid, 10)) / SECOND_NS


def pauses(store: str, feed: FeedProcess, hosts: Sequence[Host]) -> Iterator[float]:
    for _ in range(PAUSES):
        wait_streaming(feed, hosts[0].shards)
        began_ns = boottime_ns()
        command(store, "pause", "s/*")
        until(lambda: not feed.connected(), 10, 0.01)
        yield (max(each.closed_ns or 0 for each in feed.connections()) - began_ns) / SECOND_NS
        command(store, "resume", "s/*")


def measured(folder: Path, store: str, where: str) -> Iterator[Figure]:
    with FeedProcess(folder / "feed.jsonl") as feed:
        hosts = [Host(folder / name, store, feed.url(name), shards=SHARDS, lease_duration=LEASE) for name in ("a", "b")]
        with hosts[0], hosts[1]:
            until(lambda: Counter(each.supervisor for each in feed.connected()) == dict.fromkeys("ab", SHARDS // 2), 60)
            gaps_s = list(moves(store, feed, hosts))
            detail = spread(gaps_s, "s")
            yield Figure(f"move, {where}: without the stream", statistics.median(gaps_s), "s", GAP_MAX_S, detail)
            pauses_s = list(pauses(store, feed, hosts))
            yield Figure(f"pause, {where}: all closed, worst", max(pauses_s), "s", PAUSE_MAX_S, spread(pauses_s, "s"))


def sqlite(folder: Path) -> Iterator[Figure]:
    yield from measured(folder, f"sqlite:///{folder}/leases.db", "SQLite")


def table(folder: Path) -> Iterator[Figure]:
    with engines.ministack() as engine:
        store = engine.url("bench-wishes")
        command(store, "init")
        yield from measured(folder, store, "ministack")


PARTS: dict[str, Callable[[Path], Iterator[Figure]]] = {"sqlite": sqlite, "table": table}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.wishes")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    engines.install("ministack")
    os.environ.update(AWS)
    parts = ((name, PARTS[name]) for name in options.parts or PARTS)
    return report(in_folders(parts), options.json)


if __name__ == "__main__":
    sys.exit(main())
