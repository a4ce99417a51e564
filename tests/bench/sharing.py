"""Who gets what, by real supervisors: python -m tests.bench.sharing [--json FILE] [PART ...]

    cold      4 supervisors start together on 60 shards: starts per shard, and how even the shares are
    dies      one of the 4 is killed: refused claims among the claims of the others
    grow      3 supervisors of 60 shards, a fourth joins: moves, and until the shares are even
    rolling   4 supervisors are restarted gracefully, one after the other: moves per shard

All run on ministack behind a proxy that counts what passes. A start is a connection that the feed saw. T
and p have their defaults, 10 s and 1 s. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.bench.figures import Figure, in_folders, report
from tests.bench.fleet import AWS, made
from tests.process.host import Host
from tests.proxy import FaultProxy
from tests.wait import until
from workers.process.kernel import boottime_ns

SECOND_NS = 1e9
LEASE = "10s"
SHARDS = 60
SETTLE_S = 12.0  # longer than a lease: whatever was going on is over
BALANCED_MAX_S = 90


class Crew:
    """Up to four supervisors of one fleet, and what the feed and the proxy saw of them."""

    def __init__(self, folder: Path, store: str, feed: FeedProcess, proxy: FaultProxy, stack: ExitStack) -> None:
        self.feed = feed
        self._proxy = proxy
        self._stack = stack
        self.hosts = [
            Host(folder / name, store, feed.url(name), shards=SHARDS, lease_duration=LEASE) for name in "abcd"
        ]
        self.shards = self.hosts[0].shards

    def start(self, count: int) -> None:
        for host in self.hosts[:count]:
            self._stack.enter_context(host)
        self.wait_even(count)

    def join(self, host: Host) -> None:
        self._stack.enter_context(host)

    def loads(self) -> list[int]:
        return sorted(Counter(each.supervisor for each in self.feed.connected()).values())

    def is_even(self, count: int) -> bool:
        loads = self.loads()
        connected = {each.shard for each in self.feed.connected()}
        return len(loads) == count and connected == set(self.shards) and loads[-1] - loads[0] <= 1

    def wait_even(self, count: int) -> float:
        """Seconds until the shares are even."""
        began_ns = boottime_ns()
        until(lambda: self.is_even(count), BALANCED_MAX_S, 0.05)
        return (boottime_ns() - began_ns) / SECOND_NS

    def starts(self, since_ns: int = 0) -> Counter[str]:
        """How often each shard connected."""
        return Counter(each.shard for each in self.feed.connections() if each.opened_ns > since_ns)

    def claims(self, since_ns: int) -> tuple[int, int]:
        """How many claims passed, and how many of them were refused. Only a claim depends on `paused`."""
        passed = [each for each in self._proxy.seen("UpdateItem") if each.arrived_ns > since_ns]
        claims = [each for each in passed if b'"paused"' in each.body]
        return len(claims), sum(each.status == 400 and b"ConditionalCheckFailed" in each.answer for each in claims)


@contextmanager
def crew(folder: Path) -> Iterator[Crew]:
    with engines.ministack() as engine, FaultProxy(engine.port) as proxy, ExitStack() as stack:
        feed = stack.enter_context(FeedProcess(folder / "feed.jsonl"))
        store = made(proxy.url("bench-sharing"))
        yield Crew(folder, store, feed, proxy, stack)


def cold(folder: Path) -> Iterator[Figure]:
    with crew(folder) as fleet:
        fleet.start(4)
        time.sleep(SETTLE_S)
        starts = fleet.starts()
        detail = f"loads {fleet.loads()}, most for one shard {max(starts.values())}"
        yield Figure("cold start of 4, 60 shards: starts per shard", starts.total() / SHARDS, "", 1.2, detail)


def dies(folder: Path) -> Iterator[Figure]:
    with crew(folder) as fleet:
        fleet.start(4)
        time.sleep(SETTLE_S)
        since_ns = boottime_ns()
        fleet.hosts[1].kill()
        fleet.wait_even(3)
        claims, refused = fleet.claims(since_ns)
        detail = f"{refused} of {claims}, loads {fleet.loads()}"
        yield Figure("one of 4 is killed: claims that are refused", 100 * refused / claims, "%", 10, detail)


def grow(folder: Path) -> Iterator[Figure]:
    with crew(folder) as fleet:
        fleet.start(3)
        time.sleep(SETTLE_S)
        since_ns = boottime_ns()
        fleet.join(fleet.hosts[3])
        took_s = fleet.wait_even(4)
        time.sleep(SETTLE_S)
        moves = fleet.starts(since_ns)
        yield Figure("3 to 4 supervisors, 60 shards: until even", took_s, "s", 30, f"loads {fleet.loads()}")
        yield Figure("3 to 4 supervisors: moves away from 15", abs(moves.total() - 15), "", 1, f"{moves.total()} moves")
        yield Figure("3 to 4 supervisors: moves of one shard, most", max(moves.values()), "", 1)


def rolling(folder: Path) -> Iterator[Figure]:
    with crew(folder) as fleet:
        fleet.start(4)
        time.sleep(SETTLE_S)
        since_ns = boottime_ns()
        for host in fleet.hosts:
            host.stop()
            host.start()
            fleet.wait_even(4)
        moves = fleet.starts(since_ns)
        detail = f"{moves.total()} moves in {(boottime_ns() - since_ns) / SECOND_NS:.0f} s, loads {fleet.loads()}"
        yield Figure("rolling restart of 4, 60 shards: moves of one, most", max(moves.values()), "", 2, detail)
        spread_of = ", ".join(f"{count} moved {times}x" for times, count in sorted(Counter(moves.values()).items()))
        yield Figure("rolling restart of 4: moves per shard", statistics.mean(moves.values()), "", 2, spread_of)


PARTS: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "cold": cold,
    "dies": dies,
    "grow": grow,
    "rolling": rolling,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sharing")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    engines.install("ministack")
    os.environ.update(AWS)
    parts = ((name, PARTS[name]) for name in options.parts or PARTS)
    return report(in_folders(parts), options.json)


if __name__ == "__main__":
    sys.exit(main())
