"""`tenured drain`, with real supervisors."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import COMMAND, Host, overlaps, tenured, wait_streaming
from tests.wait import until

STUBBORN = """
import time
from tenured import Handler

class Stubborn(Handler):
    def stop(self):
        time.sleep(600)
"""


def test_a_drained_host_hands_everything_over_and_ends(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        Host(tmp_path / "a", store, feed.url("a")) as first,
        Host(tmp_path / "b", store, feed.url("b")) as second,
    ):
        wait_streaming(feed, first.shards)
        until(lambda: len(first.log("lease.claimed")) >= 1 and len(second.log("lease.claimed")) >= 1, 20)
        done = tenured("drain", "-c", str(first.config))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == "it holds no lease"
        assert first.wait() == 0
        wait_streaming(feed, second.shards, "b")
        assert not first.log("child.killed")
        assert overlaps(feed) == []


def test_nobody_to_drain_is_a_sentence(tmp_path: Path) -> None:
    host = Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", "ws://127.0.0.1:9/")
    done = tenured("drain", "-c", str(host.config))
    assert done.returncode == 1
    assert done.stderr == f"tenured: no supervisor is running at {tmp_path}/a/run/control.sock\n"


def test_asking_twice_does_not_hurry_it_and_not_waiting_says_so(tmp_path: Path) -> None:
    """Two of its children ignore the stop; each of the requests finds it draining."""
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "stubborn.py").write_text(STUBBORN)
    store = f"sqlite:///{tmp_path}/leases.db"
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        Host(
            folder,
            store,
            feed.url("a"),
            shards=2,
            supervisor=["stop_timeout = 3s"],
            stream=["handler = ./stubborn.py:Stubborn"],
        ) as host,
    ):
        wait_streaming(feed, host.shards)
        for _ in range(3):
            done = tenured("drain", "-c", str(host.config), "--no-wait")
            assert (done.returncode, done.stdout.count("drains, it holds")) == (0, 1)
        short = tenured("drain", "-c", str(host.config), "--timeout", "0.5")
        assert short.returncode == 1
        assert "has not ended within 0.5 s; it goes on draining" in short.stderr
        assert host.wait() == 0
        assert {line["reason"] for line in host.log("child.killed")} == {"stop-timeout"}


def test_a_lease_that_could_not_be_released_is_named(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        Host(tmp_path / "a", store, feed.url("a"), shards=1) as host,
        sqlite3.connect(tmp_path / "leases.db", isolation_level=None, check_same_thread=False) as other,
    ):
        wait_streaming(feed, host.shards)
        other.execute("BEGIN EXCLUSIVE")
        asked = subprocess.Popen(
            [*COMMAND, "drain", "-c", str(host.config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert host.wait() == 75
        other.execute("ROLLBACK")
        _, sentence = asked.communicate(timeout=30)
        assert asked.returncode == 75
        assert "could not be released and run out by themselves: s/0" in sentence


def test_a_supervisor_that_did_not_answer_in_time_does_not_drain_later(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        Host(tmp_path / "a", store, feed.url("a"), shards=1, lease_duration="20s") as host,
    ):
        wait_streaming(feed, host.shards)
        host.signal(signal.SIGSTOP)
        asked = tenured("drain", "-c", str(host.config), "--timeout", "1s")
        assert asked.returncode == 1
        assert "did not answer drain within 1 s" in asked.stderr
        host.signal(signal.SIGCONT)
        until(lambda: tenured("health", "-c", str(host.config)).returncode == 0, 10)
        assert not host.log("supervisor.draining")
        assert host.stop() == 0


@pytest.mark.parametrize(("signals", "killed"), [(1, 0), (2, 1)])
def test_the_first_signal_after_a_request_to_drain_does_not_hurry_it_and_the_second_does(
    tmp_path: Path, signals: int, killed: int
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "stubborn.py").write_text(STUBBORN.replace("600", "1.5"))
    store = f"sqlite:///{tmp_path}/leases.db"
    handler = ["handler = ./stubborn.py:Stubborn"]
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        Host(folder, store, feed.url("a"), shards=1, stream=handler) as host,
    ):
        wait_streaming(feed, host.shards)
        assert tenured("drain", "-c", str(host.config), "--no-wait").returncode == 0
        host.signal(signal.SIGTERM)
        if signals > 1:
            until(host.ended_by_another_signal, 10)
        assert host.wait() == 0
        assert len(host.log("child.killed", reason="hurried")) == killed
