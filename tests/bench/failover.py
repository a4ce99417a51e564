"""How long a stream is missed: python -m tests.bench.failover [--json FILE] [--rounds N] [PART ...]

    died      all processes of a host are killed: until its shards stream at the other one, T = 3 s and T = 10 s
    planned   a supervisor is told to stop: until each of its shards streams at the other one
    restart   kill -9 and restart on one host, T = 10 s: until all of its shards stream again
    peers     a holder of locks is killed: until another one, which waits for them, has them: python-dynamodb-lock and
              the consumers of async-kinesis, with the same T and as many locks

All on ministack, with real supervisors and a local feed; the poll interval has its default of 1 s. What is timed is
what the feed and the kernel saw (CLOCK_BOOTTIME), not what the supervisors say. A peer's time ends when it has the
lock, without a connection. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.arguments import whole
from tests.bench import async_kinesis
from tests.bench.figures import Figure, in_folders, p99, report, spread
from tests.bench.fleet import AWS, ministack_table
from tests.bench.lockers import Locker, locking, make_table
from tests.process.host import Deaths, Host, overlaps, wait_streaming
from tests.wait import until
from workers.process.kernel import boottime_ns

SECOND_NS = 1e9
LEASES_S = (3, 10)
SHARDS = 8  # of each of two supervisors, and locks of each peer
ACQUAINTED_S = 2.5  # two polls: each has seen the other in the store
BEYOND_LEASE_S = 1.5
HANDOVER_S = 0.5
RESTART_S = 1.5
GONE_S = 1.0


class Pair:
    """Two supervisors that share all shards evenly; they take turns in leaving the other alone with all."""

    def __init__(self, folder: Path, store: str, feed: FeedProcess, lease_s: float) -> None:
        self.feed = feed
        self._phase = random.Random(lease_s)
        self._lease_s = lease_s
        self.leaving, self.staying = (
            Host(folder / name, store, feed.url(name), shards=2 * SHARDS, lease_duration=f"{lease_s:g}s").start()
            for name in "ab"
        )
        self._share()

    def _share(self) -> None:
        """Until the shares are even and each has seen the other, at any phase of the renewals."""
        wait_streaming(self.feed, self.leaving.shards, timeout_s=30)
        for host in (self.leaving, self.staying):
            until(lambda host=host: len(self._shards_of(host)) == SHARDS, 60, 0.1)
        time.sleep(ACQUAINTED_S + self._phase.uniform(0, self._lease_s / 3))

    def _shards_of(self, host: Host) -> list[str]:
        return [each.shard for each in self.feed.connected() if each.supervisor == host.folder.name]

    def turn(self, end: Callable[[Host], None]) -> tuple[Deaths, dict[int, str], dict[str, float]]:
        """End the one that leaves: the deaths of its tree, its children's shards, when each streamed at the other."""
        leaving, staying = self.leaving, self.staying
        shards = {leaving.child_pid(shard): shard for shard in self._shards_of(leaving)}
        deaths = Deaths(each.pid for each in leaving.tree())
        end(leaving)
        wait_streaming(self.feed, leaving.shards, staying.folder.name, 60)
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
def pair(folder: Path, lease_s: float) -> Iterator[Pair]:
    with ministack_table("bench-pair") as store, FeedProcess(folder / "feed.jsonl") as feed:
        both = Pair(folder, store, feed, lease_s)
        try:
            yield both
        finally:
            both.close()


