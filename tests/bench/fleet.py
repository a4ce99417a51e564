"""How long a supervisor takes from its start to its last stream: python -m tests.bench.fleet [--json FILE] [--rounds N]

A real `tenured run` with 16 shards, on SQLite and on ministack in turn, each time in a store that knows nothing of
them, with a local feed. What is timed is what the feed saw (CLOCK_BOOTTIME). Claims of a first start are paced: half of
them wait for the second poll. The exit code is 1 if a figure misses its goal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.bench.figures import Figure, alternating, asked, in_folders, median, report
from tests.process.host import Host, tenured, wait_streaming
from workers.process.kernel import boottime_ns

SECOND_NS = 1e9
SHARDS = 16
START_S = 3.0
AWS = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def made(store: str) -> str:
    """The store, once its table or file is there."""
    done = tenured("init", "--store", store)
    assert done.returncode == 0, done.stderr
    return store


@contextmanager
def ministack_table(name: str) -> Iterator[str]:
    with engines.ministack() as engine:
        yield made(engine.url(name))


def start_s(folder: Path, store: str) -> float:
    folder.mkdir(parents=True)
    with FeedProcess(folder / "feed.jsonl") as feed:
        began_ns = boottime_ns()
        with Host(folder / "a", store, feed.url("a"), shards=SHARDS) as host:
            wait_streaming(feed, host.shards, timeout_s=30)
            took_s = (max(each.opened_ns for each in feed.connections()) - began_ns) / SECOND_NS
            host.stop()
    return took_s


def measured(folder: Path, rounds: int) -> Iterator[Figure]:
    with engines.ministack() as engine:
        numbers = iter(range(2 * rounds))

        def on_sqlite() -> float:
            place = folder / f"{next(numbers)}"
            return start_s(place, made(f"sqlite:///{place}.db"))

        def on_ministack() -> float:
            number = next(numbers)
            return start_s(folder / f"{number}", made(engine.url(f"bench-start-{number}")))

        for store, took_s in alternating({"SQLite": on_sqlite, "ministack": on_ministack}, rounds).items():
            name = f"{SHARDS} shards on {store}: start to the last stream"
            yield median(name, took_s, "s", START_S)


def main() -> int:
    options = asked("fleet", rounds=5)
    engines.install("ministack")
    os.environ.update(AWS)
    return report(in_folders([("fleet", lambda folder: measured(folder, options.rounds))]), options.json)


if __name__ == "__main__":
    sys.exit(main())
