"""RFC 6455, section 5.4: messages in fragments, however cut, and fragments where none may be."""

from __future__ import annotations

import pytest

from tests.feed import BINARY, CLOSE, PING, PONG, TEXT, frame
from tests.rfc6455.script import Scene, binary, continuation, fragments, named, play, text

KINDS = {"text": TEXT, "binary": BINARY}
PAYLOAD = "κόσμε ".encode() * 40


def message(kind: str, payload: bytes) -> str | bytes:
    return payload.decode() if kind == "text" else payload


VALID = named(
    [
        *(
            Scene(f"5.4 a {kind} message in fragments of {size}", [fragments(opcode, PAYLOAD, size)],
                  [message(kind, PAYLOAD)])
            for kind, opcode in KINDS.items()
            for size in (1, 2, 3, 7, 125, 126)
        ),
        *(
            Scene(f"5.4 a {kind} message, each fragment of {size} by itself",
                  [*fragments_apart(opcode, size)], [message(kind, PAYLOAD)])
            for kind, opcode in KINDS.items()
            for fragments_apart in (lambda opcode, size: (
                frame(opcode if at == 0 else 0, PAYLOAD[at : at + size], at + size >= len(PAYLOAD))
                for at in range(0, len(PAYLOAD), size)),)
            for size in (40, 100)
        ),
        *(
            Scene(f"5.4 a {kind} message of empty fragments", [frame(opcode, b"", False) + continuation(b"", False)
                  + continuation(b"")], [message(kind, b"")])
            for kind, opcode in KINDS.items()
        ),
        Scene("5.4 empty fragments before, between and behind", [text("", False) + continuation("a", False)
              + continuation("", False) + continuation("b", False) + continuation("")], ["ab"]),
        Scene("5.4 one fragmented message after another", [text("a", False) + continuation("b") + binary(b"c", False)
              + continuation(b"d") + text("e")], ["ab", b"cd", "e"]),
        Scene("5.4 large fragments", [fragments(BINARY, b"x" * 500_000, 140_000)], [b"x" * 500_000]),
        Scene("5.4 a large fragment, then a small one", [fragments(TEXT, b"y" * 200_001, 200_000)], ["y" * 200_001]),
        Scene("5.4 control frames between all fragments",
              [b"".join(fragment + frame(PONG, b"") for fragment in (text("a", False), continuation("b", False)))
               + frame(PING, b"p") + continuation("c")], ["abc"], [b"p"]),
    ]
)  # fmt: skip

INVALID = named(
    [
        *(
            Scene(f"5.4 a {end} continuation of nothing, {size} bytes", [continuation(b"x" * size, fin)], code=1002)
            for end, fin in (("final", True), ("further", False))
            for size in (0, 5)
        ),
        Scene("5.4 a continuation of nothing, then a message", [continuation("a"), text("b")], code=1002),
        Scene("5.4 a continuation behind a whole message", [text("a") + continuation("b")], ["a"], code=1002),
        Scene("5.4 a continuation behind the last fragment",
              [text("a", False) + continuation("b") + continuation("c")], ["ab"], code=1002),
        *(
            Scene(f"5.4 a {begun} message that begins inside a {kind} message, {name}",
                  [frame(opcode, b"a", False) + frame(other, b"b", fin)], code=1002)
            for kind, opcode in KINDS.items()
            for begun, other in KINDS.items()
            for name, fin in (("whole", True), ("in fragments", False))
        ),
        Scene("5.4 a message instead of the last fragment",
              [text("a", False) + continuation("b", False) + text("c")], code=1002),
        Scene("5.4 a fragment with a reserved bit", [text("a", False) + frame(0, b"b", reserved=0x40)], code=1002),
        Scene("5.4 a masked fragment", [text("a", False) + frame(0, b"b", masked=True)], code=1002),
        Scene("5.5.1 a close frame inside a message ends it without it",
              [text("a", False) + frame(CLOSE, b"\x03\xe8") + continuation("b")], code=1000),
    ]
)  # fmt: skip


@pytest.mark.parametrize("rule", VALID)
def test_fragments_become_one_message(rule: str) -> None:
    play(VALID[rule])


@pytest.mark.parametrize("rule", INVALID)
def test_fragments_out_of_place_deliver_nothing_and_end_the_connection(rule: str) -> None:
    play(INVALID[rule])