def died(folder: Path, rounds: int) -> Iterator[Figure]:
    for lease_s in LEASES_S:
        place = folder / f"{lease_s}"
        place.mkdir()
        with pair(place, lease_s) as both:
            yield from _died(both, lease_s, rounds if lease_s == LEASES_S[0] else max(2, rounds // 2))


def _died(both: Pair, lease_s: int, rounds: int) -> Iterator[Figure]:
    missed_s: list[float] = []
    gone_s: list[float] = []
    for _ in range(rounds):
        killed_ns = 0

        def kill(host: Host) -> None:
            nonlocal killed_ns
            killed_ns = boottime_ns()
            host.kill()

        deaths, _, opened = both.turn(kill)
        gone_s.append((max(deaths.at_ns.values()) - killed_ns) / SECOND_NS)
        missed_s += [(at_ns - killed_ns) / SECOND_NS for at_ns in opened.values()]
    name = f"host dies, T = {lease_s} s"
    goal_s = lease_s + BEYOND_LEASE_S
    yield Figure(f"{name}: to the stream elsewhere, p99", p99(missed_s), "s", goal_s, spread(missed_s, "s"))
    yield Figure(f"{name}: every process gone, worst", max(gone_s), "s", GONE_S, spread(gone_s, "s"))
    yield Figure(f"{name}: shards connected twice at once", len(overlaps(both.feed)), "", 0, f"in {rounds} rounds")


def planned(folder: Path, rounds: int) -> Iterator[Figure]:
    from_death_s: list[float] = []
    from_signal_s: list[float] = []
    with pair(folder, LEASES_S[0]) as both:
        for _ in range(rounds):
            told_ns = 0

            def stop(host: Host) -> None:
                nonlocal told_ns
                told_ns = boottime_ns()
                host.signal(signal.SIGTERM)

            deaths, shards, opened = both.turn(stop)
            from_death_s += [(opened[shard] - deaths.at_ns[pid]) / SECOND_NS for pid, shard in shards.items()]
            from_signal_s += [(at_ns - told_ns) / SECOND_NS for at_ns in opened.values()]
        doubles = len(overlaps(both.feed))
    name = "planned stop: child dead to the stream elsewhere, p99"
    yield Figure(name, p99(from_death_s), "s", HANDOVER_S, spread(from_death_s, "s"))
    detail = f"{spread(from_signal_s, 's')}; the children end a poll later, when peers know"
    yield Figure("planned stop: SIGTERM to the stream elsewhere, p99", p99(from_signal_s), "s", None, detail)
    yield Figure("planned stop: shards connected twice at once", doubles, "", 0, f"in {rounds} rounds")


def restart(folder: Path, rounds: int) -> Iterator[Figure]:
    took_s = []
    with (
        ministack_table("bench-restart") as store,
        FeedProcess(folder / "feed.jsonl") as feed,
        Host(folder / "a", store, feed.url("a"), shards=2 * SHARDS, lease_duration="10s") as host,
    ):
        wait_streaming(feed, host.shards, timeout_s=30)
        for _ in range(2 * rounds):
            host.kill()
            again_ns = boottime_ns()
            host.start()
            until(lambda again_ns=again_ns: _opened_since(feed, again_ns) == set(host.shards), 30, 0.02)
            took_s.append((max(each.opened_ns for each in feed.connected()) - again_ns) / SECOND_NS)
        host.stop()
    name = f"kill -9 and restart on one host, T = 10 s: all {2 * SHARDS} shards again, p99"
    yield Figure(name, p99(took_s), "s", RESTART_S, spread(took_s, "s"))


def _opened_since(feed: FeedProcess, instant_ns: int) -> set[str]:
    return {each.shard for each in feed.connected() if each.opened_ns > instant_ns}


# --- peers ------------------------------------------------------------------------------------------------


def peers(folder: Path, rounds: int) -> Iterator[Figure]:
    async_kinesis.install()
    with engines.ministack() as engine:
        make_table(engine, "python-dynamodb-lock", "bench-locks")
        async_kinesis.make_stream(engine, "bench-stream", SHARDS)
        for lease_s in LEASES_S:
            commands: dict[str, list[str | Path]] = {
                "python-dynamodb-lock": [*locking("python-dynamodb-lock", engine, "bench-locks", SHARDS, lease_s)],
                "async-kinesis": async_kinesis.consuming(engine, "bench-stream", lease_s),
            }
            for name, command in commands.items():
                taken_s = list(_taken_over(command, lease_s, max(2, rounds // 2)))
                figure = f"holder dies, T = {lease_s} s: {name}, to the lock elsewhere, p99"
                yield Figure(figure, p99(taken_s), "s", None, spread(taken_s, "s"))


def _taken_over(command: Sequence[str | Path], lease_s: float, rounds: int) -> Iterator[float]:
    phase = random.Random(lease_s)
    with ExitStack() as stack:
        holder = stack.enter_context(Locker(command, SHARDS))
        holder.taken_ns()
        for _ in range(rounds):
            waiting = stack.enter_context(Locker(command, SHARDS))
            time.sleep(lease_s / 3 + ACQUAINTED_S + phase.uniform(0, lease_s / 3))
            killed_ns = boottime_ns()
            holder.kill()
            yield from ((at_ns - killed_ns) / SECOND_NS for at_ns in waiting.taken_ns())
            holder = waiting


# --- all of it --------------------------------------------------------------------------------------------

Part = Callable[[Path, int], Iterator[Figure]]
PARTS: dict[str, Part] = {"died": died, "planned": planned, "restart": restart, "peers": peers}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.failover")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument(
        "--rounds", type=whole, default=3, help="at T = 3 s; half as many, at least two, at T = 10 s and of the peers"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    engines.install("ministack")
    os.environ.update(AWS)
    parts = ((name, partial(PARTS[name], rounds=options.rounds)) for name in options.parts or PARTS)
    return report(in_folders(parts), options.json)


if __name__ == "__main__":
    sys.exit(main())
