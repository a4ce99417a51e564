"""One real connection of a shard, made as a child would make it, looked at until its first message, and closed.

    python -P -m workers.process.tied PARENT_PID websocket.glimpse --task FD --connection N --wait-ms N

What holds: url, headers, subscriptions, TLS, timeouts and a handler's `target` are those of a child, made by the same
code; each step that was reached is a line on stdout, and what failed is one sentence on stderr. No line holds a path,
a query, a header or a subscription. Nothing is stored: what a handler emits or commits goes nowhere.

Of a handler `start`, `target`, `opened` and `stop` are called, and no other method; a sink of the user's own is
imported, and not made. A far end that allows a single connection may close the live one for this one; one that compares
epochs will not, as this one comes with epoch 0.

Exit codes: 0 connected, also if no message came in time; 1 not; 78 the handler or the sink cannot be loaded.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from workers.handler import BadHandler, Handler, Shard, Timer, address_of, load
from workers.process import environment
from workers.process.kernel import boottime_ns
from workers.resuming.looking import looked
from workers.sinks import choice, own
from workers.sinks.interface import BadSink
from workers.spec import Scope, Task, read_environment, read_scope, read_task
from workers.stream.session import Refusal
from workers.stream.target import Target, Targets, Templates, parts, shown
from workers.websocket import outgoing, route, tls
from workers.websocket.attempt import Attempt
from workers.websocket.dial import Opened, dial
from workers.websocket.frames import Message
from workers.websocket.outgoing import Outgoing
from workers.websocket.talk import Talk, printed
from workers.websocket.upgrade import Refused

CONNECTED, FAILED, BAD_CONFIGURATION = 0, 1, 78
_ATTEMPT_SLACK_S = 0.5  # an attempt keeps its timeout itself, but for name resolution and a handler's target
_MS = 1_000_000

Say = Callable[[str, str], None]  # a step that was reached, and what is to be said about it


@dataclass(frozen=True, slots=True)
class _Unwound:
    """A timer that never fires: a glimpse is over before."""

    def cancel(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Outlet:
    """What a handler calls on itself leads nowhere, but for its address."""

    address_of: Callable[[int], tuple[str, dict[str, str]]]

    def emit(self, data: Message) -> None:
        pass

    def commit(self, token: str) -> None:
        pass

    def when_safe(self, function: Callable[[], object]) -> None:
        """Nothing ever is."""

    def every(self, seconds: float, function: Callable[[], object]) -> Timer:
        return _Unwound()

    def address(self, connection: int) -> tuple[str, dict[str, str]]:
        return self.address_of(connection)


@dataclass(slots=True)
class _Link:
    """A handler's view of the connection; what it sends before there is one is lost, as in a child."""

    number: int
    out: Outgoing | None = None
    closing: bool = False

    def send(self, data: Message) -> bool:
        if self.out is None or self.closing:
            return False
        self.out.queue(*outgoing.encoded(data))
        return True

    def close(self, code: int = 1000) -> None:
        self.closing = True


