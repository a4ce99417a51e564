"""Two real supervisors and one feed: whatever ends one of them, the other goes on and nothing is owned twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supervisor.demo.feed_process import FeedProcess
from tests import engines
from tests.process.host import Host, alive, overlaps, streaming, tenured, wait_streaming
from tests.wait import until
from workers.process.kernel import boottime_ns

SECOND_NS = 1_000_000_000
LEASE_S = 3.0


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl", rate=50) as feed:
        yield feed


@pytest.fixture(params=["sqlite", "ministack"])
def store(request: pytest.FixtureRequest, tmp_path: Path, table: str) -> str:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/leases.db"
    else:
        engine: engines.Engine = request.getfixturevalue("ministack")
        url = engine.url(table)
    made = tenured("init", "--store", url)
    assert made.returncode == 0, made.stderr
    return url


def owned(feed: FeedProcess, name: str) -> set[str]:
    return {each.shard for each in feed.connected() if each.supervisor == name}


def pair(tmp_path: Path, store: str, feed: FeedProcess, shards: int = 8, **more: list[str]) -> tuple[Host, Host]:
    a, b = (Host(tmp_path / name, store, feed.url(name), shards=shards, **more) for name in "ab")
    return a, b


def wait_shared(feed: FeedProcess, a: Host) -> None:
    wait_streaming(feed, a.shards)
    assert owned(feed, "a")
    assert owned(feed, "b")


def test_sixteen_shards_stream_within_three_seconds_and_status_names_one_owner_each(
    tmp_path: Path, feed: FeedProcess
) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    host = Host(tmp_path / "a", store, feed.url("a"), shards=16)
    began_ns = boottime_ns()
    with host:
        wait_streaming(feed, host.shards, timeout_s=20)
        took_s = (max(each.opened_ns for each in feed.connections()) - began_ns) / SECOND_NS
        status = tenured("status", "--json", "--store", store)
    assert status.returncode == 0, status.stderr
    shown = {each["shard"]: each for each in json.loads(status.stdout)["shards"]}
    assert set(shown) == set(host.shards)
    assert len({each["owner"] for each in shown.values()}) == 1
    assert all(each["state"] == "held" for each in shown.values())
    assert took_s < 10  # a bound against being broken; the bench prints the figure


def test_a_killed_supervisors_shards_stream_at_the_other_and_never_twice_at_once(
    tmp_path: Path, store: str, feed: FeedProcess
) -> None:
    a, b = pair(tmp_path, store, feed)
    with a, b:
        wait_shared(feed, a)
        lost = owned(feed, "a")
        tree = a.tree()
        a.kill()
        killed_ns = boottime_ns()
        until(lambda: not alive(tree), 1)
        wait_streaming(feed, a.shards, "b", LEASE_S + 10)
        gaps = [each.opened_ns - killed_ns for each in feed.connected() if each.shard in lost]
        assert max(gaps) < (LEASE_S + 1 + 5) * SECOND_NS
        assert min(gaps) > (LEASE_S - 1 - 0.5) * SECOND_NS, "somebody claimed before the lease had run out"
        assert b.stop() == 0
    assert not overlaps(feed)
    assert_no_stale_delivery(a, b)


def assert_no_stale_delivery(*hosts: Host) -> None:
    """Of each shard, no event is delivered under an epoch older than one that had delivered a later event."""
    newest: dict[str, tuple[int, int]] = {}
    for each in sorted((found for host in hosts for found in host.deliveries()), key=lambda one: one.event):
        event, epoch = newest.get(each.shard, (0, 0))
        assert each.epoch >= epoch or each.event <= event, f"{each} after epoch {epoch}"
        newest[each.shard] = max((each.event, each.epoch), (event, epoch))


def test_a_planned_stop_hands_each_shard_over_within_a_second_with_close_frames(
    tmp_path: Path, store: str, feed: FeedProcess
) -> None:
    a, b = pair(tmp_path, store, feed)
    with a, b:
        wait_shared(feed, a)
        leaving = owned(feed, "a")
        assert a.stop() == 0
        wait_streaming(feed, a.shards, "b")
        closed = {each.shard: each for each in feed.connections() if each.supervisor == "a"}
        opened = {each.shard: each for each in feed.connected()}
        assert b.stop() == 0
    assert {each.code for each in feed.connections()} == {1001}, "a connection ended without its close frame"
    gaps_s = [(opened[shard].opened_ns - (closed[shard].closed_ns or 0)) / SECOND_NS for shard in leaving]
    assert max(gaps_s) < 1 + 1, f"handovers took {gaps_s}"
    assert not overlaps(feed)


@pytest.mark.parametrize("with_children", [False, True])
def test_a_frozen_supervisor_delivers_nothing_once_somebody_else_may_claim(
    tmp_path: Path, feed: FeedProcess, with_children: bool
) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    a, b = pair(tmp_path, store, feed, shards=4)
    with a, b:
        wait_shared(feed, a)
        frozen = owned(feed, "a")
        children = [psutil.Process(a.child_pid(shard)) for shard in frozen]
        a.signal(signal.SIGSTOP)
        if with_children:
            for child in children:
                child.suspend()
        wait_streaming(feed, a.shards, "b", 20)
        before = len(a.deliveries())
        assert not alive(children)
        a.signal(signal.SIGCONT)
        until(lambda: len(a.log("lease.fenced")) == len(frozen), 10)
        until(lambda: streaming(feed, b.shards, "b"), 10)
        assert len(a.deliveries()) == before
        assert a.stop() == 0
        assert b.stop() == 0
    assert not overlaps(feed)
    assert_no_stale_delivery(a, b)


def stubborn(folder: Path) -> str:
    """A handler that does not stop when it is asked to."""
    file = folder / "stubborn.py"
    file.write_text(
        "import time\n"
        "from tenured import Handler\n"
        "class Stubborn(Handler):\n"
        "    def stop(self):\n"
        "        time.sleep(3600)\n"
    )
    return f"{file}:Stubborn"


def test_children_that_ignore_the_stop_cost_one_grace_together_and_are_released(
    tmp_path: Path, feed: FeedProcess
) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    host = Host(
        tmp_path / "a",
        store,
        feed.url("a"),
        shards=32,
        lease_duration="10s",
        supervisor=["stop_timeout = 2s"],
        stream=[f"handler = {stubborn(tmp_path)}"],
    )
    with host:
        wait_streaming(feed, host.shards, timeout_s=30)
        began_ns = boottime_ns()
        assert host.stop() == 0
        took_s = (boottime_ns() - began_ns) / SECOND_NS
    assert 2 <= took_s < 2 + 3, f"the stop took {took_s:.1f} s"
    assert len(host.log("lease.released")) == 32
    assert {line["reason"] for line in host.log("child.killed")} == {"stop-timeout"}


def test_a_second_signal_kills_at_once_and_still_releases(tmp_path: Path, feed: FeedProcess) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    host = Host(tmp_path / "a", store, feed.url("a"), shards=8, stream=[f"handler = {stubborn(tmp_path)}"])
    with host:
        wait_streaming(feed, host.shards)
        host.signal(signal.SIGTERM)
        until(lambda: host.log("supervisor.draining"), 5)
        began_ns = boottime_ns()
        until(host.ended_by_another_signal, 10)  # those that come with the first one do not hurry
        assert host.wait() == 0
        took_s = (boottime_ns() - began_ns) / SECOND_NS
    assert took_s < 3
    assert len(host.log("lease.released")) == 8
    assert json.loads(tenured("status", "--json", "--store", store).stdout)["shards"][0]["owner"] is None
