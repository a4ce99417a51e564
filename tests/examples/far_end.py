"""The far end of an example: serves WebSockets on this machine, and cuts all of them when it is told to.

A `Service` says what it does. Its methods, and whoever holds `lock`, run one at a time.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

CLOSE_TIMEOUT_S = 1


class Line:
    """One connection. What is sent on one that is gone is lost."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self.path = connection.request.path if connection.request else ""

    def send(self, message: object) -> None:
        try:
            self._connection.send(json.dumps(message))
        except ConnectionClosed:
            return

    def close(self, code: int, reason: str = "") -> None:
        self._connection.close(code, reason)

    @property
    def code(self) -> int | None:
        """Of the close frame of one that is closed; 1006: there was none."""
        return self._connection.protocol.close_code

    def cut(self) -> None:
        """Without a close frame."""
        self._connection.socket.shutdown(socket.SHUT_RDWR)


class Service(Protocol):
    def opened(self, line: Line) -> None: ...

    def heard(self, line: Line, message: Any) -> None: ...

    def closed(self, line: Line) -> None: ...

    def tick(self) -> None:
        """Called again and again."""


S = TypeVar("S", bound=Service)


class FarEnd(Generic[S]):
    """`with FarEnd(service, tick_s=0.01) as far_end:` serves until the block is left, on a free port unless given."""

    def __init__(self, service: S, tick_s: float, port: int = 0) -> None:
        self.service = service
        self.lock = threading.RLock()
        self._lines: list[Line] = []
        self._tick_s = tick_s
        options: dict[str, Any] = {"compression": None, "ping_interval": None, "close_timeout": CLOSE_TIMEOUT_S}
        self._server = serve(self._serve, "127.0.0.1", port, **options)
        self._ending = threading.Event()
        self.port: int = self._server.socket.getsockname()[1]

    def __enter__(self) -> Self:
        for work in (self._server.serve_forever, self._ticks):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._server.shutdown()
        self.cut()

    def cut(self) -> None:
        """Every connection that is open."""
        with self.lock:
            for line in self._lines:
                line.cut()

    def _serve(self, connection: ServerConnection) -> None:
        line = Line(connection)
        with self.lock:
            self._lines.append(line)
            self.service.opened(line)
        try:
            for message in connection:
                with self.lock:
                    self.service.heard(line, json.loads(message))
        except ConnectionClosed:
            return
        finally:
            with self.lock:
                self._lines.remove(line)
                self.service.closed(line)

    def _ticks(self) -> None:
        while not self._ending.wait(self._tick_s):
            with self.lock:
                self.service.tick()


def run(
    service: S, tick_s: float, port: int, beside: Callable[[FarEnd[S]], AbstractContextManager[object]] = nullcontext
) -> None:
    """As a command: until Ctrl-C. `beside`: what else there is to be while it serves."""
    with FarEnd(service, tick_s, port) as far_end, beside(far_end):
        print(f"listening on 127.0.0.1:{port}, Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
