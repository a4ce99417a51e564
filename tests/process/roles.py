"""What children do in these tests, in place of a shard: `play` is the function that the fork server is told to run.

The role of a child is its environment variable ROLE, `name` or `name argument`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from workers.board import (
    ASKED,
    FLOORS,
    GRANTED,
    GRANTED_AT,
    HEARTBEAT,
    MESSAGES,
    REFUSED,
    STARTED,
    Slot,
)
from workers.process.child import Run
from workers.process.kernel import boottime_ns
from workers.process.means import Means
from workers.spec import Scope, Task
from workers.stream import floors


def play(means: Means, scope: Scope) -> Run:
    return partial(_play, means, scope)


def _play(means: Means, scope: Scope, _task: Task, slot: Slot, wakeup_fd: int) -> int:
    means.handler(scope)
    role, _, argument = os.environ["ROLE"].partition(" ")
    slot.words[STARTED] = slot.words[HEARTBEAT] = boottime_ns()
    if role == "wait":
        return _wait(wakeup_fd)
    if role == "exit":
        return int(argument)
    if role == "die":
        if int(argument) != signal.SIGKILL:
            signal.signal(int(argument), signal.SIG_DFL)
        os.kill(os.getpid(), int(argument))
        return _wait(wakeup_fd)
    if role == "busy":
        while True:
            slot.words[MESSAGES] += 1
    if role == "deaf":
        while True:
            select.select([wakeup_fd], [], [])
            os.read(wakeup_fd, 1)
    if role == "gil":
        ctypes.PyDLL(None).sleep(999)
    if role == "family":
        child = subprocess.Popen(["sleep", "999"])
        Path(argument).write_text(str(child.pid))
        return _wait(wakeup_fd)
    if role == "orphans":  # so many processes, each in a session of its own, whose parent is gone when they exit
        number, path = argument.split()
        script = f'for i in $(seq 0 {int(number) - 1}); do (setsid sh -c "echo \\$\\$ >> {path}; exit $i" &); done'
        subprocess.run(["sh", "-c", script], check=True)
        return _wait(wakeup_fd)
    if role == "raise":
        raise ValueError("a handler's mistake")
    if role == "describe":
        unfinished = Path(f"{argument}-")
        unfinished.write_text(json.dumps(_description(means)))
        unfinished.rename(argument)
        return _wait(wakeup_fd)
    if role == "checkpoint":
        slot.write_checkpoint(argument)
        return _wait(wakeup_fd)
    if role == "ask":  # so many times to begin an attempt to connect; each line is when that was granted for
        number, path = argument.split()
        for _ in range(int(number)):
            _append(path, _granted(means, slot))
        return _wait(wakeup_fd)
    if role == "refused":  # a server asks for so many seconds; each line is the floor that this child then sees
        seconds, path = argument.split()
        floors.write(slot.words, REFUSED, {floors.mark_of("feed"): boottime_ns() + int(float(seconds) * 1e9)})
        os.eventfd_write(means.parent_bell_fd, 1)
        while not slot.words[FLOORS]:
            time.sleep(0.001)
        _append(path, _floor(slot))
        return _wait(wakeup_fd)
    if role == "floor":
        _append(argument, _floor(slot))
        return _wait(wakeup_fd)
    if role == "ring":  # without end
        while True:
            os.eventfd_write(means.parent_bell_fd, 1)
    if role == "print":
        print("a handler prints")
        os.write(means.stdout_fd, b"an event\n")
        return 0
    raise ValueError(f"there is no role {role}")


def _granted(means: Means, slot: Slot) -> int:
    slot.words[ASKED] += 1
    os.eventfd_write(means.parent_bell_fd, 1)
    while slot.words[GRANTED] != slot.words[ASKED]:
        time.sleep(0.001)
    at_ns = slot.words[GRANTED_AT]
    while boottime_ns() < at_ns:
        time.sleep((at_ns - boottime_ns()) / 1e9 + 0.0001)
    return at_ns


def _floor(slot: Slot) -> int:
    return floors.read(slot.words, FLOORS).get(floors.mark_of("feed"), 0)


def _append(path: str, number: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, b"%d\n" % number)
    os.close(fd)


def _wait(wakeup_fd: int) -> int:
    select.select([wakeup_fd], [], [])
    while signal.SIGTERM not in os.read(wakeup_fd, 64):
        select.select([wakeup_fd], [], [])
    return 0


def _description(means: Means) -> dict[str, object]:
    return {
        "environment": dict(os.environ),
        "initial_environment": Path("/proc/self/environ").read_bytes().decode(errors="replace"),
        "files": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _open(fd)},
        "session": os.getsid(0),
        "group": os.getpgrp(),
        "pid": os.getpid(),
        "title": Path("/proc/self/cmdline").read_bytes().decode().rstrip("\0"),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
        "threads": len(os.listdir("/proc/self/task")),
        "modules": sorted(sys.modules),
        "handlers": sorted(means.handlers),
        "contexts": sorted(profile.ca for profile in means.contexts),
        "collects": gc.isenabled(),
        "stdout_fd": means.stdout_fd,
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    }


def _open(fd: str) -> bool:
    return Path(f"/proc/self/fd/{fd}").is_symlink()
