"""A supervisor that is killed and started again on its host: nobody waits for a lease whose death the lock proves, and
everybody waits where nothing proves it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor import exits
from supervisor.demo.feed_process import FeedProcess
from supervisor.incarnations import IDS_MAX
from tests.process.hand import SqliteHand
from tests.process.host import Host, overlaps, wait_streaming
from tests.wait import until
from workers.process.kernel import boottime_ns

SECOND_NS = 1_000_000_000
LONG_S, SHORT_S = 10, 3


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl") as feed:
        yield feed


def host_in(folder: Path, feed: FeedProcess, shards: int = 2, lease_s: int = SHORT_S, **more: Any) -> Host:
    """A host with a store of its own."""
    folder.mkdir()
    store = f"sqlite:///{folder}/leases.db"
    return Host(folder, store, feed.url(folder.name), shards=shards, lease_duration=f"{lease_s}s", **more)


def record_of(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host.folder / "state" / "incarnations").read_text())
    return found


def epochs(feed: FeedProcess, host: Host) -> dict[str, list[int]]:
    """Of every connection of this host's shards, in the order in which they were opened."""
    seen: dict[str, list[int]] = {shard: [] for shard in host.shards}
    for each in feed.connections():
        if each.supervisor == host.folder.name:
            seen[each.shard].append(each.epoch)
    return seen


def streams_again(feed: FeedProcess, host: Host, killed_ns: int, timeout_s: float) -> float:
    """How long after the kill all of them were there again."""
    name = host.folder.name

    def again() -> bool:
        open_now = [each for each in feed.connected() if each.supervisor == name and each.opened_ns > killed_ns]
        return {each.shard for each in open_now} == set(host.shards)

    until(again, timeout_s, 0.02)
    return (max(each.opened_ns for each in feed.connected() if each.supervisor == name) - killed_ns) / SECOND_NS


def first_again(feed: FeedProcess, host: Host, killed_ns: int) -> float:
    """How long after the kill the first of them was there again."""
    mine = [each for each in feed.connections() if each.supervisor == host.folder.name]
    return (min(each.opened_ns for each in mine if each.opened_ns > killed_ns) - killed_ns) / SECOND_NS


# --- with the proof ---------------------------------------------------------------------------------------


def test_after_a_kill_and_a_restart_on_one_host_nobody_waits_for_the_leases_of_the_dead(
    tmp_path: Path, feed: FeedProcess
) -> None:
    with host_in(tmp_path / "a", feed, shards=4, lease_s=LONG_S) as host:
        wait_streaming(feed, host.shards)
        for restarts in (1, 2, 3):
            if restarts == 3:  # as after a long row of crashes
                known = record_of(host)
                ids = [f"dead:{number}:x" for number in range(3 * IDS_MAX)]
                (host.folder / "state" / "incarnations").write_text(json.dumps(known | {"ids": ids + known["ids"]}))
            host.kill()
            killed_ns = boottime_ns()
            host.start()
            took_s = streams_again(feed, host, killed_ns, LONG_S)
            assert took_s < LONG_S / 2, f"restart {restarts} took {took_s:.1f} s"
        seen = epochs(feed, host)
        assert all(len(each) == 4 and each == sorted(set(each)) for each in seen.values()), seen
        assert {line["reason"] for line in host.log("lease.claimed")} == {"claimed", "reclaimed"}
        ids = [line["supervisor"] for line in host.log("supervisor.started")]
        recorded = record_of(host)["ids"]
        assert recorded[-4:] == ids
        assert len(recorded) == IDS_MAX
        assert os.stat(host.folder / "state" / "incarnations").st_mode & 0o777 == 0o600
        members = lambda: [key for key in SqliteHand(host.folder / "leases.db").rows() if key.startswith("@")]  # noqa: E731
        until(lambda: members() == [f"@{ids[-1]}"], 5)  # the rows of the dead are gone
        assert host.stop() == 0
    assert not overlaps(feed)


# --- without it -------------------------------------------------------------------------------------------


def spoil_boot(state: Path) -> None:
    record = json.loads((state / "incarnations").read_text())
    (state / "incarnations").write_text(json.dumps(record | {"boot_id": "0" * 36}))


def copy_folder(state: Path) -> None:
    shutil.copytree(state, state.with_name("copy"))
    state.rename(state.with_name("before"))
    state.with_name("copy").rename(state)


def replace_lock(state: Path) -> None:
    # Not deleted for good: the kernel may give the number of a file that nobody has open to the next one.
    (state / "lock").rename(state / "before")


