"""A sink of a user's own under a real supervisor: imported once, before the fork, and given up in order."""

from __future__ import annotations

from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host
from tests.wait import until

MINE = """
import os
from tenured import Sink

with open({folder!r} + "/imports", "a") as file:
    print(os.getpid(), file=file)

class Mine(Sink):
    def open(self, shard):
        self.file = open({folder!r} + "/" + shard.name.replace("/", "-"), "a")
    def write(self, events):
        for event in events:
            print("event", event.seq, os.getpid(), file=self.file)
    def flush(self):
        self.file.flush()
    def close(self):
        print("close", 0, os.getpid(), file=self.file)
        self.file.close()
"""


def test_all_children_use_the_class_that_was_imported_before_the_fork_and_a_stop_closes_each_sink(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(MINE.format(folder=str(tmp_path)))
    stream = [f"sink = {tmp_path}/mine.py:Mine", "checkpoint = /seq", "sink_batch = 20"]
    with (
        FeedProcess(tmp_path / "feed.jsonl", rate=100) as feed,
        Host(tmp_path / "host", f"sqlite:///{tmp_path}/leases.db", feed.url("s"), shards=2, stream=stream) as host,
    ):
        files = [tmp_path / "s-0", tmp_path / "s-1"]
        until(lambda: all(path.exists() for path in files), 20)
        pids = {str(pid) for pid in host.child_pids().values()}
        until(lambda: all(len(path.read_text().splitlines()) > 20 for path in files), 20)
        assert host.stop() == 0
    found = [[line.split() for line in path.read_text().splitlines()] for path in files]
    for lines in found:
        assert [int(seq) for _, seq, _ in lines[:-1]] == list(range(1, len(lines)))
        assert lines[-1][0] == "close"
    assert {pid for lines in found for _, _, pid in lines} == pids
    imports = (tmp_path / "imports").read_text().split()
    assert len(imports) == 2, "once to try it, once for all children"
    assert not pids & set(imports)
