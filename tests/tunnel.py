"""An HTTP proxy for tests: what a `Feed` does when it is asked to CONNECT."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from tests.feed import Peer
from tests.wait import ready


def forwards_to(port: int) -> Callable[[Peer], None]:
    """Opens a tunnel to this port of loopback, whatever host it is asked for, as a proxy with its own names would."""

    def behave(peer: Peer) -> None:
        with socket.create_connection(("127.0.0.1", port)) as far:
            peer.raw(b"HTTP/1.1 200 Connection established\r\nX-Proxy: tests\r\n\r\n")
            with contextlib.suppress(OSError):
                _carry(peer.sock, far)

    return behave


def _carry(near: socket.socket, far: socket.socket) -> None:
    while True:
        found = ready([near, far])
        for sock in [sock for sock in (near, far) if sock.fileno() in found]:
            data = sock.recv(65_536)
            if not data:
                return
            (far if sock is near else near).sendall(data)
