"""Fork servers that are prepared anew while children run: who serves, who ends when, and that there are never three."""

from __future__ import annotations

import dataclasses
import gc
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supervisor.processes.child_events import Complaint, Exited, ExitStatus, Ready, Started, StartFailed
from tests.process.conftest import House
from workers.websocket.tls import Profile


def servers() -> list[int]:
    """The fork servers that exist, whatever anybody believes."""
    found = []
    for process in psutil.Process().children():
        try:
            command = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        if "workers.process.tied" in command or command.startswith("tenured: fork server"):
            found.append(process.pid)
    return found


class Street(House):
    """A house that counts its fork servers whenever its loop turns."""

    most = 0

    def turn(self, seconds: float = 0.005) -> None:
        super().turn(seconds)
        self.most = max(self.most, len(servers()))

    def prepare(self, name: str) -> None:
        """`name` stands for all that can differ between two preparations."""
        self.children.prepare([], [], [f"/{name}"] if name else [])

    def prepared(self, name: str) -> int:
        """The pid of the fork server that is prepared like this, once it serves."""
        before = self.events.count(Ready())
        self.prepare(name)
        self.until(lambda: self.events.count(Ready()) > before)
        return self.server_pid

    def begun(self, shard: str, epoch: int = 1) -> psutil.Process:
        """A new child, once it is there."""
        self.start(shard, epoch)
        return psutil.Process(self.started(shard, epoch).pid)

    def ended(self, shard: str, epoch: int = 1) -> None:
        self.children.kill(shard, epoch)
        self.exited(shard, epoch)

    def complaints(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Complaint)]


@pytest.fixture
def street(lock_fd: int) -> Iterator[Street]:
    made = Street(lock_fd)
    yield made
    made.close()
    assert servers() == []
    assert made.most <= 2


