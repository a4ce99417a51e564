from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.wait import until
from workers.board import DEADLINE, HEARTBEAT, Board, Slot
from workers.process import fence
from workers.process.kernel import boottime_ns

LEASE_S = 0.4
LATE_S = 0.3  # how much later than the deadline a death is still on time on a busy machine


@dataclass(frozen=True, slots=True)
class Fenced:
    """A process that armed its fence and then does `deed` for ever."""

    pid: int
    pidfd: int
    slot: Slot

    def signal(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self.pidfd, number)

    @property
    def dead(self) -> bool:
        return os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def busy_since(self) -> int:
        return until(lambda: self.slot.words[HEARTBEAT], 5)


Spawn = Callable[[Callable[[], object]], Fenced]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    board = Board.create()
    made: list[Fenced] = []

    def fork(deed: Callable[[], object]) -> Fenced:
        slot = board.slot(len(made))
        slot.words[DEADLINE] = boottime_ns() + int(LEASE_S * 1e9)
        pid = os.fork()
        if pid == 0:
            try:
                fence.arm(slot)
                slot.words[HEARTBEAT] = boottime_ns()
                while True:
                    deed()
            finally:
                os._exit(99)
        made.append(Fenced(pid, os.pidfd_open(pid), slot))
        return made[-1]

    yield fork
    for child in made:
        child.signal(signal.SIGKILL)
        os.waitpid(child.pid, 0)
        os.close(child.pidfd)
    os.close(board.fd)


def _nothing() -> None:
    pass


def _blocked_call() -> None:
    read, _ = os.pipe()
    os.read(read, 1)


def _c_code_that_keeps_the_interpreter() -> None:
    ctypes.PyDLL(None).sleep(999)


def _catastrophic_expression() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


def _lock_that_nobody_opens() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def _alarm_of_a_library() -> None:
    signal.alarm(5)
    signal.setitimer(signal.ITIMER_REAL, 9)
    signal.alarm(0)


def _every_signal_ignored_and_blocked() -> None:
    ignorable = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}
    for number in ignorable:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ignorable)
    signal.pause()


@pytest.mark.parametrize(
    "deed",
    [
        _nothing,
        _blocked_call,
        _c_code_that_keeps_the_interpreter,
        _catastrophic_expression,
        _lock_that_nobody_opens,
        _alarm_of_a_library,
        _every_signal_ignored_and_blocked,
    ],
)
def test_the_kernel_kills_at_the_deadline_whatever_the_child_does(spawn: Spawn, deed: Callable[[], object]) -> None:
    child = spawn(deed)
    deadline_ns = child.slot.words[DEADLINE]
    child.busy_since()
    until(lambda: child.dead, LEASE_S + 5, interval_s=0.002)
    late_ns = boottime_ns() - deadline_ns
    assert 0 <= late_ns < LATE_S * 1e9
    ended = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOWAIT)
    assert (ended.si_code, ended.si_status) == (os.CLD_KILLED, signal.SIGKILL)


def test_a_stopped_child_is_dead_after_its_deadline(spawn: Spawn) -> None:
    child = spawn(_nothing)
    child.busy_since()
    child.signal(signal.SIGSTOP)
    deadline_ns = child.slot.words[DEADLINE]
    assert boottime_ns() < deadline_ns
    until(lambda: child.dead, LEASE_S + 5, interval_s=0.002)
    assert 0 <= boottime_ns() - deadline_ns < LATE_S * 1e9


def test_a_child_lives_on_as_the_deadline_moves_and_dies_at_the_last_one(spawn: Spawn) -> None:
    child = spawn(lambda: time.sleep(0.01))
    child.busy_since()
    first_ns = child.slot.words[DEADLINE]
    last_ns = first_ns + 600_000_000
    child.slot.words[DEADLINE] = first_ns + 300_000_000
    until(lambda: boottime_ns() > first_ns + 100_000_000, 5)
    assert not child.dead
    child.slot.words[DEADLINE] = last_ns
    until(lambda: child.dead, 5, interval_s=0.002)
    assert 0 <= boottime_ns() - last_ns < LATE_S * 1e9


def test_a_deadline_that_moves_back_changes_nothing(spawn: Spawn) -> None:
    child = spawn(lambda: time.sleep(0.01))
    child.busy_since()
    deadline_ns = child.slot.words[DEADLINE]
    child.slot.words[DEADLINE] = 1
    until(lambda: boottime_ns() > deadline_ns - 50_000_000 or child.dead, 5)
    assert boottime_ns() > deadline_ns - 50_000_000
    until(lambda: child.dead, 5)


@pytest.mark.parametrize("deadline_ns", [0, 1, -5])
def test_a_passed_or_missing_deadline_kills_before_anything_is_done(deadline_ns: int) -> None:
    board = Board.create()
    slot = board.slot(0)
    slot.words[DEADLINE] = deadline_ns
    pid = os.fork()
    if pid == 0:
        try:
            fence.arm(slot)
            signal.pause()
        finally:
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    os.close(board.fd)


@pytest.mark.parametrize(("remaining_s", "interval_s"), [(-3, 0.1), (0, 0.1), (0.5, 0.1), (3, 0.3), (10, 1), (3600, 1)])
def test_the_board_is_looked_at_ten_times_within_the_time_left_but_at_least_every_second(
    remaining_s: float, interval_s: float
) -> None:
    assert fence.look_interval_s(int(remaining_s * 1e9)) == pytest.approx(interval_s)
