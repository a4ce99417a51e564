"""RFC 6455, section 4: what the request must hold, and which answers are none."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable

import pytest

from tests.child import Child, task
from tests.feed import Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, MESSAGES, OPEN

AGREED = {"Upgrade": "websocket", "Connection": "Upgrade"}
Answer = Callable[[Peer], str]


def accept_of(peer: Peer) -> str:
    return peer.upgrade().decode().partition("Sec-WebSocket-Accept: ")[2].split("\r\n")[0]


def answer(
    *lines: str, status: str = "101 Switching Protocols", accept: Answer = accept_of, **headers: str | None
) -> Answer:
    """The good answer, but for what is said here; a header that is None is left out."""

    def text(peer: Peer) -> str:
        told = {**AGREED, "Sec-WebSocket-Accept": accept(peer), **headers}
        shown = [f"{name}: {value}" for name, value in told.items() if value is not None]
        return "\r\n".join([f"HTTP/1.1 {status}", *shown, *lines, "", ""])

    return text


def interim(status: str) -> Answer:
    """RFC 9110, section 15.2: any number of them may come first."""
    return lambda peer: f"HTTP/1.1 {status}\r\nLink: </x>\r\n\r\n" * 3 + answer()(peer)


def without(name: str) -> Answer:
    return answer(**{name: None})


def with_(name: str, value: str) -> Answer:
    return answer(**{name: value})


GOOD = {
    "4.2.2 the shortest answer": answer(),
    "4.1 the value of Upgrade in another case": with_("Upgrade", "WebSocket"),
    "4.1 the value of Connection in another case": with_("Connection", "upgrade"),
    "4.1 Connection as a list": with_("Connection", "keep-alive, Upgrade"),
    "4.1 Connection as a list on two lines": answer("Connection: Upgrade", Connection="keep-alive"),
    "4.1 names of headers in another case": lambda peer: (
        answer()(peer).replace("Upgrade:", "UPGRADE:").replace("Sec-WebSocket-Accept", "sec-websocket-accept")
    ),
    "4.1 white space around the digest": answer(accept=lambda peer: f" \t{accept_of(peer)} "),
    "4.1 no white space behind the colon": lambda peer: answer()(peer).replace(": ", ":"),
    "4.1 headers that mean nothing to us": answer("Server: x", "Date: Thu, 01 Jan 2026 00:00:00 GMT", "X-A: b: c"),
    "4.1 another reason phrase": answer(status="101 Web Socket Protocol Handshake"),
    **{f"4.1 {status} before it": interim(status) for status in ("100 Continue", "102 Processing", "103 Early Hints")},
    "4.1 the protocol that was offered": answer("Sec-WebSocket-Protocol: chat.v2"),
}

BAD = {
    "4.1 no Upgrade": without("Upgrade"),
    "4.1 another Upgrade": with_("Upgrade", "h2c"),
    "4.1 no Connection": without("Connection"),
    "4.1 another Connection": with_("Connection", "keep-alive"),
    "4.1 a Connection that only resembles it": with_("Connection", "upgraded"),
    "4.1 no digest": without("Sec-WebSocket-Accept"),
    "4.1 an empty digest": with_("Sec-WebSocket-Accept", ""),
    "4.1 the key instead of its digest": answer(accept=lambda peer: peer.headers["sec-websocket-key"]),
    "4.1 the digest of another key": with_("Sec-WebSocket-Accept", base64.b64encode(b"x" * 20).decode()),
    "4.1 the digest in another case": answer(accept=lambda peer: accept_of(peer).swapcase()),
    "4.1 an extension that nobody asked for": answer("Sec-WebSocket-Extensions: permessage-deflate"),
    "4.1 an unknown extension": answer("Sec-WebSocket-Extensions: foo"),
    "4.1 a protocol that nobody offered": answer("Sec-WebSocket-Protocol: superchat"),
    **{
        f"4.1 status {status}": answer(status=status)
        for status in (
            "200 OK",
            "204 No Content",
            "400 Bad Request",
            "426 Upgrade Required",
            "500 Oops",
        )
    },
    **{
        f"4.1 a redirect, {status}": answer("Location: /elsewhere", status=status)
        for status in ("301 A", "302 B", "307 C")
    },
    "4.1 no HTTP at all": lambda peer: "SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "4.1 a status that is no number": answer(status="one-oh-one"),
    "4.1 a status with a zero in front": answer(status="0101 Switching"),
    "4.1 a status of thousands of digits": answer(status="1" * 6000),
    "4.1 an older HTTP": lambda peer: answer()(peer).replace("HTTP/1.1", "HTTP/1.0"),
    "4.1 no version": lambda peer: answer()(peer).replace("HTTP/1.1", "HTTP/banana"),
    "4.1 two digests": answer("Sec-WebSocket-Accept: " + base64.b64encode(b"x" * 20).decode()),
    "4.1 two digests, the right one last": lambda peer: answer(
        f"Sec-WebSocket-Accept: {accept_of(peer)}", accept=lambda _: base64.b64encode(b"x" * 20).decode()
    )(peer),
    "4.1 white space before a colon": lambda peer: answer()(peer).replace("Upgrade:", "Upgrade :"),
}

SPEC = {"headers": (("Sec-WebSocket-Protocol", "chat.v1, chat.v2"),)}


@pytest.mark.parametrize("rule", GOOD)
def test_an_answer_that_agrees_opens_the_connection_and_frames_right_behind_it_count(rule: str) -> None:
    def behave(peer: Peer) -> None:
        peer.raw(GOOD[rule](peer).encode() + frame(0x1, b"first"))
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, **SPEC)) as child:
        child.word(MESSAGES, 1)
        assert child.words[OPEN] == 1


@pytest.mark.parametrize("rule", BAD)
def test_an_answer_that_does_not_agree_fails_the_attempt_and_nothing_behind_it_is_taken(rule: str) -> None:
    def behave(peer: Peer) -> None:
        peer.raw(BAD[rule](peer).encode() + frame(0x1, b"first"))
        with contextlib.suppress(ConnectionError):
            peer.sock.recv(1)

    with Feed(behave) as feed, Child(task(feed.url, reconnect_max_ms=60_000, reconnect_min_ms=60_000, **SPEC)) as child:
        assert until(lambda: child.log("connection.closed"), 5, 0.002)[0]["reason"]
        assert (child.words[CONNECTS], child.words[MESSAGES]) == (0, 0)
        assert {connect.path for connect in feed.connects} == {"/"}


def test_each_request_is_what_section_4_1_asks_for_with_a_key_of_its_own() -> None:
    def behave(peer: Peer) -> None:
        if peer.number < 9:
            peer.refuse(503)
        else:
            peer.accept()
            peer.serve()

    spec = {"reconnect_min_ms": 1, "reconnect_max_ms": 1, **SPEC}
    with Feed(behave) as feed, Child(task(f"{feed.url}/path?a=b", **spec)) as child:
        child.word(CONNECTS, 1)
        place = f"127.0.0.1:{feed.port}"
    keys = [connect.headers["sec-websocket-key"] for connect in feed.connects]
    assert len(set(keys)) == len(keys) == 10
    assert {len(base64.b64decode(key, validate=True)) for key in keys} == {16}
    for connect in feed.connects:
        assert connect.path == "/path?a=b"
        assert connect.headers["host"] == place
        assert connect.headers["upgrade"].lower() == "websocket"
        assert connect.headers["connection"].lower() == "upgrade"
        assert connect.headers["sec-websocket-version"] == "13"
        assert "origin" not in connect.headers
        assert "sec-websocket-extensions" not in connect.headers


def test_no_frame_is_sent_before_the_answer_has_come() -> None:
    early: list[bytes] = []

    def behave(peer: Peer) -> None:
        peer.sock.settimeout(0.1)
        with contextlib.suppress(TimeoutError):
            early.append(peer.sock.recv(1))
        peer.sock.settimeout(None)
        peer.accept()
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, subscribe=("hello",))) as child:
        child.word(CONNECTS, 1)
        until(lambda: feed.texts, 5)
    assert early == []
    assert feed.texts[0] == (0, "hello")