def test_a_fork_server_that_cannot_be_started_is_told_with_the_file_that_is_to_blame(
    street: Street, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no python"))
    street.prepare("")
    told = street.until(street.complaints)[0]
    assert f"the fork server could not be started: {tmp_path}/no python: no such file or directory; the next" in told
    monkeypatch.undo()
    street.until(lambda: Ready() in street.events)


def test_the_same_preparation_changes_nothing_in_whatever_order_it_is_written(street: Street) -> None:
    street.children.prepare(["b.py:B", "a.py:A", "b.py:B"], [Profile(), Profile()], ["/p", "/q"], "/")
    child = street.begun("trades/0")
    first, told = street.server_pid, list(street.events)
    street.children.prepare(["a.py:A", "b.py:B"], [Profile()], ["/p", "/q"], "/")
    street.turn(0.1)
    assert (street.children.server_pids, street.events) == ((first,), told)
    assert child.is_running()


def test_another_preparation_makes_the_next_children_and_the_old_fork_server_ends_with_its_last_child(
    street: Street,
) -> None:
    first = street.prepared("a")
    old = [street.begun(f"trades/{number}") for number in range(2)]
    second = street.prepared("b")
    assert set(street.children.server_pids) == {first, second}
    new = street.begun("trades/2")
    assert (new.ppid(), [child.ppid() for child in old]) == (second, [first, first])
    street.ended("trades/0")
    street.start("trades/0", epoch=2)
    assert psutil.Process(street.started("trades/0", 2).pid).ppid() == second
    assert first in street.children.server_pids
    street.ended("trades/1")
    street.until(lambda: street.children.server_pids == (second,))
    assert not psutil.pid_exists(first)
    assert street.until(lambda: street.of(ExitStatus, "trades/1"))[0].status == "was killed by SIGKILL"
    assert street.complaints() == []
    assert street.events.count(Ready()) == 2
    assert len(street.of(Exited)) == 2


def test_a_fork_server_without_children_ends_as_soon_as_another_one_serves(street: Street) -> None:
    first = street.prepared("a")
    second = street.prepared("b")
    street.until(lambda: street.children.server_pids == (second,))
    assert not psutil.pid_exists(first)
    assert street.complaints() == []


def test_the_old_fork_server_makes_children_until_the_new_one_is_ready(street: Street, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time; time.sleep(1)\nfrom workers.handler import Handler\nclass H(Handler): pass\n")
    first = street.prepared("a")
    assert not street.children.preparing
    street.children.prepare([f"{slow}:H"], [], [])
    assert street.begun("trades/0").ppid() == first
    assert street.children.preparing
    assert street.events.count(Ready()) == 1
    street.until(lambda: street.events.count(Ready()) == 2)
    assert not street.children.preparing
    assert street.begun("trades/1").ppid() == street.server_pid != first


def test_requests_that_wait_for_the_old_fork_server_go_to_the_new_one(lock_fd: int) -> None:
    street = Street(lock_fd, start_budget_s=2)
    try:
        first = street.prepared("a")
        os.kill(first, signal.SIGSTOP)
        shards = [f"trades/{number}" for number in range(40)]
        for shard in shards:
            street.start(shard)
        second = street.prepared("b")
        street.until(lambda: len(street.of(Started)) + len(street.of(StartFailed)) == 40)
        failed = {event.shard for event in street.of(StartFailed)}
        assert failed == set(shards[:16])  # those that had been sent
        assert {psutil.Process(event.pid).ppid() for event in street.of(Started)} == {second}
        street.until(lambda: street.children.server_pids == (second,))
        for shard in failed:
            assert street.begun(shard, 2).ppid() == second
    finally:
        street.close()


def test_a_new_fork_server_that_never_becomes_ready_takes_nothing_down(street: Street) -> None:
    first = street.prepared("a")
    child = street.begun("trades/0")
    seat = street.children._nurseries._seat
    street.children._nurseries._seat = dataclasses.replace(seat, run="no.such.module:play")
    street.prepare("b")
    assert street.children.preparing
    street.until(lambda: street.complaints())
    assert not street.children.preparing
    street.until(lambda: len(street.complaints()) >= 3)
    assert not street.children.preparing
    pauses = [float(text.rpartition(" in ")[2].removesuffix(" s")) for text in street.complaints()]
    assert pauses == sorted(set(pauses))
    assert {text.partition(";")[0] for text in street.complaints()} == {"the fork server exited with 1"}
    assert street.begun("trades/1").ppid() == first
    street.children._nurseries._seat = seat
    third = street.prepared("c")
    assert street.children.crowding() == frozenset()
    assert street.begun("trades/2").ppid() == third
    assert child.is_running()
    assert street.of(Exited) == street.of(StartFailed) == []


def test_what_was_not_ready_yet_makes_room_at_once_when_it_is_not_wanted_any_more(street: Street) -> None:
    first = street.prepared("a")
    street.begun("trades/0")
    street.prepare("b")
    street.turn()
    street.prepare("a")
    street.until(lambda: street.children.server_pids == (first,))
    street.prepare("b")
    street.prepare("c")
    assert street.children.crowding() == frozenset()
    street.until(lambda: street.server_pid not in (0, first))
    assert street.begun("trades/1").ppid() == street.server_pid
    assert street.complaints() == []


def test_a_third_preparation_waits_for_the_children_of_the_oldest_and_the_last_one_asked_for_counts(
    street: Street,
) -> None:
    first = street.prepared("a")
    old = {f"trades/{number}": street.begun(f"trades/{number}") for number in range(3)}
    second = street.prepared("b")
    kept = street.begun("news/0")
    assert street.children.crowding() == frozenset()
    street.prepare("c")
    street.prepare("d")
    for shard in old:
        assert street.children.crowding() == {name for name in old if not street.of(Exited, name)}
        street.turn(0.05)
        assert set(street.children.server_pids) == {first, second}
        street.ended(shard)
        assert street.begun(shard, 2).ppid() == second
    assert street.children.crowding() == frozenset()
    street.until(lambda: street.events.count(Ready()) == 3)
    third = street.server_pid
    assert set(street.children.server_pids) == {second, third}
    assert street.begun("news/1").ppid() == third
    street.prepare("d")
    assert street.children.crowding() == frozenset()
    assert kept.ppid() == second


def test_what_is_wanted_again_before_its_end_serves_again(street: Street) -> None:
    first = street.prepared("a")
    street.begun("trades/0")
    second = street.prepared("b")
    street.begun("trades/1")
    street.prepare("c")
    assert street.children.crowding() == {"trades/0"}
    street.prepare("a")
    assert street.children.crowding() == frozenset()
    assert street.begun("trades/2").ppid() == first
    street.ended("trades/1")
    street.until(lambda: street.children.server_pids == (first,))
    assert not psutil.pid_exists(second)
    assert street.events.count(Ready()) == 2


def test_a_retiring_fork_server_that_is_killed_takes_its_children_along_and_they_start_again_elsewhere(
    street: Street,
) -> None:
    first = street.prepared("a")
    shards = [f"trades/{number}" for number in range(4)]
    pids = [street.begun(shard).pid for shard in shards]
    second = street.prepared("b")
    kept = street.begun("news/0")
    os.kill(first, signal.SIGKILL)
    for shard in shards:
        street.exited(shard)
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
    street.until(lambda: len(street.of(ExitStatus)) == 4)
    for shard in shards:
        assert street.begun(shard, 2).ppid() == second
    assert street.children.server_pids == (second,)
    assert street.complaints() == ["the fork server was killed by SIGKILL, and its children with it"]
    assert kept.is_running()
    assert street.children._unreaped.keys() == {kept.pid, *(street.started(shard, 2).pid for shard in shards)}


def test_a_serving_fork_server_that_is_killed_leaves_the_children_of_the_other_alone(street: Street) -> None:
    street.prepared("a")
    kept = street.begun("news/0")
    second = street.prepared("b")
    street.begun("trades/0")
    os.kill(second, signal.SIGKILL)
    street.exited("trades/0")
    assert street.begun("trades/0", 2).ppid() not in (second, kept.ppid())
    assert kept.is_running()
    assert len(street.of(Exited)) == 1


def test_a_retiring_fork_server_that_is_stopped_does_not_keep_its_place(street: Street) -> None:
    first = street.prepared("a")
    street.begun("trades/0")
    second = street.prepared("b")
    os.kill(first, signal.SIGSTOP)
    street.ended("trades/0")
    street.until(lambda: street.children.server_pids == (second,))
    assert street.until(lambda: street.of(ExitStatus, "trades/0"))[0].status == "was killed by SIGKILL"
    assert not psutil.pid_exists(first)


def test_a_preparation_that_comes_while_the_fork_server_is_dead_is_obeyed(street: Street) -> None:
    first = street.prepared("a")
    os.kill(first, signal.SIGKILL)
    street.until(lambda: street.complaints())
    street.prepare("b")
    street.prepare("c")
    street.begun("trades/0")
    street.until(lambda: len(street.children.server_pids) == 1 and street.events.count(Ready()) >= 2)
    assert street.begun("trades/1").ppid() == street.server_pid
    assert street.of(StartFailed) == []


def test_a_fork_server_that_is_replaced_between_two_lives_has_no_further_one(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.processes.nursery._PAUSE_MIN_S", 1.0)
    born_s = street.loop.time()
    os.kill(street.prepared("a"), signal.SIGKILL)
    street.until(street.complaints)
    assert street.prepared("b") == street.server_pid
    street.until(lambda: street.loop.time() > born_s + 4)  # the pause of the first was 2 s
    assert servers() == [street.server_pid]


def test_fifty_preparations_in_turn_leave_old_children_alone_and_no_thread_and_no_file_behind(street: Street) -> None:
    first = street.prepared("a")
    old = street.begun("trades/0")
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for number in range(1, 51):
        street.prepare("b" if number % 2 else "a")
        street.turn(0.05 * (number % 4))
        if number % 10 == 5:
            street.until(lambda: len(street.children.server_pids) == 2 and street.server_pid != first)
            new = street.begun("news/0", number)
            assert new.ppid() == street.server_pid != first
            street.ended("news/0", number)
    street.until(lambda: street.children.server_pids == (first,))
    gc.collect()
    after = len(os.listdir("/proc/self/fd")), threading.active_count()
    assert all(abs(now - then) <= 2 for now, then in zip(after, before, strict=True)), (before, after)
    assert old.is_running()
    assert old.ppid() == first
    assert len(street.of(Exited, "trades/0")) == len(street.complaints()) == 0
