"""The frame parser against a reference encoder: any valid stream however cut, and every way to be invalid."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.feed import BINARY, CLOSE, PING, PONG, TEXT, frame
from workers.websocket.frames import NO_CODE, READ_BYTES, Close, Control, Failure, Message, Ping, Pong
from workers.websocket.parser import Parser

CONTINUATION = 0x0
LIMIT = 1024 * 1024


@dataclass(frozen=True)
class Stream:
    data: bytes
    messages: list[Message]
    controls: list[Control]


def parse(data: bytes, cuts: list[int], limit: int = LIMIT) -> tuple[list[Message], list[Control], Failure | None, int]:
    """Everything that comes out, with the stream cut at `cuts`, as a socket would hand it over."""
    parser = Parser(limit)
    messages: list[Message] = []
    controls: list[Control] = []
    failures: list[Failure] = []
    size = 0
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in itertools.pairwise(edges):
        parsed = parser.feed(data[begin:end])
        messages += parsed.messages
        controls += parsed.controls
        size += parsed.size
        failures += [parsed.failure] if parsed.failure else []
    assert len(failures) <= 1
    return messages, controls, failures[0] if failures else None, size


@st.composite
def fragmented(draw: st.DrawFn, opcode: int, payload: bytes) -> tuple[bytes, list[Control]]:
    """One message in fragments, with control frames between them."""
    cuts = sorted(draw(st.lists(st.integers(0, len(payload)), max_size=4)))
    pieces = [payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
    data, controls = b"", []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        data += frame(opcode if number == 0 else CONTINUATION, piece, fin=last)
        if not last and draw(st.booleans()):
            body = draw(st.binary(max_size=125))
            kind = draw(st.sampled_from([(PING, Ping), (PONG, Pong)]))
            data += frame(kind[0], body)
            controls.append(kind[1](body))
    return data, controls


sizes = st.one_of(st.integers(0, 300), st.sampled_from([125, 126, 127, 65_535, 65_536, READ_BYTES, READ_BYTES + 5]))


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    data, messages, controls = b"", [], []
    for _ in range(draw(st.integers(0, 8))):
        size = draw(sizes)
        message: Message
        if draw(st.booleans()):
            text = draw(st.text(min_size=1, max_size=20))
            message = (text * (size // len(text) + 1))[:size]
            opcode, payload = TEXT, message.encode()
        else:
            message = payload = draw(st.binary(min_size=1, max_size=20)) * (size // 4)
            opcode = BINARY
        piece, between = draw(fragmented(opcode, payload))
        data += piece
        controls += between
        messages.append(message)
    return Stream(data, messages, controls)


@given(streams(), st.lists(st.integers(0, 10_000_000), max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_valid_stream_gives_the_same_messages_wherever_it_is_cut(stream: Stream, cuts: list[int]) -> None:
    messages, controls, failure, size = parse(stream.data, cuts)
    assert failure is None
    assert messages == stream.messages
    assert controls == stream.controls
    assert size == sum(len(m.encode() if isinstance(m, str) else m) for m in stream.messages)


def test_a_stream_read_byte_by_byte_gives_the_same_messages() -> None:
    data = frame(TEXT, "grüße".encode()) + frame(PING, b"p") + frame(BINARY, b"x" * 200) + frame(TEXT, b"")
    assert parse(data, list(range(len(data))))[:2] == (["grüße", b"x" * 200, ""], [Ping(b"p")])


INVALID = {
    "masked": (frame(TEXT, b"abc", masked=True), 1002),
    "reserved bit 1": (frame(TEXT, b"abc", reserved=0x40), 1002),
    "reserved bit 2": (frame(TEXT, b"abc", reserved=0x20), 1002),
    "reserved bit 3 of a ping": (frame(PING, b"abc", reserved=0x10), 1002),
    **{f"reserved opcode {code}": (frame(code, b""), 1002) for code in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "fragmented ping": (frame(PING, b"abc", fin=False), 1002),
    "long ping": (frame(PING, b"x" * 126), 1002),
    "long close": (frame(CLOSE, b"\x03\xe8" + b"x" * 124), 1002),
    "continuation of nothing": (frame(CONTINUATION, b"abc"), 1002),
    "continuation after a whole message": (frame(TEXT, b"a") + frame(CONTINUATION, b"abc"), 1002),
    "text inside a fragmented message": (frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), 1002),
    "binary inside a fragmented message": (frame(TEXT, b"a", fin=False) + frame(BINARY, b"b", fin=False), 1002),
    "length 125 in 16 bits": (b"\x81\x7e\x00\x7d" + b"x" * 125, 1002),
    "length 65535 in 64 bits": (b"\x81\x7f" + (65_535).to_bytes(8, "big") + b"x" * 65_535, 1002),
    "length with the top bit": (b"\x82\x7f\x80" + b"\0" * 7, 1002),
    "close of one byte": (frame(CLOSE, b"\x03"), 1002),
    **{
        f"close code {code}": (frame(CLOSE, code.to_bytes(2, "big")), 1002)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65_535)
    },
    "close reason not UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    "text not UTF-8": (frame(TEXT, b"\xff"), 1007),
    "text cut inside a character": (frame(TEXT, "é".encode()[:1]), 1007),
    "text with a surrogate": (frame(TEXT, b"\xed\xa0\x80"), 1007),
    "overlong text": (frame(TEXT, b"\xc0\xaf"), 1007),
    "text beyond Unicode": (frame(TEXT, b"\xf4\x90\x80\x80"), 1007),
    "large text not UTF-8": (frame(TEXT, b"a" * READ_BYTES + b"\xff"), 1007),
    "second fragment not UTF-8": (frame(TEXT, b"a", fin=False) + frame(CONTINUATION, b"\xff", fin=False), 1007),
    "last fragment cut inside a character": (frame(TEXT, b"a", fin=False) + frame(CONTINUATION, b"\xc3"), 1007),
    "message beyond the limit": (frame(BINARY, b"x" * (LIMIT + 1)), 1009),
    "8 GiB announced": (b"\x82\x7f" + (8 * 1024**3).to_bytes(8, "big"), 1009),
    "fragments beyond the limit": (frame(BINARY, b"x" * LIMIT, fin=False) + frame(CONTINUATION, b"x"), 1009),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_stream_fails_with_the_right_code_after_its_valid_part(name: str) -> None:
    data, code = INVALID[name]
    valid = frame(TEXT, b"one") + frame(PING, b"p") + frame(BINARY, b"two")
    for cuts in ([], [1], [len(valid)], [len(valid) + 1, len(valid) + 2], [-1], list(range(60))):
        messages, controls, failure, _ = parse(valid + data, cuts)
        assert messages[:2] == ["one", b"two"]
        assert controls == [Ping(b"p")]
        assert failure is not None, cuts
        assert failure.code == code


@pytest.mark.parametrize("head", [b"\x81\x83", b"\xc1\x03", b"\x83\x03", b"\x09\x03", b"\x89\x7e", b"\x80\x03"])
def test_a_forbidden_head_fails_before_any_more_of_the_frame_is_awaited(head: bytes) -> None:
    failure = Parser(LIMIT).feed(head).failure
    assert failure is not None
    assert failure.code == 1002


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
@settings(max_examples=300, deadline=None)
def test_garbage_gives_the_same_wherever_it_is_cut_and_never_raises(data: bytes, cuts: list[int]) -> None:
    whole, pieces = parse(data, []), parse(data, cuts)
    assert whole[0] == pieces[0][: len(whole[0])]
    assert (whole[2] is None) == (pieces[2] is None)


def test_an_oversized_frame_is_refused_before_any_of_it_is_kept() -> None:
    parser = Parser(1000)
    parsed = parser.feed(b"\x82\x7e\x03\xe9" + b"x" * 10)
    assert parsed.failure is not None
    assert parsed.failure.code == 1009
    assert not parser.begun


def test_a_message_of_exactly_the_limit_is_accepted() -> None:
    assert parse(frame(BINARY, b"x" * 1000), [500], limit=1000)[0] == [b"x" * 1000]


def test_a_large_frame_takes_memory_as_it_comes_and_becomes_the_message_without_a_copy() -> None:
    size = 16 * 1024 * 1024
    data = frame(BINARY, b"x" * size)
    parser = Parser(size)
    tracemalloc.start()
    try:
        parser.feed(data[:1000])
        assert tracemalloc.get_traced_memory()[1] < 10_000
        for at in range(1000, len(data), READ_BYTES):
            messages = parser.feed(data[at : at + READ_BYTES]).messages
        assert tracemalloc.get_traced_memory()[1] < 1.2 * size
    finally:
        tracemalloc.stop()
    assert [len(message) for message in messages] == [size]


@pytest.mark.parametrize("surrogate", [b"\xed\xa0", b"\xed\xbf"])
def test_half_a_surrogate_at_the_end_of_a_fragment_fails_at_once(surrogate: bytes) -> None:
    failure = Parser(LIMIT).feed(frame(TEXT, b"a" + surrogate, fin=False)).failure
    assert failure is not None
    assert failure.code == 1007


def test_input_after_a_close_frame_is_ignored() -> None:
    data = frame(CLOSE, (3001).to_bytes(2, "big") + b"bye") + frame(TEXT, b"late") + b"\xff\xff"
    assert parse(data, []) == ([], [Close(3001, "bye")], None, 0)


@pytest.mark.parametrize("late", [frame(TEXT, b"late"), frame(TEXT, b"\xff")])
@pytest.mark.parametrize("cut", [1, 2, 3, 6])
def test_input_after_a_close_frame_is_ignored_also_where_a_read_ended_inside_it(cut: int, late: bytes) -> None:
    data = frame(CLOSE, (3001).to_bytes(2, "big") + b"bye") + late
    assert parse(data, [cut]) == ([], [Close(3001, "bye")], None, 0)


def test_a_close_frame_without_a_code_is_told_as_such() -> None:
    assert parse(frame(CLOSE), [])[1] == [Close(NO_CODE, "")]


def test_input_after_a_failure_is_ignored() -> None:
    parser = Parser(LIMIT)
    assert parser.feed(frame(TEXT, b"\xff")).failure is not None
    parsed = parser.feed(frame(TEXT, b"fine"))
    assert (parsed.messages, parsed.failure) == ([], None)


def test_the_end_of_a_frame_tells_that_it_advanced() -> None:
    parser = Parser(LIMIT)
    data = frame(TEXT, b"abcdef")
    assert not parser.feed(data[:4]).advanced
    assert parser.begun
    assert not parser.feed(data[4:5]).advanced
    assert parser.feed(data[5:]).advanced
    assert not parser.begun


def test_empty_fragments_without_end_keep_nothing() -> None:
    parser = Parser(LIMIT)
    parser.feed(frame(BINARY, b"", fin=False))
    for _ in range(1000):
        parser.feed(frame(CONTINUATION, b"", fin=False))
    assert parser.feed(frame(CONTINUATION, b"end")).messages == [b"end"]


def test_a_limit_below_that_of_a_control_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="max_message"):
        Parser(124)
