"""From the fork to the first line of the shard: what a child does before it may do anything.

What holds when `run` is called: the kernel kills this process if the fork server dies and when its deadline passes;
it is the leader of a session of its own; its epoch was on the board, so the parent holds its pidfd; its environment is
the task's; a SIGTERM, also one sent before there was a handler for it, is a byte on the wake-up pipe.

Every Python object that is used here or, between two forks, in the fork server costs the child a page of its own, by
its count of references alone. So whatever can be made once for a whole stream is made by the fork server
(`run`), and what is done for each child is written so that it touches little.

Files: 0 is the lock of the state folder, 1 and 2 are stderr, so that a handler's `print` never mixes with events;
the real stdout came as another number and is only for the sink.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from workers.board import EPOCH, Board, Slot
from workers.process.environment import become
from workers.process.fence import arm
from workers.process.kernel import boottime_ns, die_with_parent
from workers.process.signals import release
from workers.process.title import set_title
from workers.process.wire import Start
from workers.spec import Scope, Task, read_environment, read_task

CRASHED = 1  # an error that nothing caught; its traceback is on stderr
NEVER_PERMITTED = 75  # the parent did not write our epoch in time; nothing was done

_WAIT_MIN_S = 0.001
_WAIT_MAX_S = 0.05
_OOM_RAISE = 300
_OOM_MAX = 1000
_OOM_SCORE = "/proc/self/oom_score_adj"

Run = Callable[[Task, Slot, int], int]  # the number is of the file that a SIGTERM arrives on; returns the exit code


class Inheritance(NamedTuple):
    """What every child gets from its fork server through the fork. A tuple, since fields of a class would be found by
    objects of their own, each on a page."""

    server_pid: int
    board: Board
    environment: bytes  # the fork server's own, packed
    oom_score: bytes


def live(
    start: Start, scope: Scope, run: Run, task_fd: int, inherited: Inheritance, stranger_fds: tuple[int, ...]
) -> NoReturn:
    """The child's whole life, right after the fork. The memfd stands behind the scope, which the fork server has read;
    `stranger_fds` are the fork server's sockets, not for us."""
    status = CRASHED
    try:
        status = _live(start, scope, run, task_fd, inherited, stranger_fds)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else CRASHED
    except BaseException:
        traceback.print_exc()
    finally:
        # no exit handlers, no clean-up of modules: what was registered belongs to the fork server
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status & 0xFF)


def _live(
    start: Start, scope: Scope, run: Run, task_fd: int, inherited: Inheritance, stranger_fds: tuple[int, ...]
) -> int:
    server_pid, board, server_environment, oom_score = inherited
    die_with_parent()
    if os.getppid() != server_pid:  # it died before the line above could notice
        return NEVER_PERMITTED
    os.setsid()
    for stranger_fd in stranger_fds:
        os.close(stranger_fd)
    _prefer_our_death(oom_score)
    task = read_task(task_fd, scope)
    set_title(f"tenured: {task.shard}")
    wanted = read_environment(task_fd)
    os.close(task_fd)
    if wanted != server_environment:
        become(wanted, server_environment)
        time.tzset()
    wakeup_fd, wakeup_end_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    release(wakeup_end_fd)
    slot = board.slot(start.slot)
    if not permitted(slot, start):
        return NEVER_PERMITTED
    arm(slot)
    return run(task, slot, wakeup_fd)


def oom_score_of_a_child() -> bytes:
    """When memory runs out, the kernel takes a child before the fork server, which shares our score, or the parent."""
    with open(_OOM_SCORE) as file:
        return b"%d" % min(int(file.read()) + _OOM_RAISE, _OOM_MAX)


def _prefer_our_death(score: bytes) -> None:
    fd = os.open(_OOM_SCORE, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, score)
    finally:
        os.close(fd)


def permitted(slot: Slot, start: Start) -> bool:
    """Wait until the parent, which then holds our pidfd, has written our epoch. False: it did not within the budget."""
    until_ns = boottime_ns() + start.budget_ms * 1_000_000
    pause_s = _WAIT_MIN_S
    while slot.words[EPOCH] != start.epoch:
        if boottime_ns() >= until_ns:
            return False
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _WAIT_MAX_S)
    return True