class Glimpse:
    """`run` raises `Refused` with the sentence that says what failed, `BadHandler` or `BadSink`, or what a handler
    raises."""

    def __init__(self, task: Task, number: int, say: Say) -> None:
        self._task = task
        self._spec = task.scope.spec
        self._say = say
        templates = Templates(self._spec)
        self._targets = Targets(templates, task, os.environ)
        self._checkpoint = task.checkpoint if task.checkpoint and templates.carries(task.checkpoint) else ""
        self._link = _Link(number)
        self._begun_ns = 0
        self._handler: Handler | None = None

    def run(self, wait_ns: int) -> None:
        if choice.is_class(self._spec.sink):
            own.loaded(self._spec.sink, self._task.scope)
        self._handler = self._made()
        self._begun_ns = boottime_ns()
        opened = self._connected()
        with opened.sock:
            self._look(opened, wait_ns)

    def _made(self) -> Handler | None:
        task, scope = self._task, self._task.scope
        if not self._spec.handler:
            return None
        handler: Handler = load(self._spec.handler, scope.base, scope.python_path)()
        handler._outlet = _Outlet(lambda number: self._targets.address(number, self._checkpoint))
        count = len(self._spec.url) or 1
        handler.start(Shard(task.shard, self._spec.stream, task.index, task.epoch, task.checkpoint, count))
        return handler

    def _connected(self) -> Opened:
        settled = threading.Event()
        attempt = Attempt(self._target, self._dialed, lambda _: settled.set())
        if not settled.wait(self._spec.connect_timeout_ms / 1000 + _ATTEMPT_SLACK_S):
            raise Refused(Refusal("no connection in time: resolution or target() took too long"))
        outcome = attempt.outcome
        if isinstance(outcome, Opened):
            return outcome
        raise Refused(outcome if isinstance(outcome, Refusal) else Refusal("the attempt ended without an outcome"))

    def _target(self) -> Target:
        number, checkpoint = self._link.number, self._checkpoint
        if self._handler is None:
            url, headers = self._targets.address(number, checkpoint)
        else:
            url, headers = address_of(self._handler, self._link)
        self._say("target", shown(url) if parts(url) else "no WebSocket url")
        return self._targets.target(url, headers, number, checkpoint)

    def _dialed(self, target: Target) -> Opened:
        way = route.found(target, self._begun_ns + self._spec.connect_timeout_ms * _MS)
        opened = dial(way, lambda: tls.context(tls.profile_of(self._spec)), reached=self._reached)
        assert isinstance(opened, Opened)  # only a permission could run out
        if target.deflate:
            self._say("compression", "agreed on" if opened.inflater else "not agreed on, the server does not do it")
        return opened

    def _reached(self, step: str, sock: socket.socket) -> None:
        if step == "connected":
            host, port = sock.getpeername()[:2]
            said = f"to {host} port {port}"
        elif isinstance(sock, ssl.SSLSocket) and step == "secured":
            step, said = "TLS", f"{sock.version()}, the certificate is accepted"
        elif step == "tunnelled":
            said = "the proxy has connected us"
        else:
            said = "the server answered 101"
        self._say(step, f"{said} after {self._elapsed()}")

    def _elapsed(self) -> str:
        return f"{(boottime_ns() - self._begun_ns) / _MS:.0f} ms"

    # --- an open connection ---------------------------------------------------------------------------------

    def _look(self, opened: Opened, wait_ns: int) -> None:
        talk = Talk(opened, self._spec.max_message)
        self._link.out = talk.out
        for text in opened.target.subscriptions:
            talk.out.queue(outgoing.TEXT, text.encode())
        self._say("subscribed", f"{len(opened.target.subscriptions)} sent")
        if self._handler is not None:
            self._handler.opened(self._link)
        message = talk.first(boottime_ns() + wait_ns, lambda: self._link.closing)
        if message is not None:
            self._say("message", f"the first after {self._elapsed()}, {printed(message)}")
            for key, text in looked(self._spec, message):
                self._say(key, text)
        elif self._link.closing:
            self._say("message", "none: the handler closed the connection")
        else:
            self._say("message", f"none within {wait_ns / _MS / 1000:g} s")
        if self._handler is not None:
            self._handler.stop()
        talk.leave(self._spec.close_code)


# --- the process --------------------------------------------------------------------------------------------


def fault(error: Exception) -> tuple[int, str]:
    """Exit code and sentence."""
    if isinstance(error, Refused):
        asked = f", and asks to wait {error.refusal.floor_s:.0f} s" if error.refusal.floor_s else ""
        return FAILED, error.refusal.reason + asked
    if isinstance(error, BadHandler | BadSink):
        return BAD_CONFIGURATION, str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return FAILED, f"the handler failed at {place.filename}:{place.lineno}: {type(error).__name__}: {error}"


def _task(fd: int) -> Task:
    """With the environment that the child would have, in place of ours."""
    scope = Scope.from_json(read_scope(fd))
    task = read_task(fd, scope)
    environment.forget_what_imports_needed()
    environment.become(read_environment(fd), environment.packed(os.environ))
    return task


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="workers.websocket.glimpse", description="Started by tenured only.")
    for name in ("--task", "--connection", "--wait-ms"):
        parser.add_argument(name, type=int, required=True)
    return parser.parse_args()


def main() -> NoReturn:
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the command line says that it was interrupted
    lines_fd = os.dup(1)
    os.dup2(2, 1)  # for what a handler prints

    def say(step: str, text: str) -> None:
        os.write(lines_fd, f"{step:<11} {text}\n".encode(errors="backslashreplace"))

    code, number = CONNECTED, arguments.connection
    task = _task(arguments.task)
    try:
        Glimpse(task, number, say).run(arguments.wait_ms * _MS)
    except Exception as error:
        code, sentence = fault(error)
        which = f"connection {number}: " if len(task.scope.spec.url) > 1 and code == FAILED else ""
        print(f"tenured: {which}{sentence}", file=sys.stderr)
    sys.stdout.flush()
    os._exit(code)  # a handler's threads have nothing to finish here