def scribble(state: Path) -> None:
    (state / "incarnations").write_bytes(b"\x00\xff garbage")


def test_without_a_proof_that_the_last_incarnation_is_dead_its_leases_are_waited_for(
    tmp_path: Path, feed: FeedProcess
) -> None:
    spoils = {"boot": spoil_boot, "copy": copy_folder, "lock": replace_lock, "scribble": scribble}
    with hosts_in(tmp_path, feed, list(spoils)) as hosts:
        killed_ns: dict[Host, int] = {}
        for host in hosts:
            host.kill()
            killed_ns[host] = boottime_ns()
            spoils[host.folder.name](host.folder / "state")
            host.start()
        for host in hosts:
            streams_again(feed, host, killed_ns[host], SHORT_S + 10)
            waited_s = first_again(feed, host, killed_ns[host])
            assert waited_s > SHORT_S - 0.5, f"{host.folder.name} streamed again after {waited_s:.1f} s"
            assert host.log("lease.claimed")[-1]["reason"] == "expired"
            # A record of another time or place is no mistake.
            assert bool(host.log("config.warning")) is (host.folder.name == "scribble")


def put_numbers(path: Path) -> None:
    path.write_text(json.dumps({"boot_id": "x", "device": 1, "inode": 1, "ids": [1, 2]}))


def put_megabytes(path: Path) -> None:
    path.write_text(json.dumps({"boot_id": "x", "device": 1, "inode": 1, "ids": ["x" * 10_000_000]}))


def prevent_writing(path: Path) -> None:
    path.with_name("incarnations.new").mkdir()
    (path.with_name("incarnations.new") / "x").touch()


def test_a_record_that_cannot_be_read_or_written_is_told_and_prevents_no_start(
    tmp_path: Path, feed: FeedProcess
) -> None:
    puts: dict[str, Callable[[Path], None]] = {
        "folder": Path.mkdir,
        "pipe": os.mkfifo,
        "numbers": put_numbers,
        "megabytes": put_megabytes,
        "unwritable": prevent_writing,
    }

    def spoil(host: Host) -> None:
        (host.folder / "state").mkdir()
        puts[host.folder.name](host.folder / "state" / "incarnations")

    with hosts_in(tmp_path, feed, list(puts), spoil) as hosts:
        for host in hosts:
            said = host.log("config.warning")[0]["reason"]
            what = "written" if host.folder.name == "unwritable" else "read"
            assert said.startswith(f"{host.folder}/state/incarnations cannot be {what}: ")


@contextmanager
def hosts_in(
    folder: Path, feed: FeedProcess, names: Sequence[str], before: Callable[[Host], None] = lambda host: None
) -> Iterator[list[Host]]:
    """Hosts with stores of their own, side by side, streaming; all are stopped at the end."""
    hosts = [host_in(folder / name, feed, shards=1) for name in names]
    with ExitStack() as stack:
        for host in hosts:
            before(host)
            stack.enter_context(host)
        for host in hosts:
            wait_streaming(feed, host.shards, host.folder.name)
        yield hosts
        for host in hosts:
            host.signal(signal.SIGTERM)
        assert [host.wait() for host in hosts] == [0] * len(hosts)


DETACHING = """
import subprocess
from pathlib import Path
from tenured import Handler

class Detaching(Handler):
    def start(self, shard):
        sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
        Path(__file__).with_name("sleeper").write_text(str(sleeper.pid))
"""


def test_while_something_that_a_handler_detached_has_the_lock_the_next_start_is_refused_and_names_it(
    tmp_path: Path, feed: FeedProcess
) -> None:
    (tmp_path / "detaching.py").write_text(DETACHING)
    handler = f"handler = {tmp_path}/detaching.py:Detaching"
    with host_in(tmp_path / "a", feed, shards=1, stream=[handler]) as host:
        wait_streaming(feed, host.shards)
        sleeper = psutil.Process(int((tmp_path / "sleeper").read_text()))
        try:
            host.kill()
            began_ns = boottime_ns()
            assert host.start().wait() == exits.OCCUPIED
            took_s = (boottime_ns() - began_ns) / SECOND_NS
            assert 5 <= took_s < 5 + 5
            said = (host.folder / "log").read_text().splitlines()[-1]
            assert f"state_dir {host.folder}/state is in use, its lock is held by process {sleeper.pid} (sleep)" in said
        finally:
            sleeper.kill()
