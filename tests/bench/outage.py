"""Two supervisors lose their store, for less and for longer than they can do without it: python -m tests.bench.outage

Between each supervisor and ministack stands a proxy; a kind of fault strikes both at once. A fleet per kind runs beside
the others, with shards that are fenced in an outage and shards that are held through it. What is judged is what the
kernel, the feed and the proxies saw (CLOCK_BOOTTIME): a deadline is that of the last renewal whose answer went through
the proxy. The exit code is 1 if a figure misses its goal.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import Connection
from tests import engines, faults
from tests.arguments import whole
from tests.bench.figures import Figure, report, spread
from tests.bench.fleet import AWS
from tests.faults import Fault, Hang, Reply
from tests.process.host import Deaths, Host, tenured, wait_streaming
from tests.process.promises import deadlines_ns, renewed_ns
from tests.proxy import FaultProxy
from tests.wait import until
from workers.process.kernel import boottime_ns

SECOND_NS = 1e9
MS_NS = 1e6
SHARDS_OF_EACH_POLICY = 4
LONGER_BY_S = 1.0  # than a lease duration
CLOCK_MS = 2.0  # what a wall clock in milliseconds and one bound to it leave open
LATE_MS = 250.0  # the least margin
RETURN_S = 2.0
PHASES_OF_LONG_LEASES = 3
KINDS: dict[str, Fault | None] = {
    "hang": Hang(),
    "refuse": None,  # the proxy does not listen
    "5xx": Reply(faults.server_error()),
    "throttle": Reply(faults.throttled()),
}


class Fleet:
    """Two supervisors `a` and `b` on one table, each behind a proxy of its own."""

    def __init__(self, folder: Path, engine: engines.Engine, kind: str, lease_s: float, stack: ExitStack) -> None:
        self.kind = kind
        self.lease_s = lease_s
        self.renew_s = lease_s / 3
        self.margin_s = max(0.25, lease_s / 10)
        self.attempt_s = min(2.0, self.renew_s / 2)
        self.slack_s = lease_s - self.margin_s - self.renew_s - self.attempt_s
        self.random = random.Random(f"{kind} {lease_s}")
        self.feed = stack.enter_context(FeedProcess(folder / "feed.jsonl", rate=20))
        self.proxies = {name: stack.enter_context(FaultProxy(engine.port)) for name in "ab"}
        table = f"bench-outage-{kind}-{lease_s:g}"
        made = tenured("init", "--store", engine.url(table))
        assert made.returncode == 0, made.stderr
        self.hosts = {name: stack.enter_context(self._host(folder, name, table)) for name in "ab"}
        self.fenced = self.hosts["a"].shards
        self.held = [shard.replace("s/", "h/") for shard in self.fenced]

    def _host(self, folder: Path, name: str, table: str) -> Host:
        url = self.feed.url(name)
        indices = ", ".join(str(index) for index in range(SHARDS_OF_EACH_POLICY))
        sink = f"sink = jsonl:{folder}/{name}.jsonl"
        held = [sink, "[stream:h]", f"shards = {indices}", f"url = {url}", "outage_policy = hold", sink]
        return Host(
            folder / name,
            self.proxies[name].url(table),
            url,
            shards=SHARDS_OF_EACH_POLICY,
            lease_duration=f"{self.lease_s:g}s",
            stream=held,
        )

    def settle(self) -> None:
        """Every shard is connected and was renewed after that."""
        wait_streaming(self.feed, [*self.fenced, *self.held], timeout_s=2 * self.lease_s + 20)
        now_ns = boottime_ns()
        shards = set(self.fenced + self.held)

        def renewed() -> bool:
            seen = [renewed_ns(proxy.seen()[-200:], self.attempt_s) for proxy in self.proxies.values()]
            return {shard for found in seen for shard, at_ns in found.items() if at_ns > now_ns} >= shards

        until(renewed, 2 * self.lease_s, 0.02)

    def owners(self) -> dict[int, Connection]:
        """The connection that each child has, by its pid."""
        return {
            self.hosts[each.supervisor].log("child.started", shard=each.shard, epoch=each.epoch)[-1]["pid"]: each
            for each in self.feed.connected()
        }

    def reason(self, dead: Connection) -> str:
        """Why the supervisor killed this child, in its own word."""
        killed = self.hosts[dead.supervisor].log("child.killed", shard=dead.shard, epoch=dead.epoch)
        return str(killed[0]["reason"]) if killed else "not killed by its supervisor"

    def break_store(self) -> None:
        for proxy in self.proxies.values():
            if self.kind == "refuse":
                proxy.stop_listening()
            else:
                proxy.fault = KINDS[self.kind]

    def mend_store(self) -> None:
        for proxy in self.proxies.values():
            if self.kind == "refuse":
                proxy.listen()
            else:
                proxy.fault = None


# --- short outages ----------------------------------------------------------------------------------------


def short(fleet: Fleet, phases: int) -> Iterator[Figure]:
    """As long as nobody may die of, at random phases of the renewals."""
    fleet.settle()
    deaths = Deaths(fleet.owners())
    for _ in range(phases):
        time.sleep(fleet.random.uniform(0, fleet.renew_s))
        fleet.break_store()
        time.sleep(fleet.slack_s - 0.02)
        fleet.mend_store()
        time.sleep(fleet.attempt_s)
        fleet.settle()
    name = f"{fleet.kind}, T = {fleet.lease_s:g} s: kills in outages of {fleet.slack_s:.1f} s"
    yield Figure(name, len(deaths.at_ns), "", 0, f"{phases} outages at random phases")


# --- long outages -----------------------------------------------------------------------------------------


def long(fleet: Fleet, rounds: int) -> Iterator[Figure]:
    """Longer than a lease lasts."""
    early_ms: list[float] = []
    back_s: list[float] = []
    killed_held: list[str] = []
    for _ in range(rounds):
        fleet.settle()
        time.sleep(fleet.random.uniform(0, fleet.renew_s))
        owners = fleet.owners()
        deaths = Deaths(owners)
        fleet.break_store()
        time.sleep(fleet.lease_s + LONGER_BY_S)
        early_ms += _against_deadlines(fleet, owners, deaths)
        mended_ns = boottime_ns()
        fleet.mend_store()
        wait_streaming(fleet.feed, [*fleet.fenced, *fleet.held], timeout_s=30)
        fleet.settle()
        opened = [each.opened_ns for each in fleet.owners().values() if each.opened_ns > mended_ns]
        back_s.append((max(opened) - mended_ns) / SECOND_NS)
        killed_held += [fleet.reason(owners[pid]) for pid in deaths.at_ns if owners[pid].shard in fleet.held]
    late_ms = [-each for each in early_ms]
    name = f"{fleet.kind}, T = {fleet.lease_s:g} s"
    after = f"outages: {rounds}; below 0: all died after it"
    yield Figure(f"{name}: earliest death before its deadline", max(early_ms), "ms", CLOCK_MS, after)
    yield Figure(f"{name}: latest death after its deadline", max(late_ms), "ms", LATE_MS, spread(late_ms, "ms"))
    of_held = f"of {rounds * len(fleet.held)} {' '.join(sorted(set(killed_held)))}".rstrip()
    yield Figure(f"{name}: held children that died", len(killed_held), "", 0, of_held)
    yield Figure(f"{name}: return of the store to the last stream", max(back_s), "s", RETURN_S, spread(back_s, "s"))


def _against_deadlines(fleet: Fleet, owners: dict[int, Connection], deaths: Deaths) -> list[float]:
    """How long before its deadline each fenced child died, in milliseconds."""
    found = []
    deadlines = {
        name: deadlines_ns(proxy.seen(), fleet.lease_s, fleet.margin_s, fleet.attempt_s)
        for name, proxy in fleet.proxies.items()
    }
    for pid, each in owners.items():
        if each.shard in fleet.fenced:
            died_ns = deaths.wait(pid, 5)
            found.append((deadlines[each.supervisor][each.shard] - died_ns) / MS_NS)
    return found


# --- all of it --------------------------------------------------------------------------------------------


def side_by_side(
    folder: Path, engine: engines.Engine, kinds: Sequence[str], lease_s: float, phases: int, rounds: int
) -> list[Figure]:
    """The figures of a fleet per kind, all at once."""

    def run(kind: str) -> list[Figure]:
        place = folder / f"{kind}-{lease_s:g}"
        place.mkdir()
        with ExitStack() as stack:
            fleet = Fleet(place, engine, kind, lease_s, stack)
            figures = [*short(fleet, phases), *long(fleet, rounds)]
            for host in fleet.hosts.values():
                host.stop()
            return figures

    with ThreadPoolExecutor(len(kinds)) as pool:
        return [figure for figures in pool.map(run, kinds) for figure in figures]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.outage")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"some of {', '.join(KINDS)}; all by default")
    parser.add_argument("--phases", type=whole, default=6, help="short outages of each kind")
    parser.add_argument("--rounds", type=whole, default=2, help="long outages of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    kinds = options.kinds or list(KINDS)
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kind {', '.join(sorted(unknown))}, expected some of {', '.join(KINDS)}")
    engines.install("ministack")
    os.environ.update(AWS)
    return report(_figures(kinds, options.phases, options.rounds), options.json)


def _figures(kinds: Sequence[str], phases: int, rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-outage-") as folder, engines.ministack() as engine:
        for lease_s, count in ((3.0, phases), (10.0, PHASES_OF_LONG_LEASES)):
            yield from side_by_side(Path(folder), engine, kinds, lease_s, count, rounds)


if __name__ == "__main__":
    sys.exit(main())
