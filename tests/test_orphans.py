from __future__ import annotations

import contextlib
import os
import signal
import subprocess

import pytest

from supervisor.processes.orphans import GRACE_NS, Undertaker


@pytest.fixture(autouse=True)
def no_other_dead() -> None:
    """What other tests in this process left dead would be counted too."""
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
            pass


def _ended(*, session: bool) -> subprocess.Popen[bytes]:
    """A process that is dead and not reaped, in a session of its own or in ours."""
    process = subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=session)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process


def _reaped(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def test_a_dead_process_of_another_session_is_reaped_at_once() -> None:
    process = _ended(session=True)
    assert not Undertaker().reap(lambda pid: False, 0)
    assert _reaped(process.pid)
    process.wait()


def test_a_dead_process_of_our_session_is_left_to_its_maker_for_the_grace_and_then_reaped() -> None:
    process, undertaker = _ended(session=False), Undertaker()
    assert undertaker.reap(lambda pid: False, 5)
    assert undertaker.reap(lambda pid: False, 5 + GRACE_NS - 1)
    assert not _reaped(process.pid)
    assert not undertaker.reap(lambda pid: False, 5 + GRACE_NS)
    assert _reaped(process.pid)
    process.wait()


def test_the_grace_of_one_process_is_not_that_of_the_next() -> None:
    undertaker = Undertaker()
    for start_ns in (0, GRACE_NS):
        process = _ended(session=False)
        assert undertaker.reap(lambda pid: False, start_ns)
        assert process.wait() == 3


def test_a_dead_process_that_is_somebodys_is_never_reaped() -> None:
    process = _ended(session=True)
    assert not Undertaker().reap(lambda pid: pid == process.pid, 0)
    assert process.wait() == 3


def test_living_processes_are_left_alone() -> None:
    process = subprocess.Popen(["sleep", "99"], start_new_session=True)
    assert not Undertaker().reap(lambda pid: False, 0)
    process.kill()
    assert process.wait() == -signal.SIGKILL
