"""A WebSocket server for tests that does exactly what a test tells it to, right or wrong.

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text("hello")
        peer.serve()

    with Feed(behave) as feed:
        ... feed.url, feed.connects, feed.texts, feed.close_codes ...

Each connection is a thread that runs `behave`; what clients sent is recorded. An exception of `behave` other than a
broken connection fails the test at the end of the `with`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA


def frame(opcode: int, payload: bytes = b"", fin: bool = True, reserved: int = 0, masked: bool = False) -> bytes:
    """A frame as a server sends it; the reference encoder of the parser's tests."""
    size, mask = len(payload), 0x80 if masked else 0
    first = (0x80 if fin else 0) | reserved | opcode
    if size < 126:
        head = struct.pack(">BB", first, mask | size)
    elif size < 65_536:
        head = struct.pack(">BBH", first, mask | 126, size)
    else:
        head = struct.pack(">BBQ", first, mask | 127, size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


@dataclass(frozen=True, slots=True)
class Connect:
    """One TCP connection that sent a whole request."""

    path: str
    headers: dict[str, str]
    at: float


@dataclass
class Peer:
    """One connection, seen from the server."""

    feed: Feed
    sock: socket.socket
    number: int
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    pings: int = 0
    _held: bytes = b""

    def read_request(self) -> None:
        while b"\r\n\r\n" not in self._held:
            self._held += self._more()
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.path = first.split(" ")[1]
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.feed.connects.append(Connect(self.path, self.headers, time.monotonic()))

    def upgrade(self, *extra: str) -> bytes:
        """The answer that agrees."""
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        return "\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept}", *extra, "", ""]).encode()

    def accept(self, *extra: str) -> None:
        self.raw(self.upgrade(*extra))

    def refuse(self, status: int, *headers: str, body: str = "") -> None:
        lines = [f"HTTP/1.1 {status} Refused", f"Content-Length: {len(body)}", *headers, "", body]
        self.raw("\r\n".join(lines).encode())

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def text(self, text: str) -> None:
        self.raw(frame(TEXT, text.encode()))

    def close(self, code: int, reason: str = "") -> None:
        self.raw(frame(CLOSE, code.to_bytes(2, "big") + reason.encode()))

    def next_frame(self) -> tuple[int, bytes]:
        """The next frame of the client, unmasked. Raises ConnectionError at the end."""
        first, size = self._take(2)
        size &= 0x7F
        if size == 126:
            size = int.from_bytes(self._take(2), "big")
        elif size == 127:
            size = int.from_bytes(self._take(8), "big")
        mask = self._take(4)
        payload = self._take(size)
        return first & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))

    def serve(self, messages: int | None = None) -> None:
        """Record and answer what the client sends, as a good server does, until it closes (or sent `messages`)."""
        while messages is None or messages > 0:
            opcode, payload = self.next_frame()
            if opcode == CLOSE:
                self.feed.close_codes.append(int.from_bytes(payload[:2], "big") if payload else None)
                self.raw(frame(CLOSE, payload))
                return
            if opcode == PING:
                self.pings += 1
                self.raw(frame(PONG, payload))
            elif opcode in (TEXT, BINARY):
                self.feed.texts.append((self.number, payload.decode()))
                messages = None if messages is None else messages - 1
            elif opcode == PONG:
                self.feed.pongs.append(payload)

    def wait_for_end(self) -> None:
        """Say nothing, read nothing, until the feed closes or the client has gone."""
        self.feed.closing.wait()

    def _take(self, count: int) -> bytes:
        pieces, size = [self._held], len(self._held)
        while size < count:
            pieces.append(self._more())
            size += len(pieces[-1])
        self._held = b"".join(pieces)
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    def _more(self) -> bytes:
        data = self.sock.recv(65_536)
        if not data:
            raise ConnectionError("the client has gone")
        return data


class Feed:
    """Listens on a free port of loopback while the `with` lasts."""

    def __init__(
        self, behave: Callable[[Peer], None], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._behave = behave
        self._tls = tls
        self._host = host
        self._listener = socket.create_server((host, 0), backlog=128)
        self._socks: list[socket.socket] = []
        self._faults: list[Exception] = []
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self.connects: list[Connect] = []
        self.texts: list[tuple[int, str]] = []
        self.pongs: list[bytes] = []
        self.close_codes: list[int | None] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"{'wss' if self._tls else 'ws'}://{self._host}:{self.port}"

    def __enter__(self) -> Feed:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if self._faults and error is None:
            raise self._faults[0]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._socks = [*self._socks[-200:], sock]
                threading.Thread(target=self._run, args=(sock, self.accepted), daemon=True).start()
                self.accepted += 1

    def _run(self, sock: socket.socket, number: int) -> None:
        with sock:
            try:
                secured = self._tls.wrap_socket(sock, server_side=True) if self._tls else sock
                with secured:
                    peer = Peer(self, secured, number)
                    peer.read_request()
                    self._behave(peer)
            except OSError:
                return  # the client or the test ended it
            except Exception as error:
                self._faults.append(error)
