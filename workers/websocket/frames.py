"""What the frames of RFC 6455 consist of, and what a read of them amounts to: the words of `parser` and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

READ_BYTES = 131_072  # half of it costs 10 % more for each message of 1 KB (measured), more gains nothing
MESSAGE_LIMIT_MIN_BYTES = 125  # what a control frame may hold; the fast path relies on it

TEXT, BINARY = 0x81, 0x82  # first bytes of whole messages: FIN and the opcode
FIN, RESERVED, OPCODE = 0x80, 0x70, 0x0F
COMPRESSED = 0x40  # of the reserved bits, in the first frame of a message
CONTINUATION, OP_TEXT, OP_BINARY, OP_CLOSE, OP_PING, OP_PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
MASK = 0x80
CONTROL_MAX_BYTES = 125
CLOSE_CODES = frozenset((*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)))

PROTOCOL_ERROR, BAD_TEXT, TOO_BIG = 1002, 1007, 1009
NO_CODE = 1005  # what a close frame without a code means; never sent

Message = str | bytes


@dataclass(frozen=True, slots=True)
class Ping:
    """To be answered with the same bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pong:
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """The peer began the close handshake, or answered ours."""

    code: int
    reason: str


Control = Ping | Pong | Close


@dataclass(frozen=True, slots=True)
class Failure:
    """The stream cannot go on; `code` is what a close frame should tell the peer."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one read completed. `size` is the payload of `messages` in bytes; `advanced`: a frame was completed."""

    messages: list[Message]
    controls: list[Control]
    failure: Failure | None
    size: int
    advanced: bool


class Inflater(Protocol):
    """See `deflate`."""

    def inflate(self, payload: bytes, final: bool, room: int) -> bytes | Failure:
        """What a frame adds to its message, in order, at most `room` bytes; `final`: the message ends with it."""


class Violation(Exception):
    """The peer broke the protocol: raised where it is found, a `Failure` for whoever reads."""

    def __init__(self, code: int, reason: str) -> None:
        self.failure = Failure(code, reason)
