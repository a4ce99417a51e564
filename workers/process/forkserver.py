"""The fork server: one single-threaded process that imports everything once and forks a child per start request.

    python -P -m workers.process.tied PARENT_PID process.forkserver --link FD --board FD --bell FD --run MODULE:FUNCTION

What holds: it dies with the parent (by the kernel's hand) and when the parent closes the link; its children die with
it; a pidfd is opened for each child before anything can reap it; when a child dies its whole process group is killed
before the number of the group can be used again. File 0 is the parent's lock, inherited by every child.

It decides nothing: no restarts, no timeouts. The parent learns of a death by the pidfd; `Ended` is only for logs.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

from workers import log, terminal
from workers.board import Board
from workers.process import environment, signals
from workers.process.child import Inheritance, Run, live, oom_score_of_a_child
from workers.process.kernel import KillTimer, share_one_heap
from workers.process.means import Means
from workers.process.preload import preload
from workers.process.title import set_title
from workers.process.wire import (
    TEXT_MAX_CHARS,
    Began,
    Ended,
    Failed,
    Garbled,
    Preparation,
    Prepare,
    Ready,
    Start,
    Warned,
    from_memory,
    receive,
    send,
)
from workers.spec import Scope, read_scope

_STREAMS_MAX = 256  # prepared at a time

PrepareStream = Callable[[Means, Scope], Run]


class ForkServer:
    """The loop. `serve` returns when the parent is gone; in a child nothing of this returns."""

    def __init__(
        self,
        link: socket.socket,
        wake: socket.socket,
        wake_end: socket.socket,
        inherited: Inheritance,
        prepare: Callable[[Scope], Run],
    ) -> None:
        self._link = link
        self._wake = wake
        self._own_fds = (link.fileno(), wake.fileno(), wake_end.fileno())
        self._inherited = inherited
        self._prepare = prepare
        self._streams: dict[bytes, tuple[Scope, Run]] = {}
        self._children: dict[int, Start] = {}

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._wake.fileno() in ready:
                self._wake.recv(4096)
                self._bury()
            if self._link.fileno() in ready:
                received = receive(self._link)
                if received is None:
                    self._bury()  # the last child has just died, and the parent may still listen
                    return
                self._answer(*received)

    def _answer(self, message: object, task_fd: int | None) -> None:
        if not isinstance(message, Start):
            raise Garbled(f"a {type(message).__name__} came where only Start is expected")
        if task_fd is None:
            send(self._link, Failed(message.slot, message.epoch, "the fork server has no file descriptor left"))
            return
        try:
            pid = self._bear(message, task_fd)
        finally:
            os.close(task_fd)
        if pid is not None:
            self._introduce(message, pid)

    def _bear(self, start: Start, task_fd: int) -> int | None:
        """Fork; None: that failed, and the parent knows."""
        try:
            scope, run = self._prepared(read_scope(task_fd))
        except Exception as error:  # a task that cannot be read must not take the other children along
            reason = f"the task cannot be read: {type(error).__name__}: {error}"[:TEXT_MAX_CHARS]
            send(self._link, Failed(start.slot, start.epoch, reason))
            return None
        try:
            pid = os.fork()
        except OSError as error:
            send(self._link, Failed(start.slot, start.epoch, f"fork failed: {error.strerror}"))
            return None
        if pid == 0:
            live(start, scope, run, task_fd, self._inherited, self._own_fds)
        return pid

    def _prepared(self, text: bytes) -> tuple[Scope, Run]:
        """What all children of a stream share, made at the first of them."""
        found = self._streams.get(text)
        if found is None:
            if len(self._streams) >= _STREAMS_MAX:
                self._streams.clear()
            scope = Scope.from_json(text)
            found = self._streams[text] = (scope, self._prepare(scope))
            share()
        return found

    def _introduce(self, start: Start, pid: int) -> None:
        """Hand the pidfd to the parent; nobody else can reap this pid, so the number is still the child's."""
        self._children[pid] = start
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            os.kill(pid, signal.SIGKILL)
            send(self._link, Failed(start.slot, start.epoch, f"no pidfd for a new child: {error.strerror}"))
            return
        try:
            send(self._link, Began(start.slot, start.epoch, pid), pidfd)
        finally:
            os.close(pidfd)

    def _bury(self) -> None:
        """All groups are killed before the first notice is sent, which may have to wait for a stopped parent."""
        notices = []
        with contextlib.suppress(ChildProcessError):
            while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                start = self._children.pop(dead.si_pid, None)
                if start is not None:
                    with contextlib.suppress(ProcessLookupError):  # it died before it made its session
                        os.killpg(dead.si_pid, signal.SIGKILL)
                    status = dead.si_status if dead.si_code == os.CLD_EXITED else -dead.si_status
                    notices.append(Ended(start.slot, start.epoch, dead.si_pid, status))
                os.waitid(os.P_PID, dead.si_pid, os.WEXITED)
        for notice in notices:
            send(self._link, notice)


def _take_stdout() -> int:
    """From here on a `print` of a handler, also at import, goes to stderr; the result is the real stdout."""
    stdout_fd = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False, errors="backslashreplace")
    return stdout_fd


def share() -> None:
    """Keep the collector's hands off all that exists, here and in the children: it would write to each object."""
    gc.collect()
    gc.freeze()


def _named(reference: str) -> tuple[PrepareStream, Callable[[], None] | None]:
    """The function, and the one called `rehearse` beside it if there is one."""
    name, _, function = reference.partition(":")
    module = importlib.import_module(name)
    return getattr(module, function), getattr(module, "rehearse", None)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="workers.process.forkserver", description="Started by tenured only.")
    for name in ("--link", "--board", "--bell"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--run", required=True)
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    wake, wake_end = socket.socketpair()
    wake.setblocking(False)
    wake_end.setblocking(False)
    signals.hold(wake_end.fileno())
    set_title("tenured: fork server")
    link = socket.socket(fileno=arguments.link)
    for fd in (arguments.link, arguments.board, arguments.bell):
        os.set_inheritable(fd, False)
    stdout_fd = _take_stdout()
    received = receive(link)
    if received is None:
        return 0
    if not isinstance(received[0], Prepare) or received[1] is None:
        raise Garbled(f"a {type(received[0]).__name__} came where Prepare with a file is expected")
    prepare, rehearse = _named(arguments.run)
    wanted = Preparation.from_json(from_memory(received[1]))
    preloaded = preload(wanted, lambda text: send(link, Warned(text[:TEXT_MAX_CHARS])))
    environment.forget_what_imports_needed()
    board = Board.attach(arguments.board)
    inherited = Inheritance(os.getpid(), board, environment.packed(os.environ), oom_score_of_a_child())
    means = Means(preloaded.handlers, preloaded.contexts, stdout_fd, terminal.fit(2, log.writer(2)), arguments.bell)

    share_one_heap()
    KillTimer()  # a kernel that has none is found out here, and what it loads costs the children nothing
    # children share these pages as long as neither side's collector touches them
    gc.disable()
    if hasattr(sys, "_clear_type_cache"):
        sys._clear_type_cache()  # it refers to names all over the memory, and to replace one writes to its page
    if rehearse is not None:
        try:
            rehearse()
        except OSError as error:
            send(link, Warned(f"each child will need more memory, since there could be no rehearsal: {error}"))
    share()
    gc.enable()  # from here on it finds young objects alone, and a child that need not enable it touches less memory
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent closed the link: that is the end
        send(link, Ready())
        ForkServer(link, wake, wake_end, inherited, partial(prepare, means)).serve()
    return 0
