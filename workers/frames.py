"""The frames of RFC 6455 that a server sends, parsed in bulk: bytes in, batches of complete messages out.

What holds:

- strict: a mask bit, a reserved bit or opcode, a length that is not minimal, a long or fragmented control frame, a
  wrong close frame and misplaced fragments fail with 1002, text that is not UTF-8 with 1007 (in a fragmented
  message at the first bad fragment), a message beyond the limit with 1009 *before* any of it is kept;
- whatever was complete before the failure is delivered with it; after a failure or a close frame all input is
  ignored;
- the same messages come out wherever the stream is cut;
- no quadratic work, and no second copy: what is larger than a read grows in a buffer that becomes the message itself
  (`BytesIO.getvalue` hands out what it holds); memory grows with what came, not with what was announced.

Speed is why it is written like this: text and binary frames with short headers, nearly all there are, run through
`_run`, where a message costs a slice, a decode and an append. A call, a lock or a dict entry for each message would
cost more than its parsing.

It does not mask, send, answer or time anything. It knows one extension, compression, if it is given an `Inflater`; the
limit is then one of what is inflated.
"""

from __future__ import annotations

import codecs
import struct
from dataclasses import dataclass
from io import BytesIO
from typing import Protocol

READ_BYTES = 131_072  # half of it costs 10 % more for each message of 1 KB (measured), more gains nothing
MESSAGE_LIMIT_MIN_BYTES = 125  # what a control frame may hold; the fast path relies on it

TEXT, BINARY = 0x81, 0x82  # first bytes of whole messages: FIN and the opcode
_FIN, _RESERVED, _OPCODE = 0x80, 0x70, 0x0F
_COMPRESSED = 0x40  # of the reserved bits, in the first frame of a message
_CONTINUATION, _OP_TEXT, _OP_BINARY, _OP_CLOSE, _OP_PING, _OP_PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_MASK = 0x80
_CONTROL_MAX_BYTES = 125
_CLOSE_CODES = frozenset((*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)))

PROTOCOL_ERROR, BAD_TEXT, TOO_BIG = 1002, 1007, 1009
NO_CODE = 1005  # what a close frame without a code means; never sent

_LONGER = struct.Struct(">BBH").unpack_from

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


class _Violation(Exception):
    def __init__(self, code: int, reason: str) -> None:
        self.failure = Failure(code, reason)


def _run(data: bytes, position: int, limit: int, messages: list[Message]) -> tuple[int, int]:
    """Take whole unfragmented messages with headers of 2 or 4 bytes as long as they come: (new position, payload)."""
    append = messages.append
    end_of_data = len(data)
    last = end_of_data - 4  # where a header of 4 bytes still fits
    payload = 0
    while position <= last:
        size = data[position + 1]
        if size > 125:
            before = position
            position, taken = _run_longer(data, position, limit, messages)
            if position == before:
                break
            payload += taken
            continue
        start = position + 2
        end = start + size
        if end > end_of_data:
            break
        first = data[position]
        if first == TEXT:
            append(data[start:end].decode())
        elif first == BINARY:
            append(data[start:end])
        else:
            break
        payload += size
        position = end
    return position, payload


def _run_longer(data: bytes, position: int, limit: int, messages: list[Message]) -> tuple[int, int]:
    """The same while the headers have 4 bytes, which are cheaper to read together."""
    append = messages.append
    end_of_data = len(data)
    last = end_of_data - 4
    payload = 0
    while position <= last:
        first, form, size = _LONGER(data, position)
        if form != 126 or size < 126 or size > limit:
            break
        start = position + 4
        end = start + size
        if end > end_of_data:
            break
        if first == TEXT:
            append(data[start:end].decode())
        elif first == BINARY:
            append(data[start:end])
        else:
            break
        payload += size
        position = end
    return position, payload


