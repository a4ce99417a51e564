"""Servers for benchmarks, each a process of its own: one that sends as fast as it can, one that sends in time.

What is sent was encoded beforehand, so that what is measured at the other end is the receiving alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.feed import TEXT, Peer, frame

CERTIFICATE = str(Path(__file__).parent.parent / "certificate.pem")  # for 127.0.0.1, signed by itself
BLOCK_BYTES = 1024 * 1024


def message(size: int) -> bytes:
    """A JSON object of `size` bytes, as feeds send them."""
    head = b'{"seq": 1234567, "price": 101.25, "text": "'
    return head + b"x" * (size - len(head) - 2) + b'"}'


def pour(peer: Peer, size: int) -> None:
    """Messages of `size` bytes, for ever."""
    block = frame(TEXT, message(size)) * (BLOCK_BYTES // size)
    while True:
        peer.raw(block)


def when_told(peer: Peer, data: bytes, go: Event) -> None:
    """`data`, and then nothing."""
    go.wait()
    peer.raw(data)
    peer.serve()


def stay(peer: Peer) -> None:
    """Say nothing, and answer what must be."""
    peer.serve()


@contextmanager
def serving(behave: Callable[..., None], *arguments: object, tls: bool = False) -> Iterator[str]:
    """The url of a process that runs `behave` for each who connects."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        server = multiprocessing.Process(target=_serve, args=(listener, behave, arguments, tls), daemon=True)
        server.start()
        try:
            yield f"{'wss' if tls else 'ws'}://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.kill()
            server.join()


def _serve(listener: socket.socket, behave: Callable[..., None], arguments: tuple[object, ...], tls: bool) -> None:
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_attend, args=(sock, context, behave, arguments), daemon=True).start()


def _attend(
    sock: socket.socket, context: ssl.SSLContext | None, behave: Callable[..., None], arguments: tuple[object, ...]
) -> None:
    with contextlib.suppress(OSError), sock:
        secured = context.wrap_socket(sock, server_side=True) if context else sock
        with secured:
            behave(agreed(secured), *arguments)


def agreed(sock: socket.socket) -> Peer:
    """After the upgrade."""
    peer = Peer(feed=_Records(), sock=sock, number=0)  # type: ignore[arg-type]
    peer.read_request()
    peer.accept()
    return peer


class _Records:
    """A feed's lists that keep nothing."""

    def __init__(self) -> None:
        self.connects = self.texts = self.pongs = self.close_codes = self

    def append(self, _: object) -> None:
        """Not kept."""


@contextmanager
def in_time(connections: int, per_second: int, size: int) -> Iterator[str]:
    """The url of a process that sends `per_second` messages in all, one by one, evenly, to the first `connections`."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        server = multiprocessing.Process(target=_dose, args=(listener, connections, per_second, size), daemon=True)
        server.start()
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.kill()
            server.join()


def _dose(listener: socket.socket, connections: int, per_second: int, size: int) -> None:
    data = frame(TEXT, message(size))
    while True:
        socks = []
        for _ in range(connections):
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            agreed(sock)
            socks.append(sock)
        with contextlib.suppress(OSError):  # they have gone; the next ones may come
            _dose_evenly(socks, data, per_second)
        for sock in socks:
            sock.close()


def _dose_evenly(socks: list[socket.socket], data: bytes, per_second: int) -> None:
    begun, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - begun) * per_second)
        for number in range(sent, due):
            socks[number % len(socks)].sendall(data)
        sent = due
        time.sleep(0.001)
