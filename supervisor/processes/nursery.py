"""Keeping one fork server alive, and passing it the start requests.

What holds: each request gets exactly one answer, `Began` with a pidfd or `Failed`, whatever becomes of the fork
server; one that leaves a request unanswered for the budget, which counts from the sending, is killed. One that died is
started again, at once the first time and with growing pauses when it dies young. One that never became ready, or the
second in a row to die young, may have been ended by a handler that it imported: the next ones import none, which leaves
that to each child. What it says besides is passed on.

It goes on for ever unless it is told to `end`, or `close`d when its fork server died. Whose turn it is, `nurseries`
decides. Answers come from the loop, never from within a call.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.processes.server import Seat, Server
from workers.process.wire import Began, Ended, Failed, Message, Preparation, Ready, Start, Warned

# So many requests are under way at most: none waits long for the others, and the link to the fork server cannot fill.
_REQUESTS_MAX = 16
_PAUSE_MIN_S = 0.05
_PAUSE_MAX_S = 5.0
_YOUNG_S = 10.0
_DOUBLINGS_MAX = 10
_YOUNG_DEATHS_MAX = 1  # in a row, before handlers are suspected


@dataclass(frozen=True, slots=True)
class Died:
    """The fork server is dead, and each child that it still had is dying. Its requests have been answered. `pid` is 0
    for one that never came to be; the next one comes after the pause, or never."""

    pid: int
    status: str
    pause_s: float | None


@dataclass(slots=True)
class Request:
    """A child that is asked for; `patience` runs out when its answer does not come."""

    start: Start
    task: bytes
    patience: asyncio.TimerHandle | None = None


class Nursery:
    """`on_message` gets `Began` (with a pidfd, which is then the receiver's), `Failed`, `Ended`, `Warned`, `Died`, and
    `Ready` once for each fork server. `slots` are those of its requests and of the children that came of them, until
    the owner takes one out. `ending`: it was told to."""

    def __init__(
        self,
        seat: Seat,
        preparation: Preparation,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[Nursery, Message | Died, int | None], None],
    ) -> None:
        self.asked_for = preparation
        self.slots: set[int] = set()
        self.ending = False
        self._closed = False
        self._seat = seat
        self._preparation = preparation
        self._loop = loop
        self._on_message = on_message
        self._server: Server | None = None
        self._born_s = 0.0
        self._deaths = 0
        self._young_deaths = 0
        self._restart: asyncio.TimerHandle | None = None
        self._queue: deque[Request] = deque()
        self._asked: dict[int, Request] = {}  # by slot
        self._serve()

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    @property
    def firstborn(self) -> bool:
        """Its first fork server is not ready yet, and was not seen to fail."""
        return self._server is not None and not self._server.ready and self._deaths == 0

    @property
    def ready(self) -> bool:
        return self._server is not None and self._server.ready

    def ask(self, request: Request) -> None:
        self.slots.add(request.start.slot)
        self._queue.append(request)
        self._pump()

    def surrender(self) -> list[Request]:
        """The requests that were not sent yet; they are somebody else's now."""
        waiting = list(self._queue)
        self._queue.clear()
        self.slots.difference_update(request.start.slot for request in waiting)
        return waiting

    def withdraw(self, start: Start) -> bool:
        """Take a request back. False: it has been sent, and its answer will come."""
        for request in self._queue:
            if request.start == start:
                self._queue.remove(request)
                self._loop.call_soon(self._fail, start, "withdrawn before it was forked")
                return True
        return False

    def end(self) -> None:
        """Nobody needs it any more: `Died` will come, and then nothing more should be asked for."""
        if self.ending:
            return
        self.ending = True
        if self._server is not None:
            self._server.end()
        else:
            self._cancel_restart()
            self._loop.call_soon(self._bury, "is between two lives")

    def close(self) -> Server | None:
        """Kill the fork server and answer nothing any more. The result waits to be seen dead and collected."""
        self._closed = True
        self._cancel_restart()
        for request in self._asked.values():
            _calm(request)
        self._queue.clear()
        self._asked.clear()
        if self._server is not None:
            self._server.abandon()
        return self._server

    def _cancel_restart(self) -> None:
        if self._restart is not None:
            self._restart.cancel()

    def _serve(self) -> None:
        self._born_s = self._loop.time()
        try:
            self._server = Server(self._seat, self._preparation, self._loop, self._hear, self._bury)
        except OSError as error:
            self._loop.call_soon(self._bury, f"could not be started: {_why(error)}")

    def _pump(self) -> None:
        while self._server and self._server.ready and self._queue and len(self._asked) < _REQUESTS_MAX:
            request = self._queue.popleft()
            try:
                self._server.ask(request.start, request.task)
            except OSError as error:
                self._loop.call_soon(self._fail, request.start, f"it could not be asked for: {error.strerror}")
                continue
            request.patience = self._loop.call_later(request.start.budget_ms / 1000, self._lose_patience, request.start)
            self._asked[request.start.slot] = request

    def _hear(self, message: Message, fd: int | None) -> None:
        if isinstance(message, Began | Failed):
            self._answered(message, fd)
        elif isinstance(message, Ended | Warned | Ready):
            self._on_message(self, message, None)
        else:
            raise TypeError(f"a fork server never says {type(message).__name__}")
        self._pump()

    def _answered(self, message: Began | Failed, fd: int | None) -> None:
        request = self._asked.pop(message.slot)
        _calm(request)
        if isinstance(message, Began) and fd is None:
            # Without its pidfd it never gets its epoch, and ends by itself.
            self._fail(request.start, "there was no file descriptor left for its pidfd")
        else:
            self._on_message(self, message, fd)

    def _fail(self, start: Start, reason: str) -> None:
        self._on_message(self, Failed(start.slot, start.epoch, reason), None)

    def _lose_patience(self, start: Start) -> None:
        text = f"the fork server is killed: it did not answer a start request within {start.budget_ms / 1000:g} s"
        self._on_message(self, Warned(text), None)
        if self._server is not None:
            self._server.kill()

    def _bury(self, status: str) -> None:
        if self._closed:
            return
        pid = self._server.pid if self._server else 0
        unready = self._server is not None and not self._server.ready
        self._server = None
        self._deaths += 1
        self._young_deaths = self._young_deaths + 1 if self._loop.time() - self._born_s < _YOUNG_S else 0
        pause_s = min(_PAUSE_MIN_S * 2 ** min(self._young_deaths, _DOUBLINGS_MAX), _PAUSE_MAX_S)
        self._restart = self._loop.call_later(pause_s, self._serve)
        lost = [*self._asked.values(), *self._queue]
        self._asked.clear()
        self._queue.clear()
        for request in lost:
            _calm(request)
            self._fail(request.start, f"the fork server {status}")
        self._on_message(self, Died(pid, status, pause_s), None)
        if self._closed:
            return
        if (unready or self._young_deaths > _YOUNG_DEATHS_MAX) and self._preparation.handlers:
            self._preparation = dataclasses.replace(self._preparation, handlers=())
            text = "from now on handlers are imported in each child, as one may have ended it"
            self._on_message(self, Warned(text), None)


def _why(error: OSError) -> str:
    reason = (error.strerror or type(error).__name__).lower()
    return f"{error.filename}: {reason}" if error.filename else reason


def _calm(request: Request) -> None:
    if request.patience is not None:
        request.patience.cancel()
