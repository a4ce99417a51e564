"""RFC 6455, sections 5.2 and 10.4: messages of any size up to the limit, however they come, and none beyond it."""

from __future__ import annotations

import pytest

from tests.feed import BINARY, TEXT, Peer, frame
from tests.rfc6455.script import (
    Scene,
    Stage,
    binary,
    continuation,
    fragments,
    hear,
    listen_to_the_end,
    named,
    perform,
    play,
    text,
)

KIB, MIB = 1024, 1024 * 1024
LIMIT = 1000


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


LARGE = named(
    [
        *(Scene(f"5.2 a text of {size // KIB} KiB", [text("*" * size)], ["*" * size])
          for size in (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB)),
        *(Scene(f"5.2 a binary message of {size // KIB} KiB", [binary(b"\xfe" * size)], [b"\xfe" * size])
          for size in (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB)),
        *(Scene(f"5.4 a text of 1 MiB in fragments of {size}", [fragments(TEXT, b"*" * MIB, size)], ["*" * MIB])
          for size in (64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)),
        *(Scene(f"5.4 a binary message of 1 MiB in fragments of {size}", [fragments(BINARY, b"\xfe" * MIB, size)],
                [b"\xfe" * MIB])
          for size in (64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)),
        *(Scene(f"5.2 a text of 256 KiB that comes in pieces of {size}", pieces(text("ü" * 128 * KIB), size),
                ["ü" * 128 * KIB])
          for size in (64, 512, 2 * KIB)),
        *(Scene(f"5.2 500 texts of {size} bytes", [text("*" * size) * 500], ["*" * size] * 500)
          for size in (0, 16, 64, 256, KIB)),
        *(Scene(f"5.2 500 binary messages of {size} bytes", [binary(b"\xfe" * size) * 500], [b"\xfe" * size] * 500)
          for size in (0, 16, 64, 256, KIB)),
    ]
)  # fmt: skip

ACCEPTED = named(
    Scene(f"7.4.1 {name}", [data], [b"x" * LIMIT], spec={"max_message": LIMIT})
    for name, data in {
        "a message of exactly the limit": binary(b"x" * LIMIT),
        "fragments of exactly the limit": fragments(BINARY, b"x" * LIMIT, 300),
    }.items()
)

REFUSED = named(
    Scene(f"7.4.1 {name}", [data], code=1009, spec={"max_message": LIMIT})
    for name, data in {
        "a message of one byte more": binary(b"x" * (LIMIT + 1)),
        "a text of one byte more": text("x" * (LIMIT + 1)),
        "fragments of one byte more": binary(b"x" * LIMIT, False) + continuation(b"x"),
        "only the head of a message that is too large": binary(b"x" * (LIMIT + 1))[:4],
        "only the head of a fragment that makes it too large": binary(b"x" * 999, False) + continuation(b"xx")[:2],
        "8 GiB announced": b"\x82\x7f" + (8 * KIB * MIB).to_bytes(8, "big"),
        "the largest length there is": b"\x81\x7f\x7f" + b"\xff" * 7,
        "a first fragment that is too large": b"\x02\x7f" + (1 << 40).to_bytes(8, "big"),
    }.items()
)


@pytest.mark.parametrize("rule", LARGE)
def test_messages_of_any_size_and_number_come_through_in_order(rule: str) -> None:
    play(LARGE[rule])


@pytest.mark.parametrize("rule", ACCEPTED)
def test_a_message_of_exactly_the_limit_is_delivered(rule: str) -> None:
    play(ACCEPTED[rule])


@pytest.mark.parametrize("rule", REFUSED)
def test_a_message_beyond_the_limit_fails_with_1009_as_soon_as_its_head_tells(rule: str) -> None:
    play(REFUSED[rule])


def test_a_message_is_answered_while_the_next_one_is_under_way() -> None:
    def behave(peer: Peer, stage: Stage) -> None:
        whole = frame(TEXT, b"b" * 300_000)
        peer.raw(text("a") + whole[:150_000])
        stage.heard.append(hear(peer))
        peer.raw(whole[150_000:])
        stage.heard.append(hear(peer))
        peer.close(1000)
        listen_to_the_end(peer, stage)

    assert [each.payload for each in perform(behave, {}).heard[:2]] == [b"a", b"b" * 300_000]
