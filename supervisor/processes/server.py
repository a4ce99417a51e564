"""The parent's side of one fork server: starting it, talking to it, seeing it die.

What holds: it is exec'd by the main thread (a death signal follows the thread that made the process); its environment
is scrubbed; its death is told exactly once, by its pidfd. What it had sent and nobody had read by then is lost: a child
whose pidfd is lost never gets its epoch, and dies with the fork server. It is killed when it closes the link and does
not end, says something that is no message, or is not ready in time.

It decides nothing about children; `children` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from workers.process.wire import Garbled, Message, Preparation, Prepare, Ready, Start, Warned, in_memory, receive, send

_PREPARE_MAX_S = 30.0  # the trials and imports of handlers have budgets of their own, which take about half of it
_EXIT_MAX_S = 1.0
_MESSAGES_PER_TURN = 64  # the loop has other things to do

# What an interpreter needs to start and to find its modules, its certificates and the time of day, and what every child
# gets: a child whose environment differs has to touch memory to change it.
_PASSED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_PASSED_PREFIXES = ("LC_", "PYTHON")
# Numeric libraries start a thread per core at import, which no process that forks may have.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Seat:
    """What every fork server of this supervisor is started with."""

    board_fd: int
    lock_fd: int
    bell_fd: int
    run: str
    environment: Mapping[str, str]


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of the fork server: nothing in it can be a secret of one stream that others would inherit."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in _PASSED or name in _ONE_THREAD or name.startswith(_PASSED_PREFIXES)
    }
    return dict.fromkeys(_ONE_THREAD, "1") | kept


def described(status: int) -> str:
    """An exit status in words; negative: the signal that killed it."""
    if status >= 0:
        return f"exited with {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def seen_dead(pidfds: Iterable[int], patience_s: float) -> bool:
    """Wait until all of these processes are dead. False: one still is not."""
    until_s = time.monotonic() + patience_s
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(max(0.0, until_s - time.monotonic()) * 1000):
            return False
    return True


class Server:
    """One fork server. `on_message` gets what it says about children, `on_death` its last word, once."""

    def __init__(
        self,
        seat: Seat,
        preparation: Preparation,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[Message, int | None], None],
        on_death: Callable[[str], None],
    ) -> None:
        if threading.get_native_id() != os.getpid():
            raise RuntimeError("a fork server must be started by the main thread: it dies with the thread that made it")
        self.ready = False
        self._loop = loop
        self._on_message = on_message
        self._on_death = on_death
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = _spawned(seat, theirs.fileno())
            self.pid = self._process.pid
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._link.close()
            raise
        finally:
            theirs.close()
        self._link.setblocking(False)
        loop.add_reader(self._link, self._read)
        loop.add_reader(self._pidfd, self._died)
        self._patience = loop.call_later(_PREPARE_MAX_S, self._tired)
        self._send(Prepare(), preparation.to_json())

    def ask(self, start: Start, task: bytes) -> None:
        """Request a child. Raises OSError if no memory or descriptor is left; no answer if the server is dying."""
        self._send(start, task)

    def end(self) -> None:
        """No more requests will come. It ends by itself when it has told what it knows, or is killed soon after."""
        if not self.ready:
            self.kill()
            return
        self._patience.cancel()
        self._patience = self._loop.call_later(_EXIT_MAX_S, self.kill)
        with contextlib.suppress(OSError):  # it is dying already
            self._link.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it is dead already: its pidfd tells
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def abandon(self) -> None:
        """Kill it and report nothing any more; then `collect` it."""
        self.kill()
        self._forget()

    def collect(self, patience_s: float) -> str | None:
        """Wait for its death and reap it; how it ended, in words. None: it does not die."""
        return self._reaped() if seen_dead([self._pidfd], patience_s) else None

    def _send(self, message: Message, content: bytes) -> None:
        fd = in_memory(content, "tenured-request")
        try:
            # It is dying, which its pidfd will tell; or its queue is full as it hangs: the missing answer will tell.
            with contextlib.suppress(ConnectionError, BlockingIOError):
                send(self._link, message, fd)
        finally:
            os.close(fd)

    def _read(self) -> None:
        for _ in range(_MESSAGES_PER_TURN):
            if not self._hear():
                return

    def _hear(self) -> bool:
        """Pass one message on. False: there is none now, or there will be none any more."""
        try:
            received = receive(self._link)
        except BlockingIOError:
            return False
        except ConnectionError:  # it died without having read all that we sent
            received = None
        except Garbled as error:
            self._loop.remove_reader(self._link)
            self._on_message(Warned(f"the fork server is killed: {error}"), None)
            self.kill()
            return False
        if received is None:
            # it is about to end; had it been killed for that, its exit status would say nothing
            self._loop.remove_reader(self._link)
            self._patience.cancel()
            self._patience = self._loop.call_later(_EXIT_MAX_S, self.kill)
            return False
        if isinstance(received[0], Ready):
            self.ready = True
            self._patience.cancel()
        self._on_message(*received)
        return True

    def _tired(self) -> None:
        text = f"the fork server is killed: it did not import everything within {_PREPARE_MAX_S:g} s"
        self._on_message(Warned(text), None)
        self.kill()

    def _died(self) -> None:
        self._forget()
        self._on_death(self._reaped())

    def _reaped(self) -> str:
        os.killpg(self.pid, signal.SIGKILL)  # what its imports had started; the number is its own until it is reaped
        os.close(self._pidfd)
        return described(self._process.wait())

    def _forget(self) -> None:
        self._patience.cancel()
        self._loop.remove_reader(self._link)
        self._loop.remove_reader(self._pidfd)
        self._link.close()


def _spawned(seat: Seat, link_fd: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "workers.process.tied", str(os.getpid()), "process.forkserver"]
    given = ["--link", str(link_fd), "--board", str(seat.board_fd), "--bell", str(seat.bell_fd)]
    return subprocess.Popen(
        [*command, *given, "--run", seat.run],
        stdin=seat.lock_fd,
        env=scrubbed(seat.environment),
        pass_fds=(link_fd, seat.board_fd, seat.bell_fd),
        start_new_session=True,  # a terminal's signals are for the parent
    )
