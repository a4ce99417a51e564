"""What a connection still has to send: masked frames, as much of them at a time as the socket takes."""

from __future__ import annotations

import socket
import ssl

from websocket import ABNF

OUTGOING_MAX_BYTES = 1024 * 1024
TEXT, BINARY, CLOSE, PING, PONG = (
    ABNF.OPCODE_TEXT,
    ABNF.OPCODE_BINARY,
    ABNF.OPCODE_CLOSE,
    ABNF.OPCODE_PING,
    ABNF.OPCODE_PONG,
)
_SEND_BYTES = 65_536


class Outgoing:
    """`queue`, then `flush`. A peer that does not read lets it grow: whoever queues looks at `overflowing` first."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    @property
    def overflowing(self) -> bool:
        return len(self._data) > OUTGOING_MAX_BYTES

    def queue(self, opcode: int, payload: bytes) -> None:
        self._data += ABNF.create_frame(payload, opcode).format()

    def flush(self, sock: socket.socket) -> None:
        """Send until the socket takes no more. Raises OSError when the connection is broken."""
        try:
            while self._data:
                del self._data[: sock.send(bytes(self._data[:_SEND_BYTES]))]
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
