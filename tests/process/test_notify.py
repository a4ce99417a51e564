"""What a real `tenured run` tells its service manager."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.ear import Ear
from tests.process import hung
from tests.process.host import Host, wait_streaming
from tests.wait import until

REFUSING = "dynamodb://leases?region=eu-west-1&endpoint_url=http://127.0.0.1:9"
NOBODY = "ws://127.0.0.1:9/"


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
