"""permessage-deflate: what is agreed on, what is inflated, and every way in which it can be wrong."""

from __future__ import annotations

import itertools
import os
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.child import Child, lines, task
from tests.feed import BINARY, CLOSE, PING, TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, MESSAGES, OPEN
from workers.websocket.deflate import Inflater, agreed
from workers.websocket.frames import Control, Failure, Message, Ping
from workers.websocket.parser import Parser
from workers.websocket.upgrade import Refused

CONTINUATION, RSV1, RSV2 = 0x0, 0x40, 0x20
LIMIT = 100_000
AGREED = "Sec-WebSocket-Extensions: permessage-deflate"


class Deflater:
    """A server's side of it, as RFC 7692 says."""

    def __init__(self, keep: bool = True, bits: int = 15) -> None:
        self._keep, self._bits = keep, bits
        self._zlib = zlib.compressobj(wbits=-bits)

    def __call__(self, data: bytes) -> bytes:
        made = self._zlib.compress(data) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
        if not self._keep:
            self._zlib = zlib.compressobj(wbits=-self._bits)
        return made.removesuffix(b"\0\0\xff\xff")


def compressed(opcode: int, payload: bytes, fin: bool = True) -> bytes:
    return frame(opcode, payload, fin, RSV1)


def parse(
    data: bytes, keep: bool = True, limit: int = LIMIT, cuts: tuple[int, ...] = ()
) -> tuple[list[Message], list[Control], Failure | None]:
    parser = Parser(limit, Inflater(keep))
    messages: list[Message] = []
    controls: list[Control] = []
    failure = None
    for begin, end in itertools.pairwise(sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})):
        parsed = parser.feed(data[begin:end])
        messages += parsed.messages
        controls += parsed.controls
        failure = failure or parsed.failure
    return messages, controls, failure


# --- the examples of RFC 7692, section 7.2.3 ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        (bytes.fromhex("c107f248cdc9c90700"), ["Hello"]),
        (bytes.fromhex("4103f248cd8004c9c90700"), ["Hello"]),
        (bytes.fromhex("c107f248cdc9c90700 c105f200110000"), ["Hello", "Hello"]),
        (bytes.fromhex("c10b000500faff48656c6c6f00"), ["Hello"]),
        (bytes.fromhex("c108f348cdc9c9070000"), ["Hello"]),
        (bytes.fromhex("c10df248050000 00ffff cac9c90700"), ["Hello"]),
    ],
    ids=["one block", "fragments", "shared window", "not compressed", "end block", "two blocks"],
)
def test_the_examples_of_the_rfc_are_read_as_it_says(data: bytes, messages: list[Message]) -> None:
    for cut in range(len(data)):
        assert parse(data, cuts=(cut,)) == (messages, [], None)


def test_messages_go_on_after_one_with_an_end_block() -> None:
    ended = bytes.fromhex("c108f348cdc9c9070000")
    again = compressed(TEXT, Deflater()(b"again"))
    assert parse(ended + ended + again) == (["Hello", "Hello", "again"], [], None)


# --- whatever a server may send -----------------------------------------------------------------------------


@settings(deadline=None)
@given(
    payloads=st.lists(st.one_of(st.text(max_size=300), st.binary(max_size=300)), max_size=6),
    keep=st.booleans(),
    bits=st.integers(9, 15),
    plain=st.sets(st.integers(0, 5)),
    splits=st.lists(st.integers(0, 400), max_size=3),
    cuts=st.lists(st.integers(0, 10_000), max_size=8),
)
def test_any_messages_come_out_as_they_went_in_however_the_stream_is_cut(
    payloads: list[Message], keep: bool, bits: int, plain: set[int], splits: list[int], cuts: list[int]
) -> None:
    """Some of them not compressed, in fragments, with a ping between each two."""
    deflate, data, pings = Deflater(keep, bits), b"", 0
    for number, payload in enumerate(payloads):
        raw = payload.encode() if isinstance(payload, str) else payload
        opcode = TEXT if isinstance(payload, str) else BINARY
        whole, reserved = (raw, 0) if number in plain else (deflate(raw), RSV1)
        edges = sorted({0, len(whole), *(split % (len(whole) + 1) for split in splits)})
        pieces = [whole[a:b] for a, b in itertools.pairwise(edges)] or [b""]
        for index, piece in enumerate(pieces):
            if index:
                data += frame(PING)
                pings += 1
            last = index == len(pieces) - 1
            data += frame(CONTINUATION if index else opcode, piece, last, 0 if index else reserved)
    assert parse(data, keep, cuts=tuple(cuts)) == (payloads, [Ping(b"")] * pings, None)


