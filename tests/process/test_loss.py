"""Leases lost under a running supervisor: a row seized, a row deleted, the whole table gone.

One supervisor per store serves all tests here, in their order. Its children ignore SIGTERM, and two of them burn a
processor while a file exists, so that only a kill ends them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import Connection
from tests.engines import Engine
from tests.faults import Seen
from tests.process.hand import DynamoHand, Hand, SqliteHand
from tests.process.host import Deaths, Host, overlaps, tenured, wait_streaming
from tests.proxy import FaultProxy
from tests.wait import until
from workers.process.kernel import boottime_ns

pytestmark = pytest.mark.alone

SECOND_NS = 1_000_000_000
MS_NS = 1_000_000
LEASE_S = 3.0
RENEW_S = LEASE_S / 3
POLL_S = 1.0
MARGIN_S = 0.3
BURNER = """
import os, signal
from tenured import Handler

class Burner(Handler):
    def start(self, shard):
        self.burns = shard.index in ("0", "1")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def message(self, connection, message):
        while self.burns and os.path.exists({burning!r}):
            pass
        self.emit(message)
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A running supervisor, its store seen from behind, and the proxy between them where the store has a network."""

    host: Host
    feed: FeedProcess
    hand: Hand
    store: str
    proxy: FaultProxy | None
    burning: Path

    def current(self, shard: str) -> Connection:
        return self.feed.connected(shard)[-1]

    def again(self, shard: str, epoch: int, timeout_s: float) -> Connection:
        """Its connection under a later epoch, waited for."""
        later = lambda: [each for each in self.feed.connected(shard) if each.epoch > epoch]  # noqa: E731
        return until(later, timeout_s, 0.05)[0]

    def logged(self, event: str, shard: str, epoch: int) -> list[dict[str, Any]]:
        """The lines of an event of one child, waited for."""
        return until(lambda: self.host.log(event, shard=shard, epoch=epoch), 2, 0.05)


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("loss")
    handler = folder / "burner.py"
    burning = folder / "burning"
    handler.write_text(BURNER.format(burning=str(burning)))
    with FeedProcess(folder / "feed.jsonl", rate=20) as feed:
        for store, hand, proxy in _stores(request, folder):
            made = tenured("init", "--store", store)
            assert made.returncode == 0, made.stderr
            host = Host(
                folder / "a",
                store,
                feed.url("a"),
                shards=6,
                supervisor=["stop_timeout = 1s"],
                stream=[f"handler = {handler}:Burner"],
            )
            with host:
                yield Site(host, feed, hand, store, proxy, burning)
                assert host.stop() == 0
        assert not overlaps(feed)


def _stores(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[str, Hand, FaultProxy | None]]:
    if request.param == "sqlite":
        path = folder / "leases.db"
        yield f"sqlite:///{path}", SqliteHand(path), None
        return
    engine: Engine = request.getfixturevalue(request.param)
    with FaultProxy(engine.port) as proxy:
        yield proxy.url("leases-lost"), DynamoHand(engine, "leases-lost"), proxy


@pytest.fixture
def settled(site: Site) -> Site:
    """Every shard has its connection, and the lease was renewed at least once since it was claimed."""
    wait_streaming(site.feed, site.host.shards, timeout_s=20)
    shards = site.host.shards
    until(lambda: all(site.hand.rows().get(shard, {}).get("beat", 0) >= 1 for shard in shards), 10, 0.1)
    return site


def intruder(shard: str) -> str:
    return f"elsewhere:1:{shard.encode().hex()}"


@pytest.mark.parametrize("site", ["sqlite", "ministack", "dynalite"], indirect=True)
def test_a_seized_lease_kills_its_child_at_once_and_its_loser_never_connects_for_it_again(settled: Site) -> None:
    site = settled
    seized = site.host.shards[:4]
    before = {shard: site.current(shard) for shard in seized}
    pids = {shard: site.host.child_pid(shard) for shard in seized}
    deaths = Deaths(pids.values())
    seized_ns: dict[str, int] = {}
    site.burning.touch()
    for shard in seized:
        seized_ns[shard] = boottime_ns()
        assert site.hand.seize(shard, intruder(shard)) == before[shard].epoch + 1
        deaths.wait(pids[shard], RENEW_S + 2)
    site.burning.unlink()

    took_s = {shard: (deaths.at_ns[pids[shard]] - seized_ns[shard]) / SECOND_NS for shard in seized}
    assert max(took_s.values()) < RENEW_S + 0.3, f"from the seizure to the death, in seconds: {took_s}"
    killed = [line for shard in seized for line in site.logged("child.killed", shard, before[shard].epoch)]
    assert [line["reason"] for line in killed] == ["lost"] * len(seized)
    latencies_ms = [line["latency_ms"] for line in killed]
    assert statistics.median(latencies_ms) <= 10, latencies_ms
    if site.proxy:
        seen_ms = [by_proxy_ms(site.proxy, shard, deaths.at_ns[pids[shard]]) for shard in seized]
        assert statistics.median(seen_ms) <= 20, seen_ms  # it includes the reading of the answer
    for shard in seized:
        lost = site.host.log("lease.lost", shard=shard, epoch=before[shard].epoch)
        assert [line["reason"] for line in lost] == [f"{intruder(shard)} owns epoch {before[shard].epoch + 1}"]

    # The intruder renews nothing, so that its leases run out, and only then a child may connect, for a later epoch.
    for shard in seized:
        again = site.again(shard, before[shard].epoch + 1, LEASE_S + 10)
        assert again.opened_ns - seized_ns[shard] > (LEASE_S - 0.1) * SECOND_NS
        of_lost = [each for each in site.feed.connections(shard) if each.epoch == before[shard].epoch]
        assert [each.number for each in of_lost] == [before[shard].number]
    survivors = site.host.shards[4:]
    assert not [line for shard in survivors for line in site.host.log("child.killed", shard=shard)]


def by_proxy_ms(proxy: FaultProxy, shard: str, died_ns: int) -> float:
    """From the first complete answer that showed the other owner to the death, by this process's clock."""
    shown = [each for each in proxy.seen() if intruder(shard).encode() in each.answer]
    return (died_ns - min(each.answered_ns or 0 for each in shown)) / MS_NS


