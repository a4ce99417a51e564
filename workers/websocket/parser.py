"""The frames that a server sends (RFC 6455), parsed in bulk: bytes in, batches of complete messages out.

What holds:

- strict: a mask bit, a reserved bit or opcode, a length that is not minimal, a long or fragmented control frame, a
  wrong close frame and misplaced fragments fail with 1002, text that is not UTF-8 with 1007 (see `assembly`), a message
  beyond the limit with 1009 *before* any of it is kept;
- whatever was complete before the failure is delivered with it; after a failure or a close frame all input is
  ignored;
- the same messages come out wherever the stream is cut;
- no quadratic work, and no second copy: what is larger than a read grows in a buffer that becomes the message itself;
  memory grows with what came, not with what was announced.

Nearly all frames go through `bulk`; the rest one by one, here. It does not mask, send, answer or time anything. It
knows one extension, compression, if it is given an `Inflater`; the limit is then one of what is inflated.
"""

from __future__ import annotations

from io import BytesIO

from workers.websocket import bulk
from workers.websocket.assembly import Assembly
from workers.websocket.frames import (
    BAD_TEXT,
    CLOSE_CODES,
    CONTINUATION,
    CONTROL_MAX_BYTES,
    FIN,
    MASK,
    MESSAGE_LIMIT_MIN_BYTES,
    NO_CODE,
    OP_BINARY,
    OP_CLOSE,
    OP_PING,
    OP_PONG,
    OP_TEXT,
    OPCODE,
    PROTOCOL_ERROR,
    READ_BYTES,
    RESERVED,
    TOO_BIG,
    Close,
    Control,
    Failure,
    Inflater,
    Message,
    Parsed,
    Ping,
    Pong,
    Violation,
)


class Parser:
    """One connection's stream: `feed` it what each read brings."""

    __slots__ = ("_assembly", "_done", "_large", "_large_first", "_limit", "_missing", "_tail")

    def __init__(self, message_max_bytes: int, inflater: Inflater | None = None) -> None:
        """`inflater` None: no compression was agreed on."""
        if message_max_bytes < MESSAGE_LIMIT_MIN_BYTES:
            raise ValueError(f"max_message is {message_max_bytes}, expected at least {MESSAGE_LIMIT_MIN_BYTES} bytes")
        self._limit = message_max_bytes
        self._assembly = Assembly(message_max_bytes, inflater)
        self._tail = b""  # an incomplete frame, smaller than a read
        self._missing = 0  # how many bytes complete it or the large one, once its header is known
        self._large: BytesIO | None = None  # the payload of an incomplete frame, as far as it has come
        self._large_first = 0
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
            while not self._done:  # by a close frame
                if not self._assembly.opcode:
                    position, taken = bulk.run(data, position, self._limit, messages)
                    size += taken
                step, taken = self._step(data, position, messages, controls)
                if not step:
                    break
                size += taken
                position += step
        except Violation as violation:
            failure = violation.failure
        except UnicodeDecodeError:  # of `bulk`
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
        if available < 2:
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
                raise Violation(PROTOCOL_ERROR, "the length of a frame is not written the shortest way")
        if not first & 0x08 and not self._assembly.has_room(first, size):
            size += self._assembly.held
            raise Violation(TOO_BIG, f"a message has at least {size} bytes, at most {self._limit} are allowed")
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
        opcode, fin = first & OPCODE, first & FIN
        if first & RESERVED and not self._assembly.marks_compression(first):
            raise Violation(PROTOCOL_ERROR, "a reserved bit is set, but no extension was agreed on that uses it")
        if size & MASK:
            raise Violation(PROTOCOL_ERROR, "a frame is masked, but only clients mask")
        if opcode in (OP_CLOSE, OP_PING, OP_PONG):
            if not fin or size > CONTROL_MAX_BYTES:
                raise Violation(PROTOCOL_ERROR, "a control frame is fragmented or has more than 125 bytes")
        elif opcode == CONTINUATION:
            if not self._assembly.opcode:
                raise Violation(PROTOCOL_ERROR, "a continuation without a message to continue")
        elif opcode not in (OP_TEXT, OP_BINARY):
            raise Violation(PROTOCOL_ERROR, f"opcode {opcode} is reserved")
        elif self._assembly.opcode:
            raise Violation(PROTOCOL_ERROR, "a new message begins inside a fragmented one")

    def _take(self, first: int, payload: bytes, messages: list[Message], controls: list[Control]) -> int:
        """A whole frame that passed `_check`; returns the payload of the message that it completes, or 0."""
        opcode = first & OPCODE
        if opcode & 0x08:
            controls.append(self._control(opcode, payload))
            return 0
        return self._assembly.add(first, payload, messages)

    def _control(self, opcode: int, payload: bytes) -> Control:
        if opcode == OP_PING:
            return Ping(payload)
        if opcode == OP_PONG:
            return Pong(payload)
        if not payload:
            self._done = True
            return Close(NO_CODE, "")
        code = int.from_bytes(payload[:2], "big")
        if len(payload) < 2 or code not in CLOSE_CODES:
            raise Violation(PROTOCOL_ERROR, "a close frame has no valid code")
        try:
            reason = payload[2:].decode()
        except UnicodeDecodeError:
            raise Violation(BAD_TEXT, "the reason of a close frame is not UTF-8") from None
        self._done = True
        return Close(code, reason)
