"""Signals at every hour of a supervisor's life: while it starts, while it works, in masses, and at its end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supervisor.demo.feed_process import FeedProcess
from supervisor.signals import Signals
from tests.process.host import Host, wait_streaming
from tests.process.test_namespaces import AS_PID_1, supervisor_of
from tests.wait import until

STOPS = [signal.SIGTERM, signal.SIGINT]
ALL = [*STOPS, signal.SIGHUP, signal.SIGCHLD]
NOWHERE = "ws://127.0.0.1:9/"
AT_ONCE_S = 5.0  # what it would wait for else takes longer, and a busy machine less
A_LOOP = "anon_inode:[eventpoll]"
MORE_THAN_A_PIPE_HOLDS = 70_000


@pytest.fixture(params=[(), AS_PID_1], ids=["plain", "process 1"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """Not started yet."""
    host = Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", NOWHERE, within=request.param)
    yield host
    host.__exit__(None, None, None)


def process_of(host: Host) -> psutil.Process:
    """The supervisor itself, as soon as it is there."""
    if host.within:
        until(host.tree, 5)
        return supervisor_of(host)
    return psutil.Process(host.pid)


def hears(process: psutil.Process, number: int) -> bool:
    """Whether it has a handler."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def has_open(process: psutil.Process, name: str) -> bool:
    found = []
    for fd in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(fd))
    return name in found


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- at the start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_is_heard_before_anything_slow_begins(host: Host, number: signal.Signals) -> None:
    process = process_of(host.start())
    until(lambda: hears(process, signal.SIGTERM), 10, 0.001)  # the last that gets its handler
    process.send_signal(number)
    assert host.wait(AT_ONCE_S) == 0
    assert (host.folder / "log").read_text() == ""


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_ends_the_wait_for_the_lock(host: Host, number: signal.Signals) -> None:
    lock = host.folder / "state" / "lock"
    with locked(lock):
        process = process_of(host.start())
        until(lambda: has_open(process, A_LOOP), 10)
        process.send_signal(number)
        assert host.wait(AT_ONCE_S) == 0
    assert (host.folder / "log").read_text() == ""


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_ends_the_wait_for_the_file_of_the_store(host: Host, number: signal.Signals) -> None:
    path = host.folder.parent / "leases.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        process = process_of(host.start())
        until(lambda: has_open(process, str(path)), 10)
        process.send_signal(number)
        assert host.wait(AT_ONCE_S) == 0
    assert (host.folder / "log").read_text() == ""


def test_a_hangup_at_the_start_changes_nothing(host: Host) -> None:
    lock = host.folder / "state" / "lock"
    with locked(lock):
        process = process_of(host.start())
        until(lambda: hears(process, signal.SIGTERM), 10, 0.001)
        process.send_signal(signal.SIGHUP)
        until(lambda: has_open(process, A_LOOP), 10)
        process.send_signal(signal.SIGHUP)
    until(lambda: host.log("supervisor.ready"), 15, 0.02)
    process.terminate()
    assert host.wait() == 0


# --- in masses --------------------------------------------------------------------------------------------


def test_a_storm_of_signals_disturbs_nothing_and_a_stop_after_it_is_heard(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    with FeedProcess(tmp_path / "feed.jsonl") as feed, Host(tmp_path / "a", store, feed.url("a"), shards=2) as host:
        wait_streaming(feed, host.shards)
        before = {each.shard: each.number for each in feed.connected()}
        for _ in range(100_000):
            host.signal(signal.SIGHUP)
            host.signal(signal.SIGCHLD)
        host.signal(signal.SIGTERM)
        assert {each.shard: each.number for each in feed.connected()} == before
        assert host.wait(10) == 0
        text = (host.folder / "log").read_text()
        assert [line for line in text.splitlines() if not line.startswith("{")] == []
        assert [line for line in host.log() if line["level"] in ("WARNING", "ERROR")] == []
        assert len(host.log("lease.released")) == 2


def test_stops_that_come_until_the_very_end_do_not_change_the_exit_code(tmp_path: Path) -> None:
    with Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", NOWHERE, shards=2) as host:
        until(lambda: host.log("supervisor.ready"), 15, 0.02)
        assert host.process is not None
        while host.process.poll() is None:
            host.signal(signal.SIGTERM)
        assert host.wait() == 0


# --- in one process ---------------------------------------------------------------------------------------


class Heard:
    """A loop that only turns inside `turn`, and the signals that it acted upon."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.numbers: list[signal.Signals] = []
        self.signals = Signals(self.loop, {number: lambda number=number: self.numbers.append(number) for number in ALL})

    def turn(self) -> list[signal.Signals]:
        """What came since the last turn."""
        self.numbers.clear()
        self.loop.run_until_complete(asyncio.sleep(0.01))
        return list(self.numbers)


@pytest.fixture
def heard() -> Iterator[Heard]:
    before = {number: signal.getsignal(number) for number in ALL}
    heard = Heard()
    yield heard
    heard.signals.close()
    heard.loop.close()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_each_kind_that_came_is_acted_upon_once(heard: Heard) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
        signal.raise_signal(number)
    assert heard.turn() == [signal.SIGTERM, signal.SIGHUP]
    assert heard.turn() == []
    signal.raise_signal(signal.SIGTERM)
    assert heard.turn() == [signal.SIGTERM]


def test_a_stop_that_finds_no_room_for_its_byte_is_heard(heard: Heard, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(MORE_THAN_A_PIPE_HOLDS):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    assert heard.turn() == [signal.SIGTERM, signal.SIGHUP]
    assert capfd.readouterr().err == ""


def test_an_action_that_fails_costs_the_others_nothing(heard: Heard) -> None:
    def fail(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        failures.append(context["exception"])

    failures: list[object] = []
    heard.loop.set_exception_handler(fail)
    heard.signals._then = {signal.SIGTERM: lambda: 1 / 0, signal.SIGHUP: lambda: heard.numbers.append(signal.SIGHUP)}
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGHUP)
    assert heard.turn() == [signal.SIGHUP]
    assert [type(failure) for failure in failures] == [ZeroDivisionError]


def test_after_the_end_signals_are_ignored_and_complain_of_nothing(
    heard: Heard, capfd: pytest.CaptureFixture[str]
) -> None:
    heard.signals.close()
    for number in ALL:
        signal.raise_signal(number)
    assert heard.turn() == []
    assert capfd.readouterr().err == ""
    heard.signals = Signals(heard.loop, {})
