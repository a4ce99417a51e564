"""An SQLite file that somebody else keeps locked is a store like any other that cannot be reached: it is waited for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, tenured, wait_streaming
from tests.wait import until

PATIENCE_S = 5.0  # a start asks so long for the file before it goes on without


def test_a_supervisor_that_starts_while_its_file_is_locked_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "leases.db"
    store = f"sqlite:///{path}"
    assert tenured("init", "--store", store).returncode == 0
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        closing(sqlite3.connect(path, isolation_level=None)) as holder,
    ):
        holder.execute("BEGIN EXCLUSIVE")
        with Host(tmp_path / "a", store, feed.url("a")) as patient, Host(tmp_path / "b", store, feed.url("b")) as hasty:
            until(lambda: patient.log("store.unreachable") and hasty.log("store.unreachable"), PATIENCE_S + 10)
            assert hasty.stop() == 0
            holder.execute("ROLLBACK")
            wait_streaming(feed, patient.shards, "a")
            assert patient.stop() == 0
