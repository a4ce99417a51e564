"""A supervisor that is started without some of its standard files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, wait_streaming


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_files_that_are_closed_at_the_start_lead_nowhere_and_the_supervisor_works(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    redirections = " ".join(f"{fd}>&-" for fd in closed)
    without = ("sh", "-c", f'exec "$@" {redirections}', "sh")
    store = f"sqlite:///{tmp_path}/leases.db"
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        Host(tmp_path / "a", store, feed.url("a"), shards=2, within=without) as host,
    ):
        wait_streaming(feed, host.shards)
        for fd in closed:
            assert os.readlink(f"/proc/{host.pid}/fd/{fd}") == os.devnull
        log = (host.folder / "log").read_text().splitlines()
        assert bool(log) == (2 not in closed)
        assert [line for line in log if not line.startswith("{")] == []
        assert host.stop() == 0
