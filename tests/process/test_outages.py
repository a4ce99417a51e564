"""Every way to lose the store, for less and for longer than one can do without it, and back without a restart.

A supervisor for each kind of trouble, each with its own proxy and table; the troubles strike all of them at once,
because waiting is what this takes. What became of each is judged afterwards, test by test.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from supervisor.stores.location import open_store
from tests.engines import Engine
from tests.faults import RENEWALS, EatAnswers
from tests.process.host import Deaths, Host, streaming, wait_streaming
from tests.process.promises import deadlines_ns, renewed_ns
from tests.process.troubles import ALL, Trouble, troubles
from tests.proxy import FaultProxy
from tests.wait import until
from workers.process.kernel import boottime_ns

pytestmark = pytest.mark.alone

SECOND_NS = 1_000_000_000
LEASE_S = 3.0
RENEW_S = LEASE_S / 3
MARGIN_S = 0.3
ATTEMPT_S = RENEW_S / 2
SLACK_S = LEASE_S - MARGIN_S - RENEW_S - ATTEMPT_S
FENCED = ("s/0", "s/1")
HELD = "h"
SHARDS = (*FENCED, HELD)


@dataclass(slots=True)
class Ordeal:
    """One supervisor and what its trouble did to it."""

    kind: str
    trouble: Trouble
    host: Host
    feed: FeedProcess
    proxy: FaultProxy
    killed_early: list[str] = field(default_factory=list)
    late_s: dict[str, float] = field(default_factory=dict)
    held_on: bool = False
    back_s: float | None = None
    code: int | None = None

    def settled(self, since_ns: int) -> bool:
        """Everything is connected, and was renewed after that instant."""
        renewed = renewed_ns(self.proxy.seen()[-100:], ATTEMPT_S)
        fresh = all(renewed.get(shard, 0) > since_ns for shard in SHARDS)
        return fresh and streaming(self.feed, SHARDS, self.kind)

    def pids(self) -> dict[str, int]:
        return {shard: pid for shard, pid in self.host.child_pids().items() if shard in SHARDS}


@pytest.fixture(scope="module")
def ordeals(ministack: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ordeal]]:
    folder = tmp_path_factory.mktemp("outages")
    with ExitStack() as stack:
        feed = stack.enter_context(FeedProcess(folder / "feed.jsonl", rate=5))
        made = []
        for number, (kind, trouble) in enumerate(stack.enter_context(troubles(folder)).items()):
            proxy = stack.enter_context(FaultProxy(ministack.port))
            open_store(ministack.url(f"outages-{number}"), folder, ATTEMPT_S).initialize()
            name = kind.replace(" ", "-")
            sink = f"sink = jsonl:{folder}/{name}.jsonl"
            held = [sink, f"[stream:{HELD}]", f"url = {feed.url(name)}", "outage_policy = hold", sink]
            host = Host(
                folder / name,
                proxy.url(f"outages-{number}"),
                feed.url(name),
                shards=len(FENCED),
                stream=held,
                environment=trouble.environment,
            )
            made.append(Ordeal(name, trouble, stack.enter_context(host), feed, proxy))
        settle(made)
        endure_short(made)
        endure_long(made)
        for each in made:
            each.host.signal(signal.SIGTERM)
        for each in made:
            each.code = each.host.wait()
        yield dict(zip(ALL, made, strict=True))


def settle(ordeals: list[Ordeal]) -> None:
    now_ns = boottime_ns()
    until(lambda: all(each.settled(now_ns) for each in ordeals), 30, 0.1)


def endure_short(ordeals: list[Ordeal]) -> None:
    deaths = [Deaths(each.pids().values()) for each in ordeals]
    for each in ordeals:
        each.trouble.strike(each.proxy, long=False)
    over_ns = boottime_ns() + int((SLACK_S - 0.1) * SECOND_NS)
    until(lambda: boottime_ns() >= over_ns, LEASE_S, 0.005)
    for each in ordeals:
        each.trouble.mend(each.proxy)
    settle(ordeals)
    for each, died in zip(ordeals, deaths, strict=True):
        each.killed_early = [shard for shard, pid in each.pids().items() if pid in died.at_ns]


def endure_long(ordeals: list[Ordeal]) -> None:
    before = [(each.pids(), Deaths(each.pids().values())) for each in ordeals]
    for each in ordeals:
        each.trouble.strike(each.proxy, long=True)
    over_ns = boottime_ns() + int((LEASE_S + 1) * SECOND_NS)
    until(lambda: boottime_ns() >= over_ns, LEASE_S + 5, 0.01)
    for each, (pids, deaths) in zip(ordeals, before, strict=True):
        deadlines = deadlines_ns(each.proxy.seen(), LEASE_S, MARGIN_S, ATTEMPT_S)
        died_ns = {shard: deaths.at_ns.get(pids[shard]) for shard in FENCED}
        each.late_s = {
            shard: (at_ns - deadlines[shard]) / SECOND_NS for shard, at_ns in died_ns.items() if at_ns is not None
        }
    mended_ns = boottime_ns()
    for each in ordeals:
        each.trouble.mend(each.proxy)

    def all_back() -> bool:
        for each in ordeals:
            if each.back_s is None and streaming(each.feed, SHARDS, each.kind):
                each.back_s = (boottime_ns() - mended_ns) / SECOND_NS
        return all(each.back_s is not None for each in ordeals) or boottime_ns() > mended_ns + 20 * SECOND_NS

    until(all_back, 30, 0.05)
    for each, (pids, deaths) in zip(ordeals, before, strict=True):
        each.held_on = pids[HELD] not in deaths.at_ns


@pytest.mark.parametrize("kind", ALL)
def test_an_outage_shorter_than_the_slack_kills_nobody(ordeals: dict[str, Ordeal], kind: str) -> None:
    assert ordeals[kind].killed_early == []


@pytest.mark.parametrize("kind", ALL)
def test_a_longer_outage_fences_at_the_deadline_and_holds_what_is_to_be_held(
    ordeals: dict[str, Ordeal], kind: str
) -> None:
    late_s = ordeals[kind].late_s
    assert set(late_s) == set(FENCED), "a child outlived its deadline"
    assert min(late_s.values()) > -0.01, "a child was killed before its deadline"
    assert max(late_s.values()) < MARGIN_S, "a child was killed long after its deadline"
    assert ordeals[kind].held_on


@pytest.mark.parametrize("kind", ALL)
def test_all_stream_again_soon_after_an_outage_without_a_restart(ordeals: dict[str, Ordeal], kind: str) -> None:
    ordeal = ordeals[kind]
    assert ordeal.back_s is not None, "a shard never came back"
    assert ordeal.back_s < ordeal.trouble.back_s
    assert len(ordeal.host.log("supervisor.started")) == 1
    assert ordeal.code == 0, "a lease could not be released"


def test_a_thousand_lost_answers_to_renewals_that_were_applied_kill_nobody(ministack: Engine, tmp_path: Path) -> None:
    with FaultProxy(ministack.port) as proxy, FeedProcess(tmp_path / "feed.jsonl", rate=1) as feed:
        store = proxy.url("outages-thousand")
        open_store(ministack.url("outages-thousand"), tmp_path, ATTEMPT_S).initialize()
        with Host(tmp_path / "a", store, feed.url("a"), shards=50) as host:
            wait_streaming(feed, host.shards, timeout_s=30)
            deaths = Deaths(host.child_pids().values())
            proxy.fault = EatAnswers(RENEWALS)
            began = proxy.count()
            eaten = lambda: [each for each in proxy.seen()[began:] if RENEWALS(each)]  # noqa: E731
            until(lambda: len(eaten()) >= 1000 or deaths.at_ns, 60, 0.1)
            assert not [each for each in eaten() if each.status], "an answer came through"
            assert not deaths.at_ns
            proxy.fault = None
            assert host.stop() == 0
        assert {each.code for each in feed.connections()} == {1001}
        assert len(feed.connections()) == len(host.shards)
