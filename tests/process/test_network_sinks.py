"""Children of a real supervisor whose sinks talk to a far end: what they are given, and how they stop."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.aws_ends import Stream
from tests.collector import Collector, silence, status
from tests.engines import Engine
from tests.far_ends import numbers
from tests.feed import Feed, Peer
from tests.process.host import Host, tenured
from tests.wait import until
from workers.sinks.condition import LAST_TRIES

TELLING = """
import json
import os
import sys
from tenured import Handler

class Telling(Handler):
    def message(self, connection, message):
        self.emit(json.dumps({"variables": sorted(os.environ), "modules": sorted(sys.modules)}))
"""
AWS = {"AWS_SESSION_TOKEN": "a-token", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/"}
MESSAGES = 300


def talk(peer: Peer) -> None:
    peer.accept()
    for number in range(MESSAGES):
        peer.text(json.dumps({"seq": number}))
    peer.serve()


@pytest.fixture
def feed() -> Iterator[Feed]:
    with Feed(talk) as running:
        yield running


def store(folder: Path) -> str:
    return f"sqlite:///{folder / 'leases.db'}"


def told(line: bytes) -> tuple[set[str], set[str]]:
    """Variables, and packages that were imported."""
    found = json.loads(json.loads(line)["data"])
    return set(found["variables"]), {name.partition(".")[0] for name in found["modules"]}


def test_only_a_child_whose_sink_is_at_aws_gets_what_signs_requests_and_loads_the_library(
    tmp_path: Path, ministack: Engine
) -> None:
    stream = Stream(ministack.endpoint_url)
    (tmp_path / "code.py").write_text(TELLING)
    other = tmp_path / "other.jsonl"
    with FeedProcess(tmp_path / "feed.jsonl", rate=20) as feed:
        handler = f"handler = {tmp_path}/code.py:Telling"
        lines = [f"sink = {stream.sink(ministack.endpoint_url)}", handler]
        lines += ["[stream:t]", f"url = {feed.url('b')}", f"sink = jsonl:{other}", handler]
        with Host(tmp_path / "host", store(tmp_path), feed.url("a"), shards=1, stream=lines, environment=AWS) as host:
            until(lambda: len(stream.lines()) > 30, 20)
            until(lambda: other.exists() and other.read_bytes().count(b"\n") > 30, 20)
            assert host.stop() == 0
    variables, packages = told(stream.lines()[-1])
    assert variables >= {*AWS, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert "botocore" in packages
    variables, packages = told(other.read_bytes().splitlines()[-1])
    assert {name for name in variables if name.startswith("AWS")} == set()
    assert packages & {"boto3", "botocore", "urllib3", "http"} == set()


def test_what_all_children_load_has_no_library_of_a_network_sink() -> None:
    code = "import sys, workers.process.forkserver, workers.stream.shard; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unwanted = {"boto3", "botocore", "http.client", "email", "random", "threading", "workers.sinks.post"}
    assert set(done.stdout.split()) & unwanted == set()


def test_a_stop_flushes_what_was_received_and_ends_with_0(tmp_path: Path, feed: Feed) -> None:
    with Collector() as collector:
        collector.then(status(503), status(500))
        lines = [f"sink = {collector.url}", "checkpoint = /seq"]
        with Host(tmp_path / "host", store(tmp_path), feed.url, shards=1, stream=lines) as host:
            until(lambda: collector.lines, 20)
            assert host.stop() == 0
        accepted = [line for posted in collector.posted[2:] for line in posted.lines]
        assert numbers(accepted) == list(range(1, len(accepted) + 1))
        assert accepted
        assert {posted.key for posted in collector.posted[:3]} == {collector.posted[0].key}
    with sqlite3.connect(tmp_path / "leases.db") as database:
        (kept,) = database.execute("SELECT checkpoint FROM leases WHERE lease = 's/0'").fetchone()
    assert kept == str(len(accepted) - 1)


def test_a_stop_does_not_wait_for_the_next_try_and_commits_what_was_taken_and_no_more(
    tmp_path: Path, feed: Feed
) -> None:
    with Collector() as collector:
        lines = [f"sink = {collector.url}", "checkpoint = /seq", "sink_batch = 100"]
        collector.then(status(200), *[status(403)] * 100)  # which is tried again once a minute
        with Host(
            tmp_path / "host", store(tmp_path), feed.url, shards=1, stream=lines, supervisor=["stop_timeout = 50s"]
        ) as host:
            until(lambda: len(collector.posted) == 2, 20)
            began = time.monotonic()
            assert host.stop() == 0
            assert time.monotonic() - began < 25
            assert host.log("child.killed") == []
            assert host.log("child.failed")[-1]["reason"].endswith(f"answer 403 from 127.0.0.1:{collector.port}")
        assert len(collector.posted) == 2 + LAST_TRIES
        taken = numbers(collector.posted[0].lines)
    with sqlite3.connect(tmp_path / "leases.db") as database:
        (kept,) = database.execute("SELECT checkpoint FROM leases WHERE lease = 's/0'").fetchone()
    assert kept in (None, str(len(taken) - 1))


def test_a_collector_that_does_not_answer_is_shown_and_holds_up_no_stop_beyond_its_timeout(
    tmp_path: Path, feed: Feed
) -> None:
    with Collector() as collector:
        collector.then(*[silence] * 100)
        lines = [f"sink = {collector.url}", "sink_timeout = 300ms", "sink_header.Authorization = Bearer a-secret"]
        with Host(
            tmp_path / "host", store(tmp_path), feed.url, shards=1, stream=lines, supervisor=["stop_timeout = 1s"]
        ) as host:
            until(lambda: host.log("sink.stalled"), 30)
            where = f"127.0.0.1:{collector.port}"
            shown = until(
                lambda: (text := tenured("status", "-c", str(host.config)).stdout) and where in text and text, 20, 0.2
            )
            assert "no answer from" in shown
            assert host.log("sink.stalled")[0]["reason"] == f"no answer from {where}"
            began = time.monotonic()
            assert host.stop() == 0
            assert time.monotonic() - began < 8
            log = (host.folder / "log").read_text()
        assert "a-secret" not in log + shown
        assert "/events" not in "".join(line.get("reason", "") for line in host.log("sink.stalled"))
