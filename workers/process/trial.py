"""Finding out what an action would do to this process, by doing it in a process of its own that is thrown away.

What holds: all actions run side by side under one budget, so that one that hangs costs the others no more than that;
a trial cannot outlive its fork server; what it started is killed with it. Passed has only what ended by itself, in
time, and left everything as it was that a process which forks relies on: its one thread, its open files, its signals.

Not promised: that the action does the same the next time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from workers.blame import in_words
from workers.process.kernel import die_with_parent

_DEATH_MAX_S = 1.0
_SAID_MAX_BYTES = 300
# Exit codes that nothing uses: an action that ends the process, even with 0, has not passed.
_PASSED, _RAISED, _THREAD, _PROCESS, _CLOSED, _SOCKET, _SIGNALS = range(101, 108)
_VERDICTS = {
    _THREAD: "starts a thread",
    _PROCESS: "leaves a process behind",
    _CLOSED: "closes files that are not its own",
    _SOCKET: "leaves a socket open",
    _SIGNALS: "changes what signals do",
}
_SIGNALS_RELIED_ON = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_Files = dict[int, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class _Trial:
    """`said_fd`: a file in memory for the error that the action raised."""

    name: str
    pid: int
    said_fd: int


def tried(actions: Mapping[str, Callable[[], object]], budget_s: float) -> dict[str, str]:
    """By name, in the order in which they ended: what each did wrong, as the rest of a sentence; empty: it passed."""
    until_s = time.monotonic() + budget_s
    running = dict(_begun(name, action) for name, action in actions.items())
    faults = {name: _fault(status, said) for name, status, said in _ended(running, until_s)}
    late = [trial.name for trial in running.values()]
    for pidfd in running:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    for _ in _ended(running, time.monotonic() + _DEATH_MAX_S):
        pass
    for pidfd, trial in running.items():  # it hangs in the kernel; the fork server reaps whatever dies
        os.close(pidfd)
        os.close(trial.said_fd)
    return faults | dict.fromkeys(late, f"took more than {budget_s:g} s")


def _begun(name: str, action: Callable[[], object]) -> tuple[int, _Trial]:
    parent = os.getpid()
    said_fd = os.memfd_create("trial", os.MFD_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _perform(action, parent, said_fd)
    return os.pidfd_open(pid), _Trial(name, pid, said_fd)


def _ended(running: dict[int, _Trial], until_s: float) -> Iterator[tuple[str, int, str]]:
    """Takes those that end in time out of `running`, each with its exit code, or minus the signal, and its error."""
    poll = select.poll()
    for pidfd in running:
        poll.register(pidfd, select.POLLIN)
    while running and (left_s := until_s - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(left_s * 1000):
            poll.unregister(pidfd)
            trial = running.pop(pidfd)
            os.close(pidfd)
            status = _buried(trial.pid)
            said = os.pread(trial.said_fd, _SAID_MAX_BYTES, 0).decode(errors="replace")
            os.close(trial.said_fd)
            yield trial.name, status, said


def _buried(pid: int) -> int:
    with contextlib.suppress(ProcessLookupError):  # it died before it made its session
        os.killpg(pid, signal.SIGKILL)
    dead = os.waitid(os.P_PID, pid, os.WEXITED)
    assert dead is not None  # without WNOHANG it waits, here for what is dead
    return dead.si_status if dead.si_code == os.CLD_EXITED else -dead.si_status


def _fault(status: int, said: str) -> str:
    if status == _PASSED:
        return ""
    if status == _RAISED:
        return f"raised {said or 'an error'}"
    return "crashed" if status < 0 else _VERDICTS.get(status, "ended the process")


# --- in the process of a trial ------------------------------------------------------------------------------


def _perform(action: Callable[[], object], parent: int, said_fd: int) -> NoReturn:
    verdict = _RAISED
    try:
        die_with_parent()
        if os.getppid() == parent:  # else it died before the line above could notice
            os.setsid()
            verdict = _judged(action)
    except BaseException as error:
        os.write(said_fd, in_words(error).encode(errors="backslashreplace")[:_SAID_MAX_BYTES])
    finally:
        os._exit(verdict)


def _judged(action: Callable[[], object]) -> int:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):  # what it has to say, it says in the child or in the fork server
        os.dup2(nowhere, fd)
    threads, files, signals = _threads(), _files(), _signals()
    action()
    if _threads() > threads:
        return _THREAD
    if _has_children():
        return _PROCESS
    after = _files()
    if any(after.get(fd) != file for fd, file in files.items()):
        return _CLOSED
    if any(stat.S_ISSOCK(mode) for fd, (mode, _, _) in after.items() if fd not in files):
        return _SOCKET
    return _PASSED if _signals() == signals else _SIGNALS


def _threads() -> int:
    """Threads of any kind: libraries start some that Python does not know."""
    return len(os.listdir("/proc/self/task"))


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _files() -> _Files:
    """What each descriptor stands for, so that one that was closed and used again is noticed too."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is in the listing
            status = os.fstat(int(name))
            found[int(name)] = (status.st_mode, status.st_dev, status.st_ino)
    return found


def _signals() -> tuple[object, ...]:
    wakeup_fd = signal.set_wakeup_fd(-1)
    if wakeup_fd >= 0:
        with contextlib.suppress(ValueError, OSError):  # it was closed, which the files tell
            signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
    dispositions = [signal.getsignal(number) for number in _SIGNALS_RELIED_ON]
    return (wakeup_fd, *dispositions, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
