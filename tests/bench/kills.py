"""How long a child lives on after its lease was refused: python -m tests.bench.kills [--kills N] [--json FILE]

A real `tenured run` on SQLite, then on ministack. One after the other rows are given to somebody else behind its back,
and its next renewal is refused. The children are idle, busy in a handler, stopped, or deaf to SIGTERM. The latency is
the `latency_ms` of `child.killed`: from the complete answer to the readable pidfd. From outside, by clocks of other
processes, stand beside it: the time from the seizure, the end of the connection as the feed saw it, and on ministack
the time from the answer's last byte at the proxy. The exit code is 1 if a figure misses its goal.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import Connection
from tests import engines
from tests.arguments import whole
from tests.bench.figures import Figure, in_folders, p99, report, spread
from tests.bench.fleet import AWS, made
from tests.process.hand import DynamoHand, Hand, SqliteHand
from tests.process.host import Deaths, Host, wait_streaming
from tests.proxy import FaultProxy
from tests.wait import until
from workers.process.kernel import boottime_ns

MS_NS = 1e6
RENEW_MS = 400
GOAL_MS = 10
SHARDS = 16
TOGETHER = 3  # rounds in which all shards are lost at once
KINDS = ("idle", "busy", "stopped", "deaf to SIGTERM")
HANDLER = """
import os, signal
from tenured import Handler

class Behaving(Handler):
    def start(self, shard):
        self.kind = int(shard.index) % 4
        self.burning = {folder!r} + "/burn-" + shard.index
        if self.kind == 3:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def message(self, connection, message):
        while self.kind == 1 and os.path.exists(self.burning):
            pass
