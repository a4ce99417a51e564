"""Supervisors that are process 1, as in containers: names that collide there identify nobody."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from supervisor.demo.feed_process import FeedProcess
from tests.process.hand import SqliteHand
from tests.process.host import Host, overlaps, wait_streaming
from tests.wait import until

# A user namespace of its own where we are not root and may not make the others without it.
AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
AS_PID_1 = ("unshare", *AS_ROOT, "--pid", "--fork", "--mount-proc", "--kill-child")


def supervisor_of(host: Host) -> psutil.Process:
    """`unshare` passes no signal on; its only child is process 1 of the new namespace."""
    return psutil.Process(host.pid).children()[0]


def test_two_supervisors_that_are_both_process_1_share_no_identity_and_no_lease(tmp_path: Path) -> None:
    path = tmp_path / "leases.db"
    store = f"sqlite:///{path}"
    with FeedProcess(tmp_path / "feed.jsonl") as feed:
        a, b = (Host(tmp_path / name, store, feed.url(name), shards=6, within=AS_PID_1) for name in "ab")
        with a, b:
            wait_streaming(feed, a.shards)
            until(lambda: {each.supervisor for each in feed.connected()} == {"a", "b"}, 10, 0.05)
            started = [host.log("supervisor.started")[0] for host in (a, b)]
            assert [line["pid"] for line in started] == [1, 1]
            assert started[0]["supervisor"] != started[1]["supervisor"]
            owners = {each.shard: each.supervisor for each in feed.connected()}
            rows = {shard: SqliteHand(path).rows()[shard]["owner"] for shard in a.shards}
            names = {line["supervisor"]: name for line, name in zip(started, "ab", strict=True)}
            assert {shard: names[owner] for shard, owner in rows.items()} == owners
            for host in (a, b):
                supervisor_of(host).terminate()
                assert host.wait() == 0
        assert not overlaps(feed)
