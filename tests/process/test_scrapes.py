"""What a real supervisor shows to Prometheus while its children live and die."""

from __future__ import annotations

import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from supervisor.metrics.exposition import CONTENT_TYPE
from tests import engines, promtool
from tests.metrics import read
from tests.process.hand import SqliteHand
from tests.process.host import Host, wait_streaming
from tests.wait import until


class Scraped:
    """A supervisor on SQLite that serves its metrics."""

    def __init__(self, folder: Path, feed: FeedProcess) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.host = Host(
            folder / "a",
            f"sqlite:///{folder}/leases.db",
            feed.url("a"),
            shards=2,
            supervisor=[f"http = {self.address}"],
        )

    def page(self) -> bytes:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            return bytes(answer.read())

    def value(self, name: str, **labels: str) -> float | None:
        """The value of one series; None: there is none."""
        found = [sample.value for sample in read(self.page())[name].samples if sample.labels == labels]
        return found[0] if found else None

    def shows(self, name: str, value: float, **labels: str) -> None:
        until(lambda: self.value(name, **labels) == value, 20, 0.2)


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[Scraped]:
    with FeedProcess(tmp_path / "feed.jsonl", rate=50) as feed:
        made = Scraped(tmp_path, feed)
        with made.host:
            wait_streaming(feed, made.host.shards)
            yield made


def test_counts_of_a_shard_run_on_when_its_child_is_killed_and_the_linter_is_content(scraped: Scraped) -> None:
    for shard in scraped.host.shards:
        scraped.shows("tenured_shard_up", 1, shard=shard)
        scraped.shows("tenured_shard_connections_open", 1, shard=shard)
    until(lambda: (scraped.value("tenured_shard_messages_total", shard="s/0") or 0) >= 50, 20, 0.2)
    counted = scraped.value("tenured_shard_messages_total", shard="s/0")
    os.kill(scraped.host.child_pid("s/0"), signal.SIGKILL)
    scraped.shows("tenured_shard_restarts_total", 1, shard="s/0")
    assert counted is not None
    assert (scraped.value("tenured_shard_messages_total", shard="s/0") or 0) >= counted
    scraped.shows("tenured_shard_connects_total", 2, shard="s/0")
    assert scraped.value("tenured_shard_restarts_total", shard="s/1") == 0
    checked = promtool.promtool(engines.promtool_folder(), "check", "metrics", given=scraped.page())
    assert (checked.returncode, checked.stdout.decode()) == (0, "")
    assert (scraped.value("tenured_store_writes_total", kind="renew", outcome="applied") or 0) > 0
    assert scraped.value("tenured_store_writes_total", kind="renew", outcome="refused") == 0


def test_a_rejected_configuration_is_shown_until_a_valid_one_is_loaded(scraped: Scraped) -> None:
    valid = scraped.host.config.read_text()
    scraped.host.config.write_text(valid + "nonsense = 1\n")
    scraped.host.signal(signal.SIGHUP)
    scraped.shows("tenured_config_last_reload_successful", 0)
    scraped.host.config.write_text(valid)
    scraped.host.signal(signal.SIGHUP)
    scraped.shows("tenured_config_last_reload_successful", 1)
    assert scraped.value("tenured_config_reloads_total", outcome="rejected") == 1


def test_a_paused_shard_and_a_lost_one_leave_no_values_behind(scraped: Scraped) -> None:
    hand = SqliteHand(scraped.host.folder.parent / "leases.db")
    hand.alter("s/0", "paused", True)
    hand.seize("s/1", "nobody:1:f00d")
    for shard in scraped.host.shards:
        until(lambda shard=shard: scraped.value("tenured_shard_up", shard=shard) is None, 20, 0.2)
    scraped.shows("tenured_paused_shards", 1)
    scraped.shows("tenured_lease_failures_total", 1, reason="lost")
    scraped.shows("tenured_kills_total", 1, reason="lost")
    scraped.shows("tenured_releases_total", 1, reason="paused")
