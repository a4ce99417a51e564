"""RFC 6455, sections 5.5.1 and 7: the close handshake, its codes and reasons, and what may follow it: nothing."""

from __future__ import annotations

import pytest

from tests.feed import CLOSE, PING, frame
from tests.rfc6455.script import Scene, close, continuation, listen_to_the_end, named, perform, play, text

ALLOWED = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999)
FORBIDDEN = (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535)

ANSWERED = named(
    [
        *(Scene(f"7.4 the code {code}", [close(code)], code=code) for code in ALLOWED),
        *(Scene(f"7.4 the code {code} with a reason", [close(code, "why")], code=code) for code in ALLOWED),
        Scene("7.1.6 a reason of 123 bytes", [close(1000, "x" * 123)], code=1000),
        Scene("7.1.6 a reason of many scripts", [close(1000, "tschüß 日本 🎉")], code=1000),
        Scene("5.5.1 a message, then the closing", [text("a") + close(1000)], ["a"], code=1000),
        Scene("5.5.1 a large message, then the closing", [text("a" * 262_144) + close(1000)],
              ["a" * 262_144], code=1000),
        Scene("5.5.1 two close frames", [close(1000) + close(1001)], code=1000),
        Scene("5.5.1 a ping behind the close frame", [close(1000) + frame(PING, b"late")], code=1000),
        Scene("5.5.1 a message behind the close frame", [close(1000) + text("late")], code=1000),
        Scene("5.5.1 nonsense behind the close frame", [close(3000) + b"\xff" * 5000], code=3000),
        Scene("5.5.1 a close frame between two fragments",
              [text("a", False) + close(1000), continuation("b")], code=1000),
        Scene("5.5.1 a close frame that comes octet by octet", [bytes([octet]) for octet in close(4001, "bye")],
              code=4001),
    ]
)  # fmt: skip

INVALID = named(
    [
        *(Scene(f"7.4 the code {code}", [close(code)], code=1002) for code in FORBIDDEN),
        *(Scene(f"7.4 the code {code} with a reason", [close(code, "why")], code=1002) for code in FORBIDDEN),
        Scene("5.5.1 a close frame of one byte", [frame(CLOSE, b"\x03")], code=1002),
        Scene("5.5.1 a reason of 124 bytes", [close(1000, "x" * 124)], code=1002),
    ]
)

BAD_REASONS = named(
    Scene(f"5.5.1 the reason {reason.hex()}", [close(1000, reason)], code=1007)
    for reason in (b"\xff", b"\xc3", b"\xce\xba\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf")
)


@pytest.mark.parametrize("rule", ANSWERED)
def test_a_close_frame_is_answered_with_its_code_and_nothing_behind_it_counts(rule: str) -> None:
    assert len([each for each in play(ANSWERED[rule]).heard if each.opcode == CLOSE]) == 1


@pytest.mark.parametrize("rule", INVALID)
def test_a_wrong_close_frame_fails_the_connection_with_1002(rule: str) -> None:
    play(INVALID[rule])


@pytest.mark.parametrize("rule", BAD_REASONS)
def test_a_reason_that_is_not_utf8_fails_the_connection_with_1007(rule: str) -> None:
    play(BAD_REASONS[rule])


def test_a_close_frame_without_a_code_is_answered_by_one_without() -> None:
    stage = perform(lambda peer, stage: (peer.raw(frame(CLOSE)), listen_to_the_end(peer, stage)), {})
    assert stage.closing == b""
