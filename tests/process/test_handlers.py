"""Handlers in children of a real supervisor: ones that fail, ones that block, ones that bring large libraries."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, wait_streaming
from tests.wait import until

FAILING = """
import json
from pathlib import Path
from tenured import Handler

BAD = Path(__file__).parent / "bad"

class Failing(Handler):
    bad = False

    def message(self, connection, message):
        self.bad = self.bad or BAD.exists()  # for good: what comes after a success is not seen again
        if self.bad:
            raise ValueError("bad today")
        self.emit(message)
        self.checkpoint(str(json.loads(message)["seq"] + 1))
"""
BLOCKING = """
import time
from pathlib import Path
from tenured import Handler

MARK = Path(__file__).parent / "blocked"

class Blocking(Handler):
    def start(self, shard):
        self.shard = shard.name

    def message(self, connection, message):
        if self.shard == "s/0" and not MARK.exists():
            MARK.touch()
            time.sleep(999)
        self.emit(message)
"""
CALCULATING = """
import json
import os
import numpy as np
import pandas as pd
from tenured import Handler

IMPORTED_BY = os.getpid()

class Calculating(Handler):
    def messages(self, connection, batch):
        frame = pd.DataFrame([json.loads(message) for message in batch])
        spread = float(np.linalg.norm(frame["seq"] - frame["seq"].mean()))
        self.emit(json.dumps({"imported_by": IMPORTED_BY, "child_of": os.getppid(), "spread": spread}))
"""


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl", rate=50) as feed:
        yield feed


def host(folder: Path, feed: FeedProcess, source: str, shards: int, **options: Any) -> Host:
    """A supervisor whose handler is the last class of this source."""
    name = source.rpartition("class ")[2].partition("(")[0]
    (folder / "code.py").write_text(source)
    stream = [f"handler = {folder}/code.py:{name}", *options.pop("stream", [])]
    url = feed.url("a", "&from=${checkpoint:-1}")
    return Host(folder / "a", f"sqlite:///{folder}/leases.db", url, shards=shards, stream=stream, **options)


def test_a_handler_that_fails_again_and_again_is_told_counted_and_started_anew_from_its_last_checkpoint(
    tmp_path: Path, feed: FeedProcess
) -> None:
    with host(tmp_path, feed, FAILING, 2, stream=["handler_errors = 3"], supervisor=["crash_limit = 100"]) as one:
        until(lambda: {each.shard for each in one.deliveries()} == {"s/0", "s/1"}, 20)
        (tmp_path / "bad").touch()
        failed = until(lambda: one.log("child.failed", shard="s/0"), 20)[0]
        line = FAILING.splitlines().index('            raise ValueError("bad today")') + 1
        where = f"{tmp_path}/code.py:{line}"
        assert (
            failed["reason"] == f"the handler raised 3 errors in a row, the last one ValueError: bad today at {where}"
        )
        until(lambda: one.log("child.exited", shard="s/0", epoch=failed["epoch"]), 10)
        errors = one.log("handler.failed", shard="s/0", epoch=failed["epoch"])
        assert [error["in_a_row"] for error in errors] == [1, 2, 3]
        numbers = [error["message_number"] for error in errors]
        assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
        assert {(error["connection"], error["where"]) for error in errors} == {(0, where)}
        (tmp_path / "bad").unlink()
        last = max(each.seq for each in one.deliveries() if each.shard == "s/0")
        until(lambda: any(each.shard == "s/0" and each.seq > last + 50 for each in one.deliveries()), 30)
        seqs = [each.seq for each in one.deliveries() if each.shard == "s/0"]
        assert set(range(min(seqs), max(seqs) + 1)) == set(seqs)  # nothing that it failed at was lost
        assert one.stop() == 0


def test_a_handler_that_blocks_is_killed_within_the_hang_timeout_and_started_anew_and_others_are_untouched(
    tmp_path: Path, feed: FeedProcess
) -> None:
    hang_s = 2.0
    with host(tmp_path, feed, BLOCKING, 3, supervisor=[f"hang_timeout = {hang_s * 1000:.0f}ms"]) as one:
        until((tmp_path / "blocked").exists, 20)
        began = time.monotonic()
        killed = until(lambda: one.log("child.killed", shard="s/0"), 10)[0]
        assert time.monotonic() - began < hang_s + 3
        assert killed["reason"].startswith("hung")
        until(lambda: any(each.shard == "s/0" and each.epoch > killed["epoch"] for each in one.deliveries()), 20)
        for other in ("s/1", "s/2"):
            assert len(one.log("child.started", shard=other)) == 1
            assert not one.log("connection.closed", shard=other)
        assert one.stop() == 0


def test_numpy_and_pandas_are_imported_once_for_all_children_and_used_there(tmp_path: Path, feed: FeedProcess) -> None:
    with host(tmp_path, feed, CALCULATING, 3) as one:
        wait_streaming(feed, one.shards, timeout_s=30)

        def events() -> dict[str, dict[str, Any]]:
            if not one.events.exists():
                return {}
            lines = [json.loads(line) for line in one.events.read_bytes().split(b"\n")[:-1]]
            return {line["shard"]: json.loads(line["data"]) for line in lines}

        until(lambda: len(events()) == 3, 20)
        for said in events().values():
            assert said["imported_by"] == said["child_of"]
            assert said["spread"] >= 0
        assert one.log("config.warning") == []
        server = psutil.Process(next(iter(events().values()))["child_of"])
        assert server.num_threads() == 1
        assert one.stop() == 0
