"""From the fork to the first line of the shard: what a child does before it may do anything.

What holds when `run` is called: the kernel kills this process if the fork server dies and when its deadline passes;
it is the leader of a session of its own; its epoch was on the board, so the parent holds its pidfd; its environment is
the task's; a SIGTERM, also one sent before there was a handler for it, is a byte on `wakeup`.

Files: 0 is the lock of the state folder, 1 and 2 are stderr, so that a handler's `print` never mixes with events;
the real stdout came as another number and is only for the sink.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from setproctitle import setproctitle

from workers import fence, signals
from workers.board import EPOCH, Board, Slot
from workers.handler import load
from workers.kernel import boottime_ns, die_with_parent
from workers.preload import Contexts, Handlers, Preloaded
from workers.spec import Task
from workers.wire import Start, from_memory

CRASHED = 1  # an error that nothing caught; its traceback is on stderr
NEVER_PERMITTED = 75  # the parent did not write our epoch in time; nothing was done

_WAIT_MIN_S = 0.001
_WAIT_MAX_S = 0.05
_OOM_RAISE = 300
_OOM_MAX = 1000

Run = Callable[[Task, Slot, socket.socket, Handlers, Contexts, int], int]


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What every child gets from its fork server through the fork."""

    server_pid: int
    board: Board
    preloaded: Preloaded
    run: Run
    stdout_fd: int


def live(start: Start, task_fd: int, inherited: Inheritance, strangers: list[socket.socket]) -> NoReturn:
    """The child's whole life, right after the fork. `strangers` are the fork server's sockets, not for us."""
    status = CRASHED
    try:
        status = _live(start, task_fd, inherited, strangers)
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


def _live(start: Start, task_fd: int, inherited: Inheritance, strangers: list[socket.socket]) -> int:
    die_with_parent()
    if os.getppid() != inherited.server_pid:  # it died before the line above could notice
        return NEVER_PERMITTED
    os.setsid()
    for stranger in strangers:
        stranger.close()
    gc.enable()
    _prefer_our_death()
    task = Task.from_json(from_memory(task_fd))
    setproctitle(f"tenured: {task.shard}")
    os.environ.clear()
    os.environ.update(task.environment)
    time.tzset()
    wakeup, wakeup_end = socket.socketpair()
    wakeup.setblocking(False)
    wakeup_end.setblocking(False)
    signals.release(wakeup_end)
    slot = inherited.board.slot(start.slot)
    if not _permitted(slot, start):
        return NEVER_PERMITTED
    fence.arm(slot)
    handlers = inherited.preloaded.handlers
    reference = task.spec.handler
    if reference and reference not in handlers:
        handlers = {**handlers, reference: load(reference, task.base, task.python_path)}
    return inherited.run(task, slot, wakeup, handlers, inherited.preloaded.contexts, inherited.stdout_fd)


def _prefer_our_death() -> None:
    """When memory runs out, the kernel takes a child before the parent."""
    fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    try:
        score = int(os.pread(fd, 16, 0))
        os.write(fd, b"%d" % min(score + _OOM_RAISE, _OOM_MAX))
    finally:
        os.close(fd)


def _permitted(slot: Slot, start: Start) -> bool:
    """Wait until the parent, which then holds our pidfd, has written our epoch. False: it did not within the budget."""
    until_ns = boottime_ns() + start.budget_ms * 1_000_000
    pause_s = _WAIT_MIN_S
    while slot.words[EPOCH] != start.epoch:
        if boottime_ns() >= until_ns:
            return False
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _WAIT_MAX_S)
    return True
