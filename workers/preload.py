"""What the fork server imports and builds once for all its children: handler modules and TLS contexts.

Each handler module is first tried in a process of its own, which is thrown away: a module that raises, hangs, ends
the process, starts a thread or leaves a socket open would take the fork server along, or every child after it. Such
a module is left out with a warning, and each child that needs it imports it after the fork.

Not promised: that a module sees its child's environment while it is imported here; that one exists only after the
fork. A module that needs a variable at import and raises without it is imported in the child, as above.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import ssl
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from workers import tls
from workers.handler import load
from workers.wire import Preparation

_TRIAL_MAX_S = 20.0
_CLEAN, _RAISED, _THREAD, _SOCKET = 0, 1, 2, 3
_VERDICTS = {_RAISED: "raised an error", _THREAD: "starts a thread", _SOCKET: "leaves a socket open"}

Handlers = dict[str, type[Any]]
Contexts = dict[str, ssl.SSLContext]


@dataclass(frozen=True, slots=True)
class Preloaded:
    """By the text in the configuration. A child makes for itself what is missing here."""

    handlers: Handlers
    contexts: Contexts


def preload(wanted: Preparation, warn: Callable[[str], None]) -> Preloaded:
    """Import and build all that can safely be shared; tell `warn` in a sentence about each thing that cannot."""
    handlers: Handlers = {}
    for reference in wanted.handlers:
        fault = _trial(partial(load, reference, wanted.base, wanted.python_path))
        if fault:
            warn(f"handler {reference} {fault} when imported, so each of its children imports it by itself")
        else:
            handlers[reference] = load(reference, wanted.base, wanted.python_path)
    codecs.lookup("idna")  # the resolver does, at its first use, which would cost each child a megabyte
    contexts: Contexts = {}
    for ca in wanted.tls_cas:
        try:
            contexts[ca] = tls.context(ca)
        except ValueError as error:
            warn(str(error))
    return Preloaded(handlers, contexts)


def _trial(action: Callable[[], object]) -> str:
    """What `action` did wrong in a process of its own; empty if nothing."""
    pid = os.fork()
    if pid == 0:
        _perform(action)
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(_TRIAL_MAX_S * 1000):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError):  # it died before it made its session
            os.killpg(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED)
    finally:
        os.close(pidfd)
    if ended is None or ended.si_code != os.CLD_EXITED:
        return f"crashed, or took more than {_TRIAL_MAX_S:.0f} s,"
    return "" if ended.si_status == _CLEAN else _VERDICTS.get(ended.si_status, "ended the process")


def _perform(action: Callable[[], object]) -> None:
    """In the process of a trial: never returns."""
    verdict = _RAISED
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (1, 2):  # what it has to say, it says in the child or in the fork server
            os.dup2(nowhere, fd)
        threads, sockets = _threads(), _sockets()
        action()
        verdict = _THREAD if _threads() > threads else _SOCKET if _sockets() > sockets else _CLEAN
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(verdict)


def _threads() -> int:
    """Threads of any kind: libraries start some that Python does not know."""
    return len(os.listdir("/proc/self/task"))


def _sockets() -> int:
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return sum(1 for link in links if _target(link).startswith("socket:"))


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # the descriptor of the listing itself is in the listing
        return ""
