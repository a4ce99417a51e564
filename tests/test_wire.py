from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from workers.process.wire import (
    TEXT_MAX_CHARS,
    Began,
    Ended,
    Failed,
    Garbled,
    Message,
    Preparation,
    Prepare,
    Ready,
    Start,
    Warned,
    from_memory,
    in_memory,
    receive,
    send,
)
from workers.websocket.tls import Profile

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    "message",
    [
        Prepare(),
        Start(4095, 2**62, 5000),
        Ready(),
        Warned("😀" * TEXT_MAX_CHARS),
        Began(1, 2, 3),
        Failed(1, 2, "fork failed"),
        Failed(1, 2, "a\0b\n"),
        Warned(""),
        Ended(1, 2, 3, -9),
    ],
)
def test_a_message_comes_out_as_it_went_in(pair: Pair, message: Message) -> None:
    send(pair[0], message)
    assert receive(pair[1]) == (message, None)


def test_a_file_of_any_size_travels_beside_a_message_and_is_not_inherited(pair: Pair) -> None:
    content = os.urandom(1_000_000)
    fd = in_memory(content, "test")
    send(pair[0], Prepare(), fd)
    os.close(fd)
    received = receive(pair[1])
    assert received is not None
    assert received[1] is not None
    assert not os.get_inheritable(received[1])
    before = _open_files()
    assert from_memory(received[1]) == content
    assert _open_files() == before - 1


def test_a_preparation_comes_out_as_it_went_in() -> None:
    wanted = Preparation(("/a.py:A", "b:B"), (Profile(), Profile("/ca.pem", stamp="1.2.3")), ("/x",), "/etc")
    assert Preparation.from_json(wanted.to_json()) == wanted


def test_nothing_to_read_and_nobody_there_are_told_apart(pair: Pair) -> None:
    with pytest.raises(BlockingIOError):
        receive(pair[1])
    send(pair[0], Ready())
    pair[0].close()
    assert receive(pair[1]) == (Ready(), None)
    assert receive(pair[1]) is None


@pytest.mark.parametrize(
    "packet",
    [
        b"{",
        b"1",
        b"\xff",
        b"\0",
        b"Reboot",
        b"Start",
        b"Start\x001\x002",
        b"Start\x001\x002\x00x",
        b"Start\x001\x002\x003\x004",
    ],
)
def test_what_is_no_message_is_refused_and_its_file_closed(pair: Pair, packet: bytes) -> None:
    before = _open_files()
    socket.send_fds(pair[0], [packet], [0])
    with pytest.raises(Garbled, match="none of Prepare, Start"):
        receive(pair[1])
    assert _open_files() == before


def test_a_message_longer_than_any_is_refused_and_its_file_closed(pair: Pair) -> None:
    before = _open_files()
    socket.send_fds(pair[0], [b" " * 20_000], [0])
    with pytest.raises(Garbled, match="more than 16384 bytes"):
        receive(pair[1])
    assert _open_files() == before