@pytest.mark.parametrize("site", ["ministack", "dynalite"], indirect=True)
def test_a_refusal_without_its_row_is_followed_by_a_read_of_it(settled: Site) -> None:
    site = settled
    assert site.proxy is not None
    shard = site.host.shards[5]
    epoch = site.current(shard).epoch
    began = len(site.proxy.seen())
    site.hand.seize(shard, intruder(shard))
    until(lambda: site.host.log("lease.lost", shard=shard, epoch=epoch), RENEW_S + 2, 0.05)
    since = site.proxy.seen()[began:]
    for index, refused in enumerate(since):
        if is_bare_refusal(refused):
            reads = [each for each in since[index:] if each.operation == "GetItem" and shard.encode() in each.body]
            assert reads, f"{refused.operation} was refused without a row and nobody read it"


def is_bare_refusal(seen: Seen) -> bool:
    return b"ConditionalCheckFailed" in seen.answer and b'"Item"' not in seen.answer


@pytest.mark.parametrize("site", ["sqlite", "ministack"], indirect=True)
def test_a_deleted_row_kills_its_child_and_is_served_again_under_a_higher_epoch(settled: Site) -> None:
    site = settled
    shard = site.host.shards[3]
    epoch = site.current(shard).epoch
    deaths = Deaths([site.host.child_pid(shard)])
    deleted_ns = boottime_ns()
    site.hand.delete(shard)
    until(lambda: deaths.at_ns, RENEW_S + 2)
    assert min(deaths.at_ns.values()) - deleted_ns < (RENEW_S + 0.3) * SECOND_NS
    again = site.again(shard, epoch, 2 * (LEASE_S + POLL_S) + 5)
    assert again.opened_ns - deleted_ns < (2 * (LEASE_S + POLL_S) + 0.5) * SECOND_NS
    assert again.opened_ns - deleted_ns > (LEASE_S - 0.1) * SECOND_NS, "the deleted row may have had another live child"
    assert [line["reason"] for line in site.host.log("lease.lost", shard=shard, epoch=epoch)] == ["the row is gone"]


@pytest.mark.parametrize("site", ["sqlite", "ministack"], indirect=True)
def test_a_missing_table_ends_the_children_at_their_deadline_and_nothing_else(settled: Site) -> None:
    site = settled
    epochs = {shard: site.current(shard).epoch for shard in site.host.shards}
    deaths = Deaths(site.host.child_pids().values())
    dropped_ns = boottime_ns()
    site.hand.drop()
    until(lambda: len(deaths.at_ns) == len(epochs), LEASE_S + 5)
    took_s = sorted((at_ns - dropped_ns) / SECOND_NS for at_ns in deaths.at_ns.values())
    assert took_s[0] > LEASE_S - MARGIN_S - RENEW_S - 0.5, "a child died before its deadline"
    assert took_s[-1] < LEASE_S - MARGIN_S + 0.3, "a child outlived its deadline"
    for shard, epoch in epochs.items():
        fenced = site.logged("lease.fenced", shard, epoch)
        assert "does not exist" in fenced[0]["reason"]
    assert site.host.process is not None
    assert site.host.process.poll() is None

    assert tenured("init", "--store", site.store).returncode == 0
    made_ns = boottime_ns()
    for shard, epoch in epochs.items():
        again = site.again(shard, epoch, 2 * (LEASE_S + POLL_S) + 5)
        assert again.opened_ns - made_ns < (2 * (LEASE_S + POLL_S) + 0.5) * SECOND_NS
