"""A proxy in front of a DynamoDB engine that misbehaves on command, and a record of what passed.

    with FaultProxy(engine.port) as proxy:
        store = open_store(proxy.url(table), ...)
        proxy.fault = EatAnswers(Pick("UpdateItem"))
        ...
        assert proxy.count("UpdateItem") == 1

A request that no fault picks passes unchanged. Faults may be changed at any time; a request lives through the one that
picked it. Times are CLOCK_BOOTTIME nanoseconds. Each request goes upstream over a connection of its own.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from typing import BinaryIO

from tests.faults import Answer, Exchange, Fault, Seen


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class _Exchange:
    """See `faults.Exchange`."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, seen: Seen, head: dict[str, str]) -> None:
        self.seen = seen
        self._proxy = proxy
        self._client = client
        self._head = head

    def forward(self, body: bytes | None = None) -> Answer:
        upstream = http.client.HTTPConnection("127.0.0.1", self._proxy.upstream_port, timeout=30)
        try:
            sent = self.seen.body if body is None else body
            head = {name: value for name, value in self._head.items() if name not in ("content-length", "host")}
            upstream.request("POST", "/", sent, head)
            reply = upstream.getresponse()
            kind = reply.getheader("Content-Type") or "application/x-amz-json-1.0"
            return Answer(reply.status, reply.read(), kind)
        finally:
            upstream.close()

    def send(self, answer: Answer) -> None:
        self._client.sendall(answer.head() + answer.body)
        self.seen.answered_ns = now_ns()
        self.seen.status, self.seen.answer = answer.status, answer.body

    def send_raw(self, data: bytes) -> None:
        self._client.sendall(data)

    def pause(self, seconds: float) -> None:
        self._proxy.closing.wait(seconds)

    def silence(self) -> None:
        while self._client.recv(65536):
            pass

    def drop(self) -> None:
        self._client.shutdown(socket.SHUT_RDWR)


class FaultProxy:
    """Listens on a free port of 127.0.0.1 for as long as the `with` block lasts."""

    def __init__(self, upstream_port: int, keep: bool = True) -> None:
        """`keep`: whether it remembers what passed; without, it can run for as long as one likes."""
        self.upstream_port = upstream_port
        self._keep = keep
        self.closing = threading.Event()
        self.faults: tuple[Fault, ...] = ()
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._clients: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0

    def __enter__(self) -> FaultProxy:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.stop_listening()

    @property
    def fault(self) -> Fault | None:
        """The only fault; `faults` takes several, of which the first that picks a request acts."""
        return self.faults[0] if self.faults else None

    @fault.setter
    def fault(self, fault: Fault | None) -> None:
        self.faults = () if fault is None else (fault,)

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, table: str) -> str:
        return f"dynamodb://{table}?region=us-east-1&endpoint_url={self.endpoint_url}"

    def seen(self, operation: str = "") -> list[Seen]:
        """The requests so far, in order of arrival."""
        with self._lock:
            return [seen for seen in self._seen if operation in ("", seen.operation)]

    def count(self, operation: str = "") -> int:
        return len(self.seen(operation))

    def listen(self) -> None:
        """At the same port as before, if there was one."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop_listening(self) -> None:
        """From now on connections are refused; those that exist end."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut()

    def cut(self) -> None:
        """The connections that exist end."""
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            _shut(client)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client.makefile("rb") as stream:
                while (request := _read_request(stream)) is not None:
                    self._handle(client, *request)
        except (OSError, http.client.HTTPException):
            pass  # the client has gone, or the engine has: either way this connection is over
        finally:
            with self._lock:
                self._clients.discard(client)
            client.close()

    def _handle(self, client: socket.socket, head: dict[str, str], body: bytes) -> None:
        operation = head.get("x-amz-target", "").rpartition(".")[2]
        seen = Seen(operation, body, now_ns(), token=head.get("x-amz-security-token", ""))
        if self._keep:
            with self._lock:
                self._seen.append(seen)
        exchange: Exchange = _Exchange(self, client, seen, head)
        for fault in self.faults:
            if fault.pick(seen):
                fault.act(exchange)
                return
        exchange.send(exchange.forward())


def _read_request(stream: BinaryIO) -> tuple[dict[str, str], bytes] | None:
    """Header names in lower case, and the body; None at the end of the connection."""
    if not stream.readline():
        return None
    head: dict[str, str] = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        head[name.lower()] = value.strip()
    body = stream.read(int(head.get("content-length", "0")))
    return (head, body) if body else None


def _shut(client: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may have ended by itself
        client.shutdown(socket.SHUT_RDWR)