def test_a_large_message_is_received_into_place_and_inflated() -> None:
    noise = os.urandom(3_000_000)
    data = compressed(BINARY, Deflater()(noise)) + compressed(BINARY, Deflater()(b""))
    assert parse(data, limit=len(noise), cuts=(70_000, 1_000_000)) == ([noise, b""], [], None)


def test_an_empty_message_for_which_nothing_at_all_was_sent_disturbs_none_after_it() -> None:
    deflate = Deflater()
    data = compressed(TEXT, deflate(b"a")) + compressed(TEXT, b"") + compressed(TEXT, deflate(b"aaaa"))
    assert parse(data) == (["a", "", "aaaa"], [], None)


# --- limits -------------------------------------------------------------------------------------------------


def test_a_message_may_be_as_large_as_the_limit_and_not_a_byte_larger_however_small_it_was_sent() -> None:
    fits, bomb = Deflater()(b"x" * LIMIT), Deflater()(b"x" * (LIMIT + 1))
    assert parse(compressed(TEXT, fits)) == (["x" * LIMIT], [], None)
    messages, _, failure = parse(compressed(TEXT, bomb))
    assert not messages
    assert failure is not None
    assert failure.code == 1009


def test_fragments_are_counted_together() -> None:
    whole = Deflater()(b"x" * (LIMIT + 1))
    half = len(whole) // 2
    _, _, failure = parse(compressed(TEXT, whole[:half], fin=False) + frame(CONTINUATION, whole[half:]))
    assert failure is not None
    assert failure.code == 1009


def test_what_does_not_compress_may_be_as_large_as_the_limit_too() -> None:
    noise = os.urandom(LIMIT)
    assert len(Deflater()(noise)) > LIMIT
    assert parse(compressed(BINARY, Deflater()(noise))) == ([noise], [], None)


def test_a_frame_that_no_message_within_the_limit_could_need_is_refused_before_it_is_received() -> None:
    header = frame(BINARY, b"x" * (2 * LIMIT), reserved=RSV1)[:10]
    _, _, failure = parse(header)
    assert failure is not None
    assert failure.code == 1009


def test_of_a_bomb_no_more_is_inflated_than_the_limit() -> None:
    bomb = compressed(BINARY, Deflater()(bytes(100_000_000)))
    tracemalloc.start()
    _, _, failure = parse(bomb, limit=1_000_000)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert failure is not None
    assert failure.code == 1009
    assert peak_bytes < 4_000_000


def test_end_blocks_without_end_are_refused_at_once() -> None:
    _, _, failure = parse(compressed(BINARY, b"\x03\x00" * 40_000))
    assert failure is not None
    assert failure.code == 1007


# --- what is wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (compressed(TEXT, b"\xff\xff\xff\xff"), 1007),
        (compressed(TEXT, b"\xf2\x48\xcd", fin=False) + frame(CONTINUATION, b"\xff\xff\xff\xff\xff"), 1007),
        (compressed(TEXT, Deflater()(b"\xff\xfe")), 1007),
        (compressed(TEXT, Deflater()(b"\xc3"), fin=False) + frame(CONTINUATION), 1007),
        (frame(PING, b"x", reserved=RSV1), 1002),
        (frame(CLOSE, b"", reserved=RSV1), 1002),
        (compressed(TEXT, b"\xf2", fin=False) + frame(CONTINUATION, b"x", reserved=RSV1), 1002),
        (frame(TEXT, b"x", reserved=RSV2), 1002),
        (frame(TEXT, b"x", reserved=RSV1 | RSV2), 1002),
        (frame(0x3, b"x", reserved=RSV1), 1002),
    ],
    ids=[
        *("no deflate", "no deflate in a fragment", "not UTF-8", "not UTF-8 at its end", "ping", "close"),
        *("continuation", "another bit", "two bits", "reserved opcode"),
    ],
)
def test_what_is_wrong_fails_with_the_code_for_it(data: bytes, code: int) -> None:
    good = compressed(TEXT, Deflater()(b"good"))
    messages, _, failure = parse(good + data + good)
    assert messages == ["good"]
    assert failure is not None
    assert failure.code == code


# --- what is agreed on --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "permessage-deflate",
        "permessage-deflate; server_max_window_bits=8",
        'permessage-deflate ;server_max_window_bits = "15"',
        "permessage-deflate; client_no_context_takeover; server_max_window_bits=10",
    ],
)
def test_what_a_server_may_choose_by_itself_is_accepted(answer: str) -> None:
    inflater, deflate = agreed(answer), Deflater(bits=9)
    for text in (b"abcabcabc", b"abcabcabc"):
        assert inflater.inflate(deflate(text), True, LIMIT) == text


