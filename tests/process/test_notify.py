"""What a real `tenured run` tells its service manager."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.ear import Ear
from tests.process import hung
from tests.process.host import Host, wait_streaming
from tests.wait import until

REFUSING = "dynamodb://leases?region=eu-west-1&endpoint_url=http://127.0.0.1:9"
NOBODY = "ws://127.0.0.1:9/"
SLOW_TO_STOP = """
import time
from tenured import Handler

class Slow(Handler):
    def stop(self):
        time.sleep(1)
"""


@pytest.fixture
def ear() -> Iterator[Ear]:
    with Ear() as made:
        yield made


def heeded(ear: Ear, folder: Path, store: str = "sqlite:///leases.db", url: str = NOBODY, **more: object) -> Host:
    environment = {"NOTIFY_SOCKET": ear.address, "WATCHDOG_USEC": "30000000"}
    return Host(folder / "a", store, url, environment=environment, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("store", "supervisor"), [("sqlite:///leases.db", ["capacity = 0"]), (REFUSING, [])], ids=["no shard", "no store"]
)
def test_it_is_ready_with_nothing_to_run_and_without_its_store(
    ear: Ear, tmp_path: Path, store: str, supervisor: list[str]
) -> None:
    with heeded(ear, tmp_path, store, supervisor=supervisor) as host:
        assert re.fullmatch(r"READY=1\nSTATUS=.+", ear.wait_for("READY=1"))
        ear.wait_for("WATCHDOG=1", times=3)
        assert host.stop() == 0


def test_pings_come_at_half_the_interval_or_faster_from_the_start_on(ear: Ear, tmp_path: Path) -> None:
    with heeded(ear, tmp_path, lease_duration="9s"):
        assert ear.wait_for("WATCHDOG_USEC=") == "WATCHDOG_USEC=3000000"
        ear.wait_for("WATCHDOG=1", times=6)
    assert max(ear.gaps_s("WATCHDOG=1")) <= 1.5


def test_a_blocked_loop_stops_the_pings(ear: Ear, tmp_path: Path) -> None:
    with heeded(ear, tmp_path, within=[sys.executable, "-P", hung.__file__]) as host:
        ear.wait_for("WATCHDOG=1", times=3)
        host.signal(signal.SIGUSR1)
        silences = until(lambda: _silences(ear), 20)
    assert len(silences) == 1


def _silences(ear: Ear) -> list[float]:
    ear.heard()
    return [gap_s for gap_s in ear.gaps_s("WATCHDOG=1") if gap_s > hung.BLOCKED_S * 0.75]


def test_a_reload_is_told_with_its_time_and_ends_ready_whether_it_is_taken_or_rejected(
    ear: Ear, tmp_path: Path
) -> None:
    with heeded(ear, tmp_path) as host:
        ear.wait_for("READY=1")
        valid = host.config.read_text()
        for text, event in ((valid, "config.reloaded"), (valid + "nonsense = 1\n", "config.rejected")):
            host.config.write_text(text)
            earliest_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            ear.messages.clear()
            host.signal(signal.SIGHUP)
            ear.wait_for("READY=1")
            assert host.log(event)
            told = [text for _, text in ear.messages if text.startswith(("RELOADING", "READY"))]
            reloading, ready = told
            at_us = int(reloading.removeprefix("RELOADING=1\nMONOTONIC_USEC="))
            assert earliest_us <= at_us <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert "rejected" in ready


def test_a_stop_is_told_with_how_long_it_may_take(ear: Ear, tmp_path: Path) -> None:
    with FeedProcess(tmp_path / "feed.jsonl") as feed, heeded(ear, tmp_path, url=feed.url("a")) as host:
        wait_streaming(feed, host.shards)
        host.signal(signal.SIGTERM)
        assert ear.wait_for("STOPPING=1") == "STOPPING=1\nEXTEND_TIMEOUT_USEC=18000000"
        assert host.wait() == 0


def test_no_process_that_it_starts_takes_itself_for_the_service(ear: Ear, tmp_path: Path) -> None:
    with FeedProcess(tmp_path / "feed.jsonl") as feed, heeded(ear, tmp_path, url=feed.url("a"), shards=1) as host:
        wait_streaming(feed, host.shards)
        started = host.tree()
        assert len(started) == 2  # the fork server and a child
        found = [name for process in started for name in process.environ()]
        assert [name for name in found if name.startswith(("NOTIFY_", "WATCHDOG_"))] == []


def test_a_shorter_timeout_is_followed_by_a_ping_at_once(ear: Ear, tmp_path: Path) -> None:
    """It counts from the message that sets it, and the last ping may be older than all of it."""
    with heeded(ear, tmp_path, lease_duration="30s") as host:
        ear.wait_for("WATCHDOG=1", times=2)
        host.config.write_text(host.config.read_text().replace("lease_duration = 30s", "lease_duration = 3s"))
        host.signal(signal.SIGHUP)
        ear.wait_for("WATCHDOG_USEC=1000000")
        ear.wait_for("WATCHDOG=1", times=len(pings(ear)) + 3)
    set_s = next(at_ns / 1e9 for at_ns, text in ear.messages if text == "WATCHDOG_USEC=1000000")
    assert min(at_s for at_s in pings(ear) if at_s >= set_s) <= set_s + 0.25
    later = [at_s for at_s in pings(ear) if at_s >= set_s]
    assert max(after - before for before, after in pairwise(later)) <= 0.5


def pings(ear: Ear) -> list[float]:
    return [at_ns / 1e9 for at_ns, text in ear.messages if text == "WATCHDOG=1"]


def test_nothing_is_told_of_a_reload_after_the_stop(ear: Ear, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "slow.py").write_text(SLOW_TO_STOP)
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        heeded(ear, tmp_path, url=feed.url("a"), shards=1, stream=["handler = ./slow.py:Slow"]) as host,
    ):
        wait_streaming(feed, host.shards)
        host.signal(signal.SIGTERM)
        ear.wait_for("STOPPING=1")
        host.signal(signal.SIGHUP)
        assert host.wait() == 0
        ear.heard()
        texts = [text for _, text in ear.messages]
        after = texts[next(index for index, text in enumerate(texts) if text.startswith("STOPPING=1")) :]
        assert not [text for text in after if text.startswith(("RELOADING=1", "READY=1"))]
        assert not host.log("config.reloaded")