"""


@dataclass(frozen=True, slots=True)
class Kill:
    """One child that lost its lease, in milliseconds: by the supervisor's log; since the row was seized; since the
    proxy had sent the answer (None: there is no proxy); and how long after its death the feed saw the end."""

    kind: str
    latency: float
    seized: float
    answered: float | None
    feed: float


class Site:
    """A supervisor of `SHARDS` shards, of which each fourth child behaves alike, and its store from behind."""

    def __init__(self, folder: Path, store: str, hand: Hand, proxy: FaultProxy | None, stack: ExitStack) -> None:
        self.hand = hand
        self.proxy = proxy
        self.folder = folder
        self.feed = stack.enter_context(FeedProcess(folder / "feed.jsonl", rate=20))
        handler = folder / "behaving.py"
        handler.write_text(HANDLER.format(folder=str(folder)))
        host = Host(
            folder / "a",
            store,
            self.feed.url("a"),
            shards=SHARDS,
            supervisor=[f"renew_interval = {RENEW_MS}ms", "poll_interval = 2s"],
            stream=[f"handler = {handler}:Behaving"],
        )
        self.host = stack.enter_context(host)

    def kill(self, number: int) -> Kill:
        """Take the row of the next shard away, wait for the death, and let the row be claimed again."""
        index = number % SHARDS
        kind, shard = KINDS[index % len(KINDS)], f"s/{index}"
        wait_streaming(self.feed, [shard], timeout_s=20)
        owned = self.feed.connected(shard)[-1]
        pid = self._started(shard, owned.epoch)["pid"]
        burning = self.folder / f"burn-{index}"
        deaths = Deaths([pid])
        if kind == "busy":
            burning.touch()
            until(lambda: psutil.Process(pid).status() == psutil.STATUS_RUNNING, 5)
        elif kind == "stopped":
            os.kill(pid, signal.SIGSTOP)
        thief = f"elsewhere:1:{number:016x}"
        seized_ns = boottime_ns()
        self.hand.seize(shard, thief)
        died_ns = deaths.wait(pid, 5)
        burning.unlink(missing_ok=True)
        self._free(shard)
        answered_ns = self._answered_ns(thief)
        return Kill(
            kind,
            self._latency_ms(shard, owned.epoch),
            (died_ns - seized_ns) / MS_NS,
            (died_ns - answered_ns) / MS_NS if answered_ns else None,
            (self._closed_ns(owned) - died_ns) / MS_NS,
        )

    def kill_together(self, round_: int) -> list[float]:
        """Take all rows away at once: the latencies of deaths that one answer or two decide."""
        wait_streaming(self.feed, self.host.shards, timeout_s=20)
        epochs = {each.shard: each.epoch for each in self.feed.connected()}
        for shard in epochs:
            self.hand.seize(shard, f"elsewhere:2:{round_:016x}")
        latencies = [self._latency_ms(shard, epoch) for shard, epoch in epochs.items()]
        for shard in epochs:
            self._free(shard)
        return latencies

    def _started(self, shard: str, epoch: int) -> dict[str, Any]:
        return until(lambda: self.host.log("child.started", shard=shard, epoch=epoch), 5)[0]

    def _latency_ms(self, shard: str, epoch: int) -> float:
        killed = until(lambda: self.host.log("child.killed", shard=shard, epoch=epoch, reason="lost"), 5)
        return float(killed[0]["latency_ms"])

    def _closed_ns(self, owned: Connection) -> int:
        def ended() -> list[int]:
            return [
                each.closed_ns
                for each in self.feed.connections(owned.shard)
                if each.number == owned.number and each.closed_ns
            ]

        return until(ended, 5)[0]

    def _answered_ns(self, thief: str) -> int | None:
        """When the first complete answer that named the thief had left the proxy."""
        if self.proxy is None:
            return None
        named = [each for each in self.proxy.seen()[-50:] if thief.encode() in each.answer]
        return min(each.answered_ns for each in named if each.answered_ns)

    def _free(self, shard: str) -> None:
        row = self.hand.rows()[shard]
        self.hand.put({name: value for name, value in row.items() if name != "owner"})


def figures(store: str, kills: Sequence[Kill], together: Sequence[float]) -> Iterator[Figure]:
    for kind in KINDS:
        ms = [each.latency for each in kills if each.kind == kind]
        yield Figure(f"{store}: refused renewal to child dead, {kind}, p99", p99(ms), "ms", None, spread(ms, "ms"))
    ms = [each.latency for each in kills]
    yield Figure(f"{store}: refused renewal to child dead, all, p99", p99(ms), "ms", GOAL_MS, spread(ms, "ms"))
    name = f"{store}: refused renewals of {SHARDS} rows at once, p99"
    yield Figure(name, p99(together), "ms", None, spread(together, "ms"))
    if answered := [each.answered for each in kills if each.answered is not None]:
        detail = f"{spread(answered, 'ms')}; with the reading of the answer"
        yield Figure(f"{store}: answer left the proxy to child dead, p99", p99(answered), "ms", None, detail)
    feed = [each.feed for each in kills]
    yield Figure(f"{store}: child dead to its end at the feed, p99", p99(feed), "ms", None, spread(feed, "ms"))
    seized = [each.seized for each in kills]
    detail = f"{spread(seized, 'ms')}; a renewal is due every {RENEW_MS} ms"
    yield Figure(f"{store}: row seized to child dead, worst", max(seized), "ms", RENEW_MS + 100, detail)


def on_sqlite(folder: Path, kills: int) -> list[Figure]:
    with ExitStack() as stack:
        path = folder / "leases.db"
        return _measured("SQLite", Site(folder, f"sqlite:///{path}", SqliteHand(path), None, stack), kills)


def on_ministack(folder: Path, kills: int) -> list[Figure]:
    with ExitStack() as stack:
        engine = stack.enter_context(engines.ministack())
        proxy = stack.enter_context(FaultProxy(engine.port))
        store = made(proxy.url("bench-kills"))
        return _measured("ministack", Site(folder, store, DynamoHand(engine, "bench-kills"), proxy, stack), kills)


def _measured(store: str, site: Site, kills: int) -> list[Figure]:
    wait_streaming(site.feed, site.host.shards, timeout_s=30)
    done = [site.kill(number) for number in range(kills)]
    together = [latency for round_ in range(TOGETHER) for latency in site.kill_together(round_)]
    site.host.stop()
    return list(figures(store, done, together))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kills")
    parser.add_argument("--kills", type=whole, default=120, help="on each store")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    engines.install("ministack")
    os.environ.update(AWS)
    works = (("sqlite", on_sqlite), ("ministack", on_ministack))
    parts = ((name, lambda folder, work=work: work(folder, options.kills)) for name, work in works)
    return report(in_folders(parts), options.json)


if __name__ == "__main__":
    sys.exit(main())
