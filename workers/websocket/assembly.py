"""Messages out of the data frames that carry them: whole or in fragments, compressed or not.

What holds: text that is not UTF-8 fails with 1007, in a fragmented message at the first bad fragment; what is inflated
is held to the limit of a message, like what comes as it is; fragments grow in a buffer that becomes the message itself
(`BytesIO.getvalue` hands out what it holds), so there is no second copy.
"""

from __future__ import annotations

import codecs
from io import BytesIO

from workers.websocket.frames import (
    BAD_TEXT,
    COMPRESSED,
    CONTINUATION,
    FIN,
    OP_BINARY,
    OP_TEXT,
    OPCODE,
    Failure,
    Inflater,
    Message,
    Violation,
)


class Assembly:
    """Of one connection. `opcode`: of the fragmented message that is under way, 0: none; `held`: its bytes so far."""

    __slots__ = ("_character", "_compressed", "_fragments", "_frame_limit", "_inflater", "_limit", "held", "opcode")

    def __init__(self, message_max_bytes: int, inflater: Inflater | None) -> None:
        """`inflater` None: no compression was agreed on."""
        self._limit = message_max_bytes
        self._inflater = inflater
        self._frame_limit = message_max_bytes + message_max_bytes // 7 + 64  # deflate makes nothing larger than this
        self._compressed = False  # the fragmented message that is under way
        self._fragments: BytesIO | None = None  # its payload so far, made for its first fragment
        self._character = b""  # the begin of one that the next fragment of a text goes on with
        self.opcode = self.held = 0

    def marks_compression(self, first: int) -> bool:
        return self._inflater is not None and first & ~FIN in (COMPRESSED | OP_TEXT, COMPRESSED | OP_BINARY)

    def has_room(self, first: int, size: int) -> bool:
        """For a frame of that size: as it is, or compressed and no larger than what fits could be."""
        if self.held + size <= self._limit:
            return True
        return bool(first & COMPRESSED or (self.opcode and self._compressed)) and size <= self._frame_limit

    def add(self, first: int, payload: bytes, messages: list[Message]) -> int:
        """A whole data frame that is in its place; returns the payload of the message that it completes, or 0."""
        opcode = first & OPCODE
        if first & FIN and opcode != CONTINUATION:
            if first & COMPRESSED:
                payload = self._inflated(payload, True)
            messages.append(_text(payload) if opcode == OP_TEXT else payload)
            return len(payload)
        return self._fragment(first, payload, messages)

    def _fragment(self, first: int, payload: bytes, messages: list[Message]) -> int:
        opcode = first & OPCODE or self.opcode
        final = bool(first & FIN)
        if not self.opcode:
            self._compressed = bool(first & COMPRESSED)
        if self._compressed:
            payload = self._inflated(payload, final)
        if opcode == OP_TEXT:
            self._check_text(payload, final)
        if self._fragments is None:
            self._fragments = BytesIO()
        self.held += self._fragments.write(payload)
        self.opcode = opcode
        if not final:
            return 0
        whole = self._fragments.getvalue()
        self._fragments, self.held, self.opcode = None, 0, 0
        messages.append(_text(whole) if opcode == OP_TEXT else whole)
        return len(whole)

    def _check_text(self, payload: bytes, final: bool) -> None:
        """A fragment may end inside a character, but not after octets that begin none."""
        data = self._character + payload
        try:
            used = codecs.utf_8_decode(data, "strict", final)[1]
        except UnicodeDecodeError:
            raise Violation(BAD_TEXT, "a fragmented text message is not UTF-8") from None
        self._character = begin = data[used:]
        # Python waits for the third octet of a surrogate, which some of its error handlers let through
        if len(begin) == 2 and begin[0] == 0xED and begin[1] >= 0xA0:
            raise Violation(BAD_TEXT, "a fragmented text message holds a surrogate, which is not UTF-8")

    def _inflated(self, payload: bytes, final: bool) -> bytes:
        assert self._inflater is not None  # else the bit was refused
        data = self._inflater.inflate(payload, final, self._limit - self.held)
        if isinstance(data, Failure):
            raise Violation(data.code, data.reason)
        return data


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise Violation(BAD_TEXT, "a text message is not UTF-8") from None
