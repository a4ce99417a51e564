"""What renewing costs the one who renews: python -m tests.bench.renewals [--json FILE] [--rounds N] [COUNT ...]

Side by side hold COUNT leases each: a real `tenured run` on ministack, which renews in batches; another one on
dynalite, which knows no batches, so that each lease is renewed by an `update_item` of its own; a loop of conditional
`update_item` by boto3; python-dynamodb-lock. All renew every third of T. In each round the CPU time (user + system,
all threads) of each process is divided by the renewals that it made. For ours that is all that the supervisor does
meanwhile: its member row, the looks at its children, its log, and its snapshots of the whole table, which the peers
have no like of. So after the first rounds, with a snapshot a second, a reload makes these as rare as they may be, one
in T, and the others follow, which compare renewals with renewals. The stores are other processes, and count nowhere.
The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.arguments import whole
from tests.bench.figures import Figure, cpu_s, in_folders, median, report
from tests.bench.fleet import AWS, made
from tests.bench.lockers import HOLDERS, Locker, locking, make_table
from tests.engines import Engine
from tests.process.hand import DynamoHand
from tests.process.host import Host, wait_streaming
from tests.wait import until

LEASE_S = {50: 10, 200: 10, 1000: 30}  # a fleet of a thousand on one host can afford to look less often
ROUND_INTERVALS = 3  # renew intervals in a round
RENEWALS_MAX = 3000  # by each in all rounds of a kind; their CPU is steady by then
SETTLE_S = 5.0
TIMES_MIN = 4.0
GOAL_COUNT = 200
QUIET = ["idle_timeout = 1h"]  # nobody has to tell that nothing comes
BATCHED, ALONE = "tenured, in batches", "tenured, one by one"


@dataclass(frozen=True, slots=True)
class Renewing:
    """A process that renews, how many renewals it has made so far, and how to make it do little else."""

    name: str
    pid: int
    renewals: Callable[[], int]
    concentrate: Callable[[], None] = lambda: None


def run(stack: ExitStack, name: str, folder: Path, engine: Engine, count: int) -> Renewing:
    """A supervisor with real children whose feed sends nothing."""
    store = made(engine.url("bench-renewals"))
    feed = stack.enter_context(FeedProcess(folder / f"{engine.name}.jsonl", rate=0))
    lease = f"{LEASE_S.get(count, 10)}s"
    room = [f"capacity = {count}"]
    host = Host(
        folder / engine.name, store, feed.url("a"), shards=count, lease_duration=lease, supervisor=room, stream=QUIET
    )
    stack.enter_context(host)
    wait_streaming(feed, host.shards, timeout_s=180)
    hand = DynamoHand(engine, "bench-renewals")

    def renewals() -> int:
        return sum(int(row["beat"]) for key, row in hand.rows().items() if key[0] != "@")

    def concentrate() -> None:
        host.config.write_text(host.config.read_text().replace("[stream:s]", f"poll_interval = {lease}\n[stream:s]"))
        host.signal(signal.SIGHUP)
        until(lambda: host.log("config.reloaded"), 10)

    return Renewing(name, host.pid, renewals, concentrate)


def peer(stack: ExitStack, name: str, engine: Engine, count: int) -> Renewing:
    table = f"bench-{name}"
    make_table(engine, name, table)
    command = locking(name, engine, table, count, LEASE_S.get(count, 10))
    locker = stack.enter_context(Locker(command, count))
    locker.taken_ns()
    return Renewing(name, locker.pid, locker.renewals)


def round_of(contenders: Sequence[Renewing], seconds: float) -> list[float]:
    """Milliseconds of CPU for each renewal, of each contender."""
    before = [(cpu_s(each.pid), each.renewals()) for each in contenders]
    time.sleep(seconds)
    after = [(cpu_s(each.pid), each.renewals()) for each in contenders]
    return [
        (later_s - earlier_s) * 1000 / (more - fewer)
        for (earlier_s, fewer), (later_s, more) in zip(before, after, strict=True)
    ]


def measured(folder: Path, count: int, rounds: int) -> Iterator[Figure]:
    with ExitStack() as stack:
        ministack, dynalite = stack.enter_context(engines.ministack()), stack.enter_context(engines.dynalite())
        contenders = [
            run(stack, BATCHED, folder, ministack, count),
            run(stack, ALONE, folder, dynalite, count),
            *(peer(stack, name, ministack, count) for name in HOLDERS),
        ]
        seconds = ROUND_INTERVALS * LEASE_S.get(count, 10) / 3
        for polls, goal in (("", None), (", a snapshot in T", TIMES_MIN if count == GOAL_COUNT else None)):
            if polls:
                for each in contenders:
                    each.concentrate()
            time.sleep(SETTLE_S)
            few = max(1, min(rounds, RENEWALS_MAX // (count * ROUND_INTERVALS)))
            done = [round_of(contenders, seconds) for _ in range(few)]
            yield from figures(f"{count} leases{polls}", contenders, done, goal)


def figures(
    name: str, contenders: Sequence[Renewing], done: Sequence[Sequence[float]], goal: float | None
) -> Iterator[Figure]:
    for each, values in zip(contenders, zip(*done, strict=True), strict=True):
        yield median(f"{name}, CPU of a renewal: {each.name}", values, "ms")
    for index, each in enumerate(contenders[2:], 2):
        times = [values[index] / values[0] for values in done]
        yield median(f"{name}, CPU of a renewal: {each.name}, times ours", times, "x", goal_min=goal)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.renewals")
    parser.add_argument("counts", nargs="*", type=whole, metavar="COUNT", help="leases; 50, 200 and 1000 by default")
    parser.add_argument(
        "--rounds", type=whole, default=2, help=f"of each kind, as long as they are {RENEWALS_MAX:,} renewals at most"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    engines.install("ministack", "dynalite")
    os.environ.update(AWS)
    counts = options.counts or LEASE_S
    parts = ((str(count), partial(measured, count=count, rounds=options.rounds)) for count in counts)
    return report(in_folders(parts), options.json)


if __name__ == "__main__":
    sys.exit(main())