def test_a_server_that_starts_each_message_anew_is_understood() -> None:
    inflater, deflate = agreed("permessage-deflate; server_no_context_takeover"), Deflater(keep=False)
    for text in (b"abcabcabc", b"abcabcabc"):
        assert inflater.inflate(deflate(text), True, LIMIT) == text


NOT_OFFERED = [
    "x-webkit-deflate-frame",
    "permessage-bzip2",
    "permessage-deflate, permessage-deflate",
    "permessage-deflate; client_max_window_bits",
    "permessage-deflate; client_max_window_bits=15",
    "permessage-deflate; server_max_window_bits",
    "permessage-deflate; server_max_window_bits=",
    "permessage-deflate; server_max_window_bits=7",
    "permessage-deflate; server_max_window_bits=16",
    "permessage-deflate; server_max_window_bits=010",
    "permessage-deflate; server_max_window_bits=10; server_max_window_bits=10",
    "permessage-deflate; server_no_context_takeover=1",
    "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
    "permessage-deflate; level=9",
    "permessage-deflate;",
]


@pytest.mark.parametrize("answer", NOT_OFFERED)
def test_what_was_not_offered_is_refused(answer: str) -> None:
    with pytest.raises(Refused) as refused:
        agreed(answer)
    assert refused.value.close_code == 1010
    assert refused.value.refusal.permanent


@pytest.mark.parametrize(
    ("answer", "compression"),
    [(AGREED, "off"), (f"{AGREED}; level=9", "deflate"), (f"{AGREED}\r\n{AGREED}", "deflate")],
)
def test_a_server_that_agrees_to_what_was_not_offered_is_told_so(answer: str, compression: str) -> None:
    def behave(peer: Peer) -> None:
        peer.accept(answer)
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, compression=compression, reconnect_max_ms=60_000)) as child:
        closed = until(lambda: child.log("connection.closed"), 5)[0]
        assert closed["permanent"] is True
        assert "the server agreed to" in closed["reason"]
        until(lambda: feed.close_codes == [1010], 5)
    assert child.words[CONNECTS] == 0


def test_compression_is_offered_only_where_it_is_configured() -> None:
    offers = []

    def behave(peer: Peer) -> None:
        offers.append(peer.headers.get("sec-websocket-extensions"))
        peer.accept()
        peer.serve()

    with Feed(behave) as feed:
        for compression in ("off", "deflate"):
            with Child(task(feed.url, compression=compression)) as child:
                child.word(OPEN, 1)
    assert offers == [None, "permessage-deflate"]


# --- a whole child ------------------------------------------------------------------------------------------


def test_a_bomb_closes_the_connection_with_1009_and_the_next_one_is_good() -> None:
    def behave(peer: Peer) -> None:
        peer.accept(AGREED)
        if peer.number == 0:
            peer.raw(compressed(TEXT, Deflater()(b"x" * 10_000_000)))
        else:
            peer.raw(compressed(TEXT, Deflater()(b"good")))
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, compression="deflate", max_message=1_000_000)) as child:
        child.word(MESSAGES, 1)
        assert feed.close_codes == [1009]


def test_a_server_that_does_not_compress_is_read_all_the_same() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text("plain")
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, compression="deflate")) as child:
        child.word(MESSAGES, 1)


@pytest.fixture(params=[{}, {"server_no_context_takeover": True}, {"server_max_window_bits": 10}])
def real_server(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[Message], list[Message]]]:
    """One of the `websockets` library: its url, what it sends to each client, and what it gets from all."""
    from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
    from websockets.sync.server import ServerConnection, serve

    said: list[Message] = ["", "hello " * 10_000, b"\0" * 100_000, "ünïcode ✓", "", "", os.urandom(50_000), "end"]
    heard: list[Message] = []

    def talk(connection: ServerConnection) -> None:
        for message in said:
            connection.send(message)
        connection.send(iter(["frag", "men", "ted"]))
        heard.extend(connection)

    with serve(
        talk, "127.0.0.1", 0, extensions=[ServerPerMessageDeflateFactory(**request.param)], compression=None
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}", [*said, "fragmented"], heard
        server.shutdown()
        thread.join()


def test_a_real_server_that_compresses_is_understood_and_understands_us(real_server: Any, tmp_path: Path) -> None:
    url, said, heard = real_server
    events = tmp_path / "events.jsonl"
    with Child(task(url, compression="deflate", subscribe=("from us",), sink=f"jsonl:{events}")) as child:
        child.word(MESSAGES, len(said))
        until(lambda: heard == ["from us"], 5)
    texts = [line["data"] for line in lines(events) if "data" in line]
    assert texts == [message for message in said if isinstance(message, str)]