class Parser:
    """One connection's stream: `feed` it what each read brings."""

    __slots__ = (
        "_character",
        "_compressed",
        "_done",
        "_fragments",
        "_frame_limit",
        "_held",
        "_inflater",
        "_large",
        "_large_first",
        "_limit",
        "_missing",
        "_opcode",
        "_tail",
    )

    def __init__(self, message_max_bytes: int, inflater: Inflater | None = None) -> None:
        if message_max_bytes < MESSAGE_LIMIT_MIN_BYTES:
            raise ValueError(f"max_message is {message_max_bytes}, expected at least {MESSAGE_LIMIT_MIN_BYTES} bytes")
        self._limit = message_max_bytes
        self._inflater = inflater  # None: no compression was agreed on
        self._frame_limit = message_max_bytes + message_max_bytes // 7 + 64  # deflate makes nothing larger than this
        self._compressed = False  # the fragmented message that is under way
        self._tail = b""  # an incomplete frame, smaller than a read
        self._missing = 0  # how many bytes complete it or the large one, once its header is known
        self._large: BytesIO | None = None  # the payload of an incomplete frame, as far as it has come
        self._large_first = 0
        self._opcode = 0  # of the fragmented message that is under way; 0: none
        self._fragments: BytesIO | None = None  # its payload so far, made for its first fragment
        self._held = 0  # how many bytes that is
        self._character = b""  # the begin of one that the next fragment of a text goes on with
        self._done = False

    @property
    def begun(self) -> bool:
        """A frame has begun and is not complete."""
        return bool(self._tail) or self._large is not None

    def feed(self, data: bytes) -> Parsed:
        """All that `data` completes."""
        messages: list[Message] = []
        controls: list[Control] = []
        failure: Failure | None = None
        if self._done:
            return Parsed(messages, controls, None, 0, False)
        tail, self._tail = self._tail, b""
        size = position = 0
        try:
            if self._large is not None:
                position = self._grow(self._large, data)
                if self._missing:
                    return Parsed(messages, controls, None, 0, False)
                payload, self._large = self._large.getvalue(), None
                size = self._take(self._large_first, payload, messages, controls)
            elif tail and 0 < self._missing <= len(data):  # join one frame rather than copy the whole read
                position = self._missing
                _, size = self._step(tail + data[:position], 0, messages, controls)
            elif tail:
                data = tail + data
            while True:
                if not self._opcode:
                    position, taken = _run(data, position, self._limit, messages)
                    size += taken
                step, taken = self._step(data, position, messages, controls)
                if not step:
                    break
                size += taken
                position += step
                if self._done:  # by a close frame
                    break
        except _Violation as violation:
            failure = violation.failure
        except UnicodeDecodeError:  # of `_run`
            failure = Failure(BAD_TEXT, "a text message is not UTF-8")
            size = sum(len(m) if isinstance(m, bytes) else len(m.encode()) for m in messages)
        if failure:
            self._done = True
        elif not self._done and self._large is None:
            self._tail = data[position:]
        return Parsed(messages, controls, failure, size, position > 0)

    def _step(self, data: bytes, position: int, messages: list[Message], controls: list[Control]) -> tuple[int, int]:
        """Any one frame at `position`: how many bytes it has, 0 if it is incomplete; and its message's payload."""
        available = len(data) - position
        self._missing = 0
        if self._done or available < 2:
            return 0, 0
        first, size, header = data[position], data[position + 1], 2
        self._check(first, size)
        if size == 126:
            header = 4
        elif size == 127:
            header = 10
        if available < header:
            return 0, 0
        if header > 2:
            size = int.from_bytes(data[position + 2 : position + header], "big")
            if size < (126 if header == 4 else 65_536) or size >= 1 << 63:
                raise _Violation(PROTOCOL_ERROR, "the length of a frame is not written the shortest way")
        held = self._held
        if not first & 0x08 and held + size > self._limit and not self._may_be_inflated(first, size):
            raise _Violation(TOO_BIG, f"a message has at least {held + size} bytes, at most {self._limit} are allowed")
        start, end = position + header, position + header + size
        if end > len(data):
            self._missing = end - len(data)
            if header + size > READ_BYTES:
                self._large, self._large_first = BytesIO(), first
                self._large.write(memoryview(data)[start:])
            return 0, 0
        return header + size, self._take(first, data[start:end], messages, controls)

    def _grow(self, large: BytesIO, data: bytes) -> int:
        """Add what belongs to the large frame: how many bytes that are."""
        part = data if len(data) <= self._missing else memoryview(data)[: self._missing]
        self._missing -= large.write(part)
        return len(part)

    def _check(self, first: int, size: int) -> None:
        """The two bytes that every frame has, before any more is awaited."""
        opcode, fin = first & _OPCODE, first & _FIN
        if first & _RESERVED and not self._marks_compression(first):
            raise _Violation(PROTOCOL_ERROR, "a reserved bit is set, but no extension was agreed on that uses it")
        if size & _MASK:
            raise _Violation(PROTOCOL_ERROR, "a frame is masked, but only clients mask")
        if opcode in (_OP_CLOSE, _OP_PING, _OP_PONG):
            if not fin or size > _CONTROL_MAX_BYTES:
                raise _Violation(PROTOCOL_ERROR, "a control frame is fragmented or has more than 125 bytes")
        elif opcode == _CONTINUATION:
            if not self._opcode:
                raise _Violation(PROTOCOL_ERROR, "a continuation without a message to continue")
        elif opcode not in (_OP_TEXT, _OP_BINARY):
            raise _Violation(PROTOCOL_ERROR, f"opcode {opcode} is reserved")
        elif self._opcode:
            raise _Violation(PROTOCOL_ERROR, "a new message begins inside a fragmented one")

    def _take(self, first: int, payload: bytes, messages: list[Message], controls: list[Control]) -> int:
        """A whole frame that passed `_check`; returns the payload of the message that it completes, or 0."""
        opcode = first & _OPCODE
        if opcode & 0x08:
            controls.append(self._control(opcode, payload))
            return 0
        if first & _FIN and opcode != _CONTINUATION:
            if first & _COMPRESSED:
                payload = self._inflated(payload, True)
            messages.append(_text(payload) if opcode == _OP_TEXT else payload)
            return len(payload)
        return self._fragment(first, payload, messages)

    def _fragment(self, first: int, payload: bytes, messages: list[Message]) -> int:
        opcode = first & _OPCODE or self._opcode
        final = bool(first & _FIN)
        if not self._opcode:
            self._compressed = bool(first & _COMPRESSED)
        if self._compressed:
            payload = self._inflated(payload, final)
        if opcode == _OP_TEXT:
            self._check_text(payload, final)
        if self._fragments is None:
            self._fragments = BytesIO()
        self._held += self._fragments.write(payload)
        self._opcode = opcode
        if not final:
            return 0
        whole = self._fragments.getvalue()
        self._fragments, self._held, self._opcode = None, 0, 0
        messages.append(_text(whole) if opcode == _OP_TEXT else whole)
        return len(whole)

    def _check_text(self, payload: bytes, final: bool) -> None:
        """A fragment may end inside a character, but not after octets that begin none."""
        data = self._character + payload
        try:
            used = codecs.utf_8_decode(data, "strict", final)[1]
        except UnicodeDecodeError:
            raise _Violation(BAD_TEXT, "a fragmented text message is not UTF-8") from None
        self._character = begin = data[used:]
        # Python waits for the third octet of a surrogate, which some of its error handlers let through
        if len(begin) == 2 and begin[0] == 0xED and begin[1] >= 0xA0:
            raise _Violation(BAD_TEXT, "a fragmented text message holds a surrogate, which is not UTF-8")

    # --- compression ----------------------------------------------------------------------------------------

    def _marks_compression(self, first: int) -> bool:
        return self._inflater is not None and first & ~_FIN in (_COMPRESSED | _OP_TEXT, _COMPRESSED | _OP_BINARY)

    def _may_be_inflated(self, first: int, size: int) -> bool:
        """It is compressed, and no larger than what fits could be."""
        return bool(first & _COMPRESSED or (self._opcode and self._compressed)) and size <= self._frame_limit

    def _inflated(self, payload: bytes, final: bool) -> bytes:
        assert self._inflater is not None  # else the bit was refused
        data = self._inflater.inflate(payload, final, self._limit - self._held)
        if isinstance(data, Failure):
            raise _Violation(data.code, data.reason)
        return data

    def _control(self, opcode: int, payload: bytes) -> Control:
        if opcode == _OP_PING:
            return Ping(payload)
        if opcode == _OP_PONG:
            return Pong(payload)
        if not payload:
            self._done = True
            return Close(NO_CODE, "")
        code = int.from_bytes(payload[:2], "big")
        if len(payload) < 2 or code not in _CLOSE_CODES:
            raise _Violation(PROTOCOL_ERROR, "a close frame has no valid code")
        try:
            reason = payload[2:].decode()
        except UnicodeDecodeError:
            raise _Violation(BAD_TEXT, "the reason of a close frame is not UTF-8") from None
        self._done = True
        return Close(code, reason)


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise _Violation(BAD_TEXT, "a text message is not UTF-8") from None
