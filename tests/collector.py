"""An HTTP server for tests of the http sink: it remembers what was posted and answers as it is told, right or wrong.

    with Collector() as collector:
        collector.then(status(503), silence)      # for the next two requests; after that 204 to each
        ... collector.url, collector.posted ...

A behaviour is a function of the exchange; it may write whatever bytes it likes, hang, or cut the connection.
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader

from tests.wait import until


@dataclass(frozen=True, slots=True)
class Posted:
    """A request whose body came whole, or as much as its behaviour asked for."""

    connection: int
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def lines(self) -> list[bytes]:
        plain = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return plain.splitlines()

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


@dataclass
class Exchange:
    collector: Collector
    sock: socket.socket
    file: BufferedReader  # what comes
    posted: Posted

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, status: int, *headers: str, body: bytes = b"") -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *headers]
        if status != 204:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode() + body)


Behaviour = Callable[[Exchange], None]


def status(code: int, *headers: str, body: bytes = b"") -> Behaviour:
    return lambda exchange: exchange.answer(code, *headers, body=body)


def silence(exchange: Exchange) -> None:
    """Until the client gives up, or the test is over."""
    with contextlib.suppress(OSError):
        while exchange.file.read1(65536):
            pass
    raise ConnectionError


def cut(exchange: Exchange) -> None:
    """No answer; the connection ends."""
    raise ConnectionError


def drip(head: bytes, piece: bytes = b"x", every_s: float = 0.05) -> Behaviour:
    """These bytes, and then one piece after the other until the client goes."""

    def behave(exchange: Exchange) -> None:
        exchange.send(head)
        while not exchange.collector.over.wait(every_s):
            exchange.send(piece)
        raise ConnectionError

    return behave


class Collector:
    """Listens on a free port of 127.0.0.1 for as long as the `with` block lasts."""

    def __init__(self, context: ssl.SSLContext | None = None, at_once: Behaviour | None = None) -> None:
        """`at_once`: what to do with a request before its body is read, in place of all else."""
        self._context = context
        self._at_once = at_once
        self._script: deque[Behaviour] = deque()
        self._clients: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.over = threading.Event()
        self.posted: list[Posted] = []
        self.connections = 0
        self.port = 0

    def then(self, *behaviours: Behaviour) -> None:
        self._script.extend(behaviours)

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://127.0.0.1:{self.port}/events"

    @property
    def lines(self) -> list[bytes]:
        """Of all requests, also of those that were refused."""
        return [line for posted in self.posted for line in posted.lines]

    def __enter__(self) -> Collector:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.stop_listening()

    def listen(self) -> None:
        """At the same port as before, if there was one."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut_idle()

    def cut_idle(self) -> None:
        """End all connections, and wait until they have ended."""
        for client in list(self._clients):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(client, socket.SHUT_RDWR)  # of TCP, whatever TLS is doing
        until(lambda: not self._clients, 10.0)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            self.connections += 1
            self._clients.add(sock)
            threading.Thread(target=self._serve, args=(sock, self.connections), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), sock, sock.makefile("rb") as file:
            while line := file.readline():
                headers = {}
                while header := file.readline().strip():
                    name, _, value = header.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                body = b"" if self._at_once else file.read(int(headers.get("content-length", 0)))
                posted = Posted(number, line.decode("latin-1").strip(), headers, body)
                self.posted.append(posted)
                behave = self._at_once or (self._script.popleft() if self._script else status(204))
                behave(Exchange(self, sock, file, posted))
        self._clients.discard(sock)
