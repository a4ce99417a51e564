"""RFC 6455, section 5.2: lengths, reserved bits, opcodes, and the mask that a server must not use."""

from __future__ import annotations

import pytest

from tests.feed import BINARY, CLOSE, PING, PONG, TEXT, frame
from tests.rfc6455.script import Scene, binary, named, play, text

SIZES = (0, 1, 124, 125, 126, 127, 128, 65_535, 65_536, 200_000)
RESERVED_DATA, RESERVED_CONTROL = (3, 4, 5, 6, 7), (11, 12, 13, 14, 15)
KINDS = {"a text": TEXT, "a binary message": BINARY, "a ping": PING, "a pong": PONG, "a close frame": CLOSE}


def octets(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


VALID = named(
    [
        *(Scene(f"5.2 a text of {size} bytes", [text("*" * size)], ["*" * size]) for size in SIZES),
        *(Scene(f"5.2 a binary message of {size} bytes", [binary(b"\xfe" * size)], [b"\xfe" * size]) for size in SIZES),
        Scene("5.2 a text that comes octet by octet", octets(text("grüße" * 30)), ["grüße" * 30]),
        Scene("5.2 a binary message that comes octet by octet", octets(binary(b"\xff" * 200)), [b"\xff" * 200]),
        Scene("5.6 a text that holds a NUL", [text("a\0b")], ["a\0b"]),
        Scene("5.6 a binary message that is no UTF-8", [binary(b"\xff\xfe\x80")], [b"\xff\xfe\x80"]),
        Scene("5.6 text and binary in turn keep their types", [text("a"), binary(b"a"), text("b")], ["a", b"a", "b"]),
        Scene("5.2 messages that come in one piece keep their order", [text("a") + binary(b"b") + text("")],
              ["a", b"b", ""]),
    ]
)  # fmt: skip

INVALID = named(
    [
        *(
            Scene(f"5.2 reserved bits {bits >> 4:03b} of {kind}", [frame(opcode, b"ab", reserved=bits)], code=1002)
            for kind, opcode in KINDS.items()
            for bits in range(0x10, 0x80, 0x10)
        ),
        *(
            Scene(f"5.2 reserved opcode {opcode} with {size} bytes", [frame(opcode, b"x" * size)], code=1002)
            for opcode in (*RESERVED_DATA, *RESERVED_CONTROL)
            for size in (0, 5)
        ),
        *(
            Scene(f"5.2 reserved opcode {opcode} after a message", [text("a"), frame(opcode, b"x"), frame(PING)],
                  ["a"], code=1002)
            for opcode in (*RESERVED_DATA, *RESERVED_CONTROL)
        ),
        *(
            Scene(f"5.1 a mask of the server's on {kind}", [frame(opcode, b"ab", masked=True)], code=1002)
            for kind, opcode in KINDS.items()
        ),
        Scene("5.2 a reserved bit after a message in one piece", [text("a") + frame(TEXT, b"b", reserved=0x40)],
              ["a"], code=1002),
        Scene("5.2 a length of 125 in two bytes", [b"\x81\x7e\x00\x7d" + b"x" * 125], code=1002),
        Scene("5.2 a length of 0 in eight bytes", [b"\x82\x7f" + bytes(8)], code=1002),
        Scene("5.2 a length of 65535 in eight bytes", [b"\x82\x7f" + (65_535).to_bytes(8, "big") + b"x" * 65_535],
              code=1002),
        Scene("5.2 a length with its highest bit", [b"\x82\x7f\x80" + bytes(7)], code=1002),
    ]
)  # fmt: skip


@pytest.mark.parametrize("rule", VALID)
def test_what_is_framed_right_is_delivered(rule: str) -> None:
    play(VALID[rule])


@pytest.mark.parametrize("rule", INVALID)
def test_what_is_framed_wrong_fails_the_connection_with_1002(rule: str) -> None:
    play(INVALID[rule])
