"""Commands of operators against real supervisors, of which one or the command itself dies or stops at any step."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from supervisor import exits
from supervisor.demo.feed_process import FeedProcess
from tests.process.hand import SqliteHand
from tests.process.host import COMMAND, Host, overlaps, tenured, wait_streaming
from tests.wait import until

Done = subprocess.CompletedProcess[str]
DEAF = """
from tenured import Handler


class Deaf(Handler):
    def stop(self):
        while True:
            pass
"""
SLOW = """
import time
from tenured import Handler


class Slow(Handler):
    def stop(self):
        time.sleep(4)
"""
# For a command alone: what it takes for the time is that of another hour.
WRONG_CLOCK = """
import time

right = time.time_ns
time.time_ns = lambda: right() + {ahead_s} * 1_000_000_000
"""


class Fleet:
    """Supervisors `a`, `b` and so on of one SQLite file, in the order of their starts."""

    def __init__(self, folder: Path, feed: FeedProcess) -> None:
        self.folder = folder
        self.feed = feed
        self.url = f"sqlite:///{folder}/leases.db"
        self.hand = SqliteHand(folder / "leases.db")

    def host(self, name: str, shards: int = 2, supervisor: tuple[str, ...] = (), stream: tuple[str, ...] = ()) -> Host:
        feed = self.feed.url(name)
        return Host(self.folder / name, self.url, feed, shards=shards, supervisor=supervisor, stream=stream)

    def tell(self, *arguments: str, **environment: str) -> Done:
        return tenured(*arguments, "--store", self.url, timeout_s=90, **environment)

    def tell_with_wrong_clock(self, ahead_s: int, *arguments: str) -> Done:
        startup = self.folder / f"startup{ahead_s}"
        startup.mkdir(exist_ok=True)
        (startup / "sitecustomize.py").write_text(WRONG_CLOCK.format(ahead_s=ahead_s))
        path = os.pathsep.join([str(startup), *filter(None, [os.environ.get("PYTHONPATH")])])
        return self.tell(*arguments, PYTHONPATH=path)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        command = [*COMMAND, *arguments, "--store", self.url]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def holder(self, shard: str) -> str:
        """Whose connections of the shard are open."""
        return "".join(each.supervisor for each in self.feed.connected(shard))

    def row(self, shard: str) -> dict[str, object]:
        return self.hand.rows()[shard]

    def wait_at(self, name: str, *shards: str, timeout_s: float = 20) -> None:
        until(lambda: all(self.holder(shard) == name for shard in shards), timeout_s, 0.02)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with FeedProcess(tmp_path / "feed.jsonl") as feed:
        yield Fleet(tmp_path, feed)
        assert not overlaps(feed)


@contextmanager
def pair(fleet: Fleet, shards: int = 1, **options: tuple[str, ...]) -> Iterator[tuple[Host, Host]]:
    """`a` has everything, and `b` is there. With one shard the loads are even enough."""
    a, b = fleet.host("a", shards, **options), fleet.host("b", shards, **options)
    with a:
        wait_streaming(fleet.feed, a.shards, "a")
        with b:
            until(lambda: f"@{id_of(b)}" in fleet.hand.rows(), 15, 0.05)
            yield a, b


def suspend(fleet: Fleet, host: Host) -> None:
    """SIGSTOP, but not while it writes: then nobody else could use the file."""

    def stopped_outside_of_a_write() -> bool:
        host.signal(signal.SIGSTOP)
        until(lambda: psutil.Process(host.pid).status() == psutil.STATUS_STOPPED, 5)
        file = sqlite3.connect(fleet.folder / "leases.db", timeout=0.1, isolation_level=None)
        try:
            file.execute("BEGIN IMMEDIATE")
            file.execute("ROLLBACK")
        except sqlite3.OperationalError:
            host.signal(signal.SIGCONT)
            return False
        finally:
            file.close()
        return True

    until(stopped_outside_of_a_write, 10)


def id_of(host: Host) -> str:
    return str(until(lambda: host.log("supervisor.started"), 15, 0.05)[0]["supervisor"])


def end(command: subprocess.Popen[str]) -> Done:
    out, err = command.communicate(timeout=90)
    return subprocess.CompletedProcess(command.args, command.returncode, out, err)


# --- moving -----------------------------------------------------------------------------------------------


def test_shards_move_to_another_or_to_a_given_one_and_the_command_tells_when_they_have(fleet: Fleet) -> None:
    with pair(fleet) as (a, b):
        done = fleet.tell("move", "s/0")
        moved = rf"s/0 moved from {id_of(a)} to {id_of(b)}, epoch \d+ -> \d+, after \d+\.\d s\n"
        assert (done.returncode, bool(re.fullmatch(moved, done.stdout))) == (exits.OK, True), done
        fleet.wait_at("b", "s/0", timeout_s=3)
        done = fleet.tell("move", "s/0", "--to", id_of(a).rpartition(":")[2])
        assert done.returncode == exits.OK, done
        fleet.wait_at("a", "s/0", timeout_s=3)
        assert fleet.tell("move", "s/0", "--to", id_of(a)).stdout.startswith(f"s/0 is at {id_of(a)} already, epoch ")
        assert fleet.row("s/0")["move"] is None
        assert {each.code for each in fleet.feed.connections() if each.closed_ns} == {1001}


def test_all_shards_that_match_move_and_stay_although_the_loads_differ_then(fleet: Fleet) -> None:
    with pair(fleet, shards=3) as (a, b):
        for target in (b, a):
            done = fleet.tell("move", "s/*", "--to", id_of(target))
            assert done.returncode == exits.OK, done
            assert [line.split(" ")[0] for line in sorted(done.stdout.splitlines())] == a.shards
        fleet.wait_at("a", *a.shards, timeout_s=3)
        beat = int(str(fleet.row(f"@{id_of(b)}")["beat"]))
        until(lambda: int(str(fleet.row(f"@{id_of(b)}")["beat"])) > beat + 2, 15, 0.05)
        assert "".join(fleet.holder(shard) for shard in a.shards) == "aaa"


def test_what_is_in_vain_is_told_and_leaves_no_wish_behind(fleet: Fleet) -> None:
    with fleet.host("a") as a:
        wait_streaming(fleet.feed, a.shards)
        before = fleet.row("s/0")
        for arguments, sentence in (
            (("s/0",), "nobody else can take it: no other live supervisor is configured for it"),
            (("s/0", "--to", "nobody"), f"there is no supervisor nobody; live is only {id_of(a)}"),
            (("s/5",), "there is no shard s/5; did you mean s/"),
            (("t/*", "s/0"), "there is no shard t/*"),
        ):
            done = fleet.tell("move", *arguments)
            assert (done.returncode, done.stdout) == (exits.NO, "")
            assert sentence in done.stderr
            assert len(done.stderr.splitlines()) == 1
        after = fleet.row("s/0")
        assert (after["epoch"], after["move"]) == (before["epoch"], None)


def test_a_move_whose_owner_dies_is_made_when_its_lease_has_run_out(fleet: Fleet) -> None:
    with pair(fleet) as (a, b):
        suspend(fleet, a)  # so that it cannot give the shard up in time
        command = fleet.begin("move", "s/0", "--to", id_of(b))
        until(lambda: fleet.row("s/0")["move"] == id_of(b), 15, 0.02)
        a.kill()
        done = end(command)
        assert done.returncode == exits.OK, done
        assert done.stdout.startswith(f"s/0 moved from {id_of(a)} to {id_of(b)}, epoch ")
        fleet.wait_at("b", "s/0")


def test_a_move_whose_target_dies_is_told_and_its_owner_serves_the_shard_again(fleet: Fleet) -> None:
    with pair(fleet) as (_, b):
        suspend(fleet, b)  # so that it cannot claim in time
        command = fleet.begin("move", "s/0", "--to", id_of(b))
        until(lambda: fleet.row("s/0")["owner"] is None, 15, 0.02)
        b.kill()
        done = end(command)
        assert done.returncode == exits.NO, done
        assert f"{id_of(b)} is not live" in done.stderr
        fleet.wait_at("a", "s/0")


def test_a_move_goes_on_without_the_command_that_wished_it(fleet: Fleet) -> None:
    with pair(fleet) as (a, b):
        suspend(fleet, a)
        command = fleet.begin("move", "s/0", "--to", id_of(b))
        until(lambda: fleet.row("s/0")["move"] == id_of(b), 15, 0.02)
        command.kill()
        command.wait()
        a.signal(signal.SIGCONT)
        fleet.wait_at("b", "s/0")


def test_a_move_that_takes_too_long_is_told_with_what_stands_in_the_row(fleet: Fleet) -> None:
    with pair(fleet, supervisor=("stop_timeout = 30s",)) as (a, b):
        suspend(fleet, a)
        done = fleet.tell("move", "s/0", "--to", id_of(b), "--timeout", "0.5")
        a.signal(signal.SIGCONT)
        assert (done.returncode, done.stdout) == (exits.NO, "")
        assert f"s/0 was not moved within 0.5 s: {id_of(a)} owns it, epoch " in done.stderr
        assert f", and the wish to move to {id_of(b)} stands in its row" in done.stderr


# --- pausing ----------------------------------------------------------------------------------------------


def test_shards_are_paused_and_resumed_by_a_pattern_and_twice_is_as_good_as_once(fleet: Fleet) -> None:
    with fleet.host("a") as a:
        wait_streaming(fleet.feed, a.shards)
        done = fleet.tell("pause", "s/*")
        assert done.returncode == exits.OK, done
        assert [line.partition(",")[0] for line in done.stdout.splitlines()] == ["s/0 is paused", "s/1 is paused"]
        until(lambda: not fleet.feed.connected(), 3, 0.02)
        assert fleet.tell("pause", "s/*").stdout == "s/0 is paused already\ns/1 is paused already\n"
        assert "it is paused; `tenured resume s/0`" in fleet.tell("move", "s/0").stderr
        done = fleet.tell("resume", "s/*")
        assert done.returncode == exits.OK, done
        assert all(f" runs at {id_of(a)}, epoch " in line for line in done.stdout.splitlines())
        wait_streaming(fleet.feed, a.shards)
        assert "s/0 is not paused, it runs at" in fleet.tell("resume", "s/0").stdout
        told = fleet.tell("pause", "s/1", "--no-wait").stdout  # depends on who is quicker
        assert told == f"s/1 is paused as soon as {id_of(a)} has stopped it\n" or told.startswith("s/1 is paused, ")
        until(lambda: fleet.row("s/1")["owner"] is None, 10, 0.02)


def test_force_takes_a_shard_from_an_owner_whose_child_does_not_stop_and_kills_it_at_once(fleet: Fleet) -> None:
    (fleet.folder / "a").mkdir()
    (fleet.folder / "a" / "deaf.py").write_text(DEAF)
    slow = ("stop_timeout = 60s", "hang_timeout = 60s")
    with fleet.host("a", 1, slow, ("handler = ./deaf.py:Deaf",)) as a:
        wait_streaming(fleet.feed, a.shards)
        done = fleet.tell("pause", "s/0", "--timeout", "2")
        assert done.returncode == exits.NO
        assert f"s/0 was not paused within 2 s: {id_of(a)} owns it" in done.stderr
        assert fleet.holder("s/0") == "a"
        done = fleet.tell("pause", "s/0", "--force")
        assert done.returncode == exits.OK, done
        assert "s/0 is paused by force, epoch " in done.stdout
        until(lambda: not fleet.feed.connected(), 3, 0.02)
        lost = until(lambda: a.log("lease.lost"), 5)
        assert "the row is free at epoch" in lost[0]["reason"]


def test_a_shard_taken_by_force_from_a_stopped_supervisor_and_resumed_runs_elsewhere_after_its_lease_only(
    fleet: Fleet,
) -> None:
    """The stopped one cannot know; until its lease would have run out its child may still deliver."""
    with pair(fleet) as (a, b):
        epoch = fleet.row("s/0")["epoch"]
        suspend(fleet, a)
        done = fleet.tell("pause", "s/0", "--force")
        assert done.returncode == exits.OK, done
        done = fleet.tell("resume", "s/0")
        assert done.returncode == exits.OK, done
        assert f"s/0 runs at {id_of(b)}, epoch {int(str(epoch)) + 2}" in done.stdout
        fleet.wait_at("b", "s/0")
        a.signal(signal.SIGCONT)
        until(lambda: a.log("lease.lost", shard="s/0"), 10)
        assert fleet.holder("s/0") == "b"


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_a_command_whose_clock_is_wrong_by_an_hour_tells_what_happens_and_not_what_its_clock_says(
    fleet: Fleet, ahead_s: int
) -> None:
    """The child takes longer to stop than a lease lasts."""
    for name in ("a", "b"):
        (fleet.folder / name).mkdir()
        (fleet.folder / name / "slow.py").write_text(SLOW)
    with pair(fleet, stream=("handler = ./slow.py:Slow",)) as (a, b):
        done = fleet.tell_with_wrong_clock(ahead_s, "pause", "s/0")
        assert (done.returncode, fleet.holder("s/0")) == (exits.OK, ""), done
        assert f"s/0 is paused, {id_of(a)} gave it up" in done.stdout
        done = fleet.tell_with_wrong_clock(ahead_s, "forget", "s/0")
        assert (done.returncode, done.stdout) == (exits.NO, "")
        done = fleet.tell_with_wrong_clock(ahead_s, "resume", "s/0")
        assert (done.returncode, " runs at " in done.stdout) == (exits.OK, True), done
        until(lambda: fleet.holder("s/0"), 10, 0.02)
        other = b if fleet.holder("s/0") == "a" else a
        done = fleet.tell_with_wrong_clock(ahead_s, "move", "s/0")
        assert (done.returncode, f" to {id_of(other)}, epoch " in done.stdout) == (exits.OK, True), done


# --- forgetting -------------------------------------------------------------------------------------------


def test_only_a_free_shard_that_nobody_is_configured_for_is_forgotten(fleet: Fleet) -> None:
    with fleet.host("a", 4) as a:
        wait_streaming(fleet.feed, a.shards)
        done = fleet.tell("forget", "s/3")
        assert (done.returncode, done.stdout) == (exits.NO, "")
        assert f"s/3 was not forgotten: it is not free: {id_of(a)} owns it" in done.stderr
        assert a.stop() == 0
    with fleet.host("a", 2) as a:
        wait_streaming(fleet.feed, a.shards)
        assert fleet.tell("pause", "s/1").returncode == exits.OK
        done = fleet.tell("forget", "s/*")
        assert done.returncode == exits.NO
        assert [line.partition(",")[0] for line in done.stdout.splitlines()] == ["s/2 is forgotten", "s/3 is forgotten"]
        assert "s/1 was not forgotten: it is configured at" in done.stderr
        assert {key for key in fleet.hand.rows() if key.startswith("s/")} == {"s/0", "s/1"}
        assert "there is no shard s/3" in fleet.tell("forget", "s/3").stderr
