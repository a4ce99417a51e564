"""What a connection still has to send: masked frames, as much of them at a time as the socket takes."""

from __future__ import annotations

import os
import socket
import ssl

from workers.websocket.frames import Message

OUTGOING_MAX_BYTES = 1024 * 1024
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_FIN, _MASK = 0x80, 0x80
_SEND_BYTES = 65_536


def encoded(data: Message) -> tuple[int, bytes]:
    """Opcode and payload of a message. Raises TypeError for what is none."""
    if isinstance(data, str):
        return TEXT, data.encode()
    if isinstance(data, bytes):
        return BINARY, data
    raise TypeError(f"send got {type(data).__name__}, expected str or bytes; json.dumps makes a str")


def check_code(code: int) -> None:
    """Raises ValueError for a close code that an endpoint may not send."""
    if code not in (1000, 1001) and not 3000 <= code < 5000:
        raise ValueError(f"close code {code} may not be sent, expected 1000, 1001 or 3000 to 4999")


class Outgoing:
    """`queue`, then `flush`. A peer that does not read lets it grow: whoever queues looks at `overflowing` first."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def overflowing(self) -> bool:
        return len(self.data) > OUTGOING_MAX_BYTES

    def queue(self, opcode: int, payload: bytes) -> None:
        self.data += frame(opcode, payload, os.urandom(4))

    def flush(self, sock: socket.socket) -> None:
        """Send until the socket takes no more. Raises OSError when the connection is broken."""
        try:
            while self.data:
                del self.data[: sock.send(bytes(self.data[:_SEND_BYTES]))]
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return


def frame(opcode: int, payload: bytes, mask: bytes) -> bytes:
    """A whole message or control frame as a client sends it: masked with four random bytes."""
    size = len(payload)
    if size < 126:
        length = bytes([_MASK | size])
    elif size < 65_536:
        length = bytes([_MASK | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([_MASK | 127]) + size.to_bytes(8, "big")
    masks = (mask * (size // 4 + 1))[:size]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(masks, "big")).to_bytes(size, "big")
    return bytes([_FIN | opcode]) + length + mask + masked
