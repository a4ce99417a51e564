"""A wall clock that steps by a day, under one of two supervisors that watch each other's leases."""

from __future__ import annotations

import os
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests.process.hand import Row, SqliteHand
from tests.process.host import Host, wait_streaming
from tests.wait import until
from workers.process.kernel import boottime_ns

SECOND_NS = 1_000_000_000
LEASE_S = 3.0
DAY_S = 86_400
# Every clock that counts from 1970 and that Python's own code reads; the file says by how much it is wrong.
CLOCKS = """
import time

def stepped(read, unit):
    def clock(*arguments):
        with open({step!r}) as file:
            return read(*arguments) + int(file.read()) * unit
    return clock

time.time = stepped(time.time, 1)
time.time_ns = stepped(time.time_ns, 1_000_000_000)
"""


def test_a_wall_clock_that_steps_by_a_day_in_either_direction_takes_no_lease_and_kills_nobody(tmp_path: Path) -> None:
    step, startup = tmp_path / "step", tmp_path / "startup"
    startup.mkdir()
    (startup / "sitecustomize.py").write_text(CLOCKS.format(step=str(step)))
    path = os.pathsep.join([str(startup), *filter(None, [os.environ.get("PYTHONPATH")])])
    set_step(step, 0)
    hand = SqliteHand(tmp_path / "leases.db")
    store = f"sqlite:///{tmp_path}/leases.db"
    with FeedProcess(tmp_path / "feed.jsonl") as feed:
        a = Host(tmp_path / "a", store, feed.url("a"))
        b = Host(tmp_path / "b", store, feed.url("b"), environment={"PYTHONPATH": path})
        with a, b:
            wait_streaming(feed, a.shards)
            until(lambda: {each.supervisor for each in feed.connected()} == {"a", "b"}, 15, 0.05)
            settled = {each.shard: each.number for each in until(feed.connected, 5)}
            for days in (1, -1):
                set_step(step, days * DAY_S)
                over_ns = boottime_ns() + int(1.5 * LEASE_S * SECOND_NS)
                until(lambda over_ns=over_ns: boottime_ns() > over_ns, 3 * LEASE_S, 0.05)  # type: ignore[misc]
                assert {each.shard: each.number for each in feed.connected()} == settled
                assert apart_s(hand.rows()) > DAY_S - 60, "the clock of b never stepped"
            assert [host.stop() for host in (a, b)] == [0, 0]


def set_step(file: Path, seconds: int) -> None:
    """In one piece, since it is read all the time."""
    new = file.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(file)


def apart_s(rows: dict[str, Row]) -> float:
    """Between the wall clocks of those who wrote the rows."""
    at_ms = [row["renewed_at"] for row in rows.values()]
    return (max(at_ms) - min(at_ms)) / 1000
