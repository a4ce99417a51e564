"""RFC 6455, sections 5.5.2 and 5.5.3: pings are answered, also between fragments; pongs are not."""

from __future__ import annotations

import pytest

from tests.feed import CLOSE, PING, PONG, Peer, frame
from tests.rfc6455.script import Scene, Stage, binary, continuation, hear, listen_to_the_end, named, perform, play, text

BURST = 200


def ping(data: bytes = b"") -> bytes:
    return frame(PING, data)


def pong(data: bytes = b"") -> bytes:
    return frame(PONG, data)


VALID = named(
    [
        Scene("5.5.2 a ping without data", [ping()], pongs=[b""]),
        Scene("5.5.2 a ping with text", [ping(b"hello")], pongs=[b"hello"]),
        Scene("5.5.2 a ping that is no UTF-8", [ping(b"\x00\xff\xfe\xfd")], pongs=[b"\x00\xff\xfe\xfd"]),
        Scene("5.5 a ping of 125 bytes", [ping(b"\xfe" * 125)], pongs=[b"\xfe" * 125]),
        Scene("5.5.2 a ping that comes octet by octet", [bytes([octet]) for octet in ping(b"abc" * 30)],
              pongs=[b"abc" * 30]),
        Scene("5.5.3 a pong that nobody asked for", [pong()]),
        Scene("5.5.3 a pong with data that nobody asked for", [pong(b"unasked")]),
        Scene("5.5.3 a pong that nobody asked for, then a ping", [pong(b"unasked") + ping(b"asked")], pongs=[b"asked"]),
        Scene("5.5.3 a pong of 125 bytes", [pong(b"x" * 125)]),
        Scene("5.5.2 a ping between two messages", [text("a") + ping(b"p") + binary(b"b")], ["a", b"b"], [b"p"]),
        Scene("5.4 a ping between the fragments of a text",
              [text("a", fin=False) + ping(b"p"), continuation("b")], ["ab"], [b"p"]),
        Scene("5.4 a ping inside a character that two fragments share",
              [text(b"\xc3", fin=False) + ping(b"p"), continuation(b"\xbc")], ["ü"], [b"p"]),
        Scene("5.4 a pong between the fragments of a binary message",
              [binary(b"a", fin=False) + pong(b"p"), continuation(b"b")], [b"ab"]),
    ]
)  # fmt: skip

INVALID = named(
    [
        *(
            Scene(f"5.5 {kind} of {size} bytes", [frame(opcode, payload(size))], code=1002)
            for kind, opcode, payload in (
                ("a ping", PING, lambda size: b"x" * size),
                ("a pong", PONG, lambda size: b"x" * size),
                ("a close frame", CLOSE, lambda size: b"\x03\xe8" + b"x" * (size - 2)),
            )
            for size in (126, 127, 65_536)
        ),
        *(
            Scene(f"5.5 {kind} in fragments", [frame(opcode, b"\x03\xe8", fin=False) + continuation(b"b")], code=1002)
            for kind, opcode in (("a ping", PING), ("a pong", PONG), ("a close frame", CLOSE))
        ),
        Scene("5.5 a ping in fragments inside a message",
              [text("a", fin=False) + frame(PING, b"p", fin=False) + continuation("b")], code=1002),
        Scene("5.5 a long ping behind a message", [text("a") + ping(b"x" * 126)], ["a"], code=1002),
    ]
)  # fmt: skip


@pytest.mark.parametrize("rule", VALID)
def test_pings_are_answered_with_their_data_and_pongs_are_not(rule: str) -> None:
    play(VALID[rule])


@pytest.mark.parametrize("rule", INVALID)
def test_a_long_or_fragmented_control_frame_fails_the_connection_with_1002(rule: str) -> None:
    play(INVALID[rule])


def test_each_ping_that_waits_for_its_pong_gets_it() -> None:
    def behave(peer: Peer, stage: Stage) -> None:
        for number in range(20):
            peer.raw(ping(str(number).encode()))
            stage.heard.append(hear(peer))
        peer.close(1000)
        listen_to_the_end(peer, stage)

    stage = perform(behave, {})
    assert [(each.opcode, each.payload) for each in stage.heard[:-1]] == [(PONG, b"%d" % n) for n in range(20)]


def test_of_many_pings_at_once_the_last_is_answered_and_none_out_of_order() -> None:
    def behave(peer: Peer, stage: Stage) -> None:
        peer.raw(b"".join(ping(b"%d" % number) for number in range(BURST)))
        while not stage.heard or stage.heard[-1].payload != b"%d" % (BURST - 1):
            stage.heard.append(hear(peer))
        peer.close(1000)
        listen_to_the_end(peer, stage)

    numbers = [int(each.payload) for each in perform(behave, {}).heard if each.opcode == PONG]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == BURST - 1
