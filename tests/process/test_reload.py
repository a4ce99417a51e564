"""SIGHUP with real supervisors: what a new configuration changes, and what it leaves alone."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, overlaps, tenured, wait_streaming
from tests.wait import until

HANDLER = """
from tenured import Handler

class Passing(Handler):
    def message(self, connection, message):
        self.emit(message)

class Other(Passing):
    pass
"""


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "record") as feed:
        yield feed


def store(folder: Path) -> str:
    return f"sqlite:///{folder}/leases.db"


def change(host: Host, *pairs: tuple[str, str]) -> None:
    text = host.config.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    host.config.write_text(text)


def reload(host: Host, event: str = "config.reloaded") -> dict[str, object]:
    """SIGHUP; the line that answers it."""
    before = len(host.log("config.reloaded") + host.log("config.rejected"))
    host.signal(signal.SIGHUP)
    until(lambda: len(host.log("config.reloaded") + host.log("config.rejected")) > before, 10)
    return host.log(event)[-1]


def rows(folder: Path) -> dict[str, tuple[str, int]]:
    """Owner and epoch of every lease."""
    with sqlite3.connect(folder / "leases.db") as connection:
        found = connection.execute("SELECT lease, owner, epoch FROM leases WHERE lease NOT LIKE '@%'")
        return {lease: (owner, epoch) for lease, owner, epoch in found}


def test_an_unchanged_file_changes_neither_a_pid_nor_an_epoch(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a")) as host:
        wait_streaming(feed, host.shards)
        pids, before, servers = host.child_pids(), rows(tmp_path), servers_of(psutil.Process(host.pid))
        for _ in range(3):
            assert reload(host)["reason"] == "unchanged"
        assert (host.child_pids(), rows(tmp_path)) == (pids, before)
        assert servers_of(psutil.Process(host.pid)) == servers
        assert len(host.log("child.started")) == len(host.shards)


def test_a_storm_of_signals_is_read_one_at_a_time_and_kills_nobody(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a")) as host:
        wait_streaming(feed, host.shards)
        for _ in range(10_000):
            host.signal(signal.SIGHUP)
            host.signal(signal.SIGCHLD)
        change(host, ("[stream:s]", "[stream:s]\nclose_code = 4001"))
        reload(host)
        until(lambda: len(host.log("child.started")) == 2 * len(host.shards), 30)
        wait_streaming(feed, host.shards)
        assert not host.log("child.killed")
        assert host.stop() == 0


def test_only_children_of_changed_streams_are_replaced_and_their_peers_get_a_close_frame(
    tmp_path: Path, feed: FeedProcess
) -> None:
    other = ["[stream:t]", f"url = {feed.url('a')}", "sink = discard", "shards = 0-1"]
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), stream=["", *other]) as host:
        everything = [*host.shards, "t/0", "t/1"]
        wait_streaming(feed, everything)
        pids, before = host.child_pids(), rows(tmp_path)
        change(host, ("[stream:t]", "[stream:t]\nping_interval = 5s"))
        assert reload(host)["reason"] == "changed"
        until(lambda: len(host.log("child.started", shard="t/0") + host.log("child.started", shard="t/1")) == 4, 20)
        wait_streaming(feed, everything)
        assert {shard: pid for shard, pid in host.child_pids().items() if shard.startswith("s/")} == {
            shard: pid for shard, pid in pids.items() if shard.startswith("s/")
        }
        after = rows(tmp_path)
        assert all(after[shard] == before[shard] for shard in host.shards)
        assert all(
            after[shard][0] == before[shard][0] and after[shard][1] > before[shard][1] for shard in ("t/0", "t/1")
        )
        assert not host.log("child.killed")
        assert overlaps(feed) == []


def test_an_invalid_file_changes_nothing_and_is_told_in_log_and_status(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a")) as host:
        wait_streaming(feed, host.shards)
        pids = host.child_pids()
        good = host.config.read_text()
        host.config.write_text(good + "bogus = 3\nping_interval = soon\n")
        reload(host, "config.rejected")
        reasons = [str(line["reason"]) for line in host.log("config.rejected")]
        assert len(reasons) == 2
        assert "unknown key bogus" in reasons[0] + reasons[1]

        def told() -> bool:
            return "unknown key bogus" in tenured("status", "--store", store(tmp_path)).stdout

        until(told, 10, 0.2)
        assert host.child_pids() == pids
        for command, code in {"health": 0, "status": 1, "history s/0": 0}.items():
            done = tenured(*command.split(), "-c", str(host.config))
            assert (done.returncode, done.stderr.count("a reload refuses it")) == (code, 1)
            assert command != "health" or "it rejected its last reload: " in done.stdout
        host.config.write_text(good)
        reload(host)
        until(lambda: not told(), 10, 0.2)
        assert tenured("status", "-c", str(host.config)).returncode == 0
        assert host.child_pids() == pids


@pytest.mark.parametrize("harm", ["missing", "unreadable", "a folder", "binary"])
def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path, feed: FeedProcess, harm: str) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), shards=1) as host:
        wait_streaming(feed, host.shards)
        host.config.unlink()
        if harm == "unreadable":
            host.config.symlink_to(host.config)
        elif harm == "a folder":
            host.config.mkdir()
        elif harm == "binary":
            host.config.write_bytes(bytes(range(256)))
        assert reload(host, "config.rejected")["reason"]
        assert len(host.log("child.started")) == 1
        assert host.stop() == 0


def test_shards_that_come_and_go(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), indices=["0", "1", "2"]) as host:
        wait_streaming(feed, host.shards)
        kept = host.child_pids()["s/1"]
        change(host, ("shards = 0, 1, 2", "shards = 1, 2, 9"))
        reload(host)
        wait_streaming(feed, ["s/1", "s/2", "s/9"])
        until(lambda: "s/0" not in {each.shard for each in feed.connected()}, 10)
        assert rows(tmp_path)["s/0"][0] is None
        assert host.log("lease.released", shard="s/0")[-1]["reason"] == "unconfigured"
        assert host.child_pids()["s/1"] == kept


def test_what_needs_a_restart_stays_and_is_named(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), shards=1) as host:
        wait_streaming(feed, host.shards)
        change(host, ("state_dir = ./state", "state_dir = ./elsewhere"), ("store = ", "fleet = another\nstore = "))
        assert reload(host)["reason"] == "unchanged, but for what waits for a restart: fleet, state_dir"
        change(host, ("[stream:s]", "[stream:s]\nclose_code = 4001"))
        assert reload(host)["reason"] == "changed, but for what waits for a restart: fleet, state_dir"
        warned = " ".join(str(line["reason"]) for line in host.log("config.warning"))
        assert "state_dir" in warned
        assert "fleet" in warned
        assert not (host.folder / "elsewhere").exists()


def test_a_shorter_lease_duration_takes_effect_without_losing_a_lease(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), lease_duration="9s") as host:
        wait_streaming(feed, host.shards)
        change(
            host,
            ("lease_duration = 9s", "lease_duration = 2s\nlog_level = debug"),
            ("[stream:s]", "[stream:s]\nping_interval = 5s"),
        )
        reload(host)
        until(lambda: len(host.log("child.started")) == 2 * len(host.shards), 30)
        wait_streaming(feed, host.shards)
        with sqlite3.connect(tmp_path / "leases.db") as connection:
            durations = connection.execute("SELECT DISTINCT duration_ms FROM leases WHERE lease LIKE 's/%'").fetchall()
        assert durations == [(2000,)]
        assert not host.log("child.killed")


def test_fifty_reloads_leave_threads_files_and_unchanged_children_as_they_were(
    tmp_path: Path, feed: FeedProcess
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "code.py").write_text(HANDLER)
    plain = ["[stream:t]", f"url = {feed.url('a')}", "sink = discard", "shards = 0-1"]
    stream = ["handler = ./code.py:Passing", *plain]
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), shards=2, stream=stream) as host:
        everything = [*host.shards, "t/0", "t/1"]
        wait_streaming(feed, everything)
        me = psutil.Process(host.pid)
        kept = {shard: pid for shard, pid in host.child_pids().items() if shard.startswith("t/")}
        sizes: list[tuple[int, int]] = []
        for number in range(50):
            old, new = ("Passing", "Other") if number % 2 == 0 else ("Other", "Passing")
            change(host, (f"code.py:{old}", f"code.py:{new}"))
            assert reload(host)["reason"] == "changed"
            assert len(servers_of(me)) <= 2
            if number in (5, 49):
                wait_streaming(feed, everything)
                sizes.append((me.num_threads(), me.num_fds()))
        (threads, files), (threads_after, files_after) = sizes
        assert abs(threads_after - threads) <= 2
        assert abs(files_after - files) <= 6
        until(lambda: len(servers_of(me)) <= 2, 20)
        assert {shard: pid for shard, pid in host.child_pids().items() if shard.startswith("t/")} == kept
        assert not host.log("child.killed")
        assert overlaps(feed) == []
        assert host.stop() == 0


def test_children_of_a_changed_handler_wait_for_the_fork_server_that_has_imported_it(
    tmp_path: Path, feed: FeedProcess
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "code.py").write_text(HANDLER)
    (tmp_path / "a" / "slow.py").write_text(f"import time; time.sleep(1)\n{HANDLER}")
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), shards=3, stream=["handler = ./code.py:Passing"]) as host:
        wait_streaming(feed, host.shards)
        me = psutil.Process(host.pid)
        old = servers_of(me)
        change(host, ("code.py:Passing", "slow.py:Passing"))
        reload(host)
        change(host, ("[stream:s]", "[stream:s]\nbogus = 3"))
        reload(host, "config.rejected")
        assert len(host.log("child.started")) == 3
        until(lambda: len(host.log("child.started")) == 6, 30)
        wait_streaming(feed, host.shards)
        until(lambda: len(servers_of(me)) == 1, 10)
        assert servers_of(me) != old
        assert {psutil.Process(pid).ppid() for pid in host.child_pids().values()} == {servers_of(me)[0].pid}
        until(lambda: "unknown key bogus" in tenured("status", "--store", store(tmp_path)).stdout, 10, 0.2)
        assert not host.log("child.killed")
        assert host.stop() == 0


def servers_of(supervisor: psutil.Process) -> list[psutil.Process]:
    """Its fork servers; children of theirs that outlived them would be its own, too."""
    found = []
    for process in supervisor.children():
        try:
            if "forkserver" in " ".join(process.cmdline()) or "fork server" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def test_a_reload_in_the_middle_of_an_outage_waits_for_nothing(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), shards=1, lease_duration="6s") as host:
        wait_streaming(feed, host.shards)
        with sqlite3.connect(tmp_path / "leases.db", isolation_level=None) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            assert reload(host)["reason"] == "unchanged"
            change(host, ("[stream:s]", "[stream:s]\nclose_code = 4001"))
            assert reload(host)["reason"] == "changed"
            connection.execute("ROLLBACK")
        until(lambda: len(host.log("child.started")) == 2, 20)
        wait_streaming(feed, host.shards)
        os.kill(host.pid, 0)


def test_a_reload_during_the_start_claims_nothing_before_a_child_can_run(tmp_path: Path, feed: FeedProcess) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "slow.py").write_text(f"import time; time.sleep(1.5)\n{HANDLER}")
    stream = ["handler = ./slow.py:Passing"]
    with Host(tmp_path / "a", store(tmp_path), feed.url("a"), shards=2, stream=stream) as host:
        until(lambda: host.log("supervisor.started"), 10)
        reload(host)
        wait_streaming(feed, host.shards)
        for shard in host.shards:
            claimed, started = (host.log(event, shard=shard)[0]["time"] for event in ("lease.claimed", "child.started"))
            waited = datetime.fromisoformat(started) - datetime.fromisoformat(claimed)
            assert waited.total_seconds() < 1
