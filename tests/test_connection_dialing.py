"""What an attempt asks for, where it goes, what it refuses: requests, redirects, cookies, proxies, TLS, resolvers."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.child import Child, task
from tests.feed import TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, MESSAGES, OPEN
from workers.handler import Connection, Handler, Message
from workers.stream.target import Target, shown
from workers.websocket import route, tls
from workers.websocket.attempt import Attempt
from workers.websocket.dial import Opened

CERTIFICATE = str(Path(__file__).with_name("certificate.pem"))  # for 127.0.0.1 and localhost, signed by itself


def good(peer: Peer) -> None:
    peer.accept()
    peer.serve()


def cut_after_subscriptions(count: int, cuts: int) -> Callable[[Peer], None]:
    """Accept, take `count` messages, hang up; after so many cuts, stay."""

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve(messages=count)
        if len(peer.feed.connects) > cuts:
            peer.serve()

    return behave


def reason_of_refusal(child: Child) -> str:
    reason: str = until(lambda: child.log("connection.closed"), 5)[0]["reason"]
    return reason


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


# --- evaluated at each attempt ------------------------------------------------------------------------------


def test_after_each_of_ten_cuts_the_server_sees_the_full_set_of_subscriptions_in_order_once() -> None:
    subscribe = tuple(f'{{"op": "subscribe", "number": {number}}}' for number in range(20))
    with (
        Feed(cut_after_subscriptions(20, cuts=10)) as feed,
        Child(task(feed.url, subscribe=subscribe)) as child,
    ):
        child.word(CONNECTS, 11)
        until(lambda: len(feed.texts) >= 11 * 20, 5)
    for number in range(11):
        assert [text for peer, text in feed.texts if peer == number] == list(subscribe)


def test_url_headers_and_subscriptions_are_evaluated_at_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNT", "a1")
    token = tmp_path / "token"
    token.write_text("one\n")
    changed = threading.Event()

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve(messages=1)
        if len(peer.feed.connects) == 1:
            token.write_text('t"wo\n')
            changed.wait(5)
        else:
            peer.serve()

    spec = {
        "headers": (("Authorization", "Bearer ${file:token}"), ("X-Epoch", "${epoch}")),
        "subscribe": ('{"token": "${file:token}", "index": "${index}"}',),
    }
    with (
        Feed(behave) as feed,
        Child(task(feed.url + "/${shard}/${connection}?a=${env:ACCOUNT}", epoch=12, base=str(tmp_path), **spec)),
    ):
        until(lambda: len(feed.texts) >= 1, 5)
        monkeypatch.setenv("ACCOUNT", "a2")
        changed.set()
        until(lambda: len(feed.texts) >= 2, 5)
    assert [connect.path for connect in feed.connects] == ["/trades/7/0?a=a1", "/trades/7/0?a=a2"]
    assert [text for _, text in feed.texts] == [
        '{"token": "one", "index": "7"}',
        '{"token": "t\\"wo", "index": "7"}',
    ]
    assert [connect.headers["authorization"] for connect in feed.connects] == ["Bearer one", 'Bearer t"wo']
    assert {connect.headers["x-epoch"] for connect in feed.connects} == {"12"}


def test_the_committed_checkpoint_is_what_an_attempt_inserts() -> None:
    with Feed(cut_after_subscriptions(1, cuts=1)) as feed:
        child = Child(task(feed.url, subscribe=("from ${checkpoint:-0}",), checkpoint="41"))
        with child:
            until(lambda: len(feed.texts) >= 2, 5)
            child.slot.write_checkpoint("42")
    assert feed.texts[0][1] == "from 41"


def test_a_missing_file_is_told_and_tried_again(tmp_path: Path) -> None:
    with (
        Feed(good) as feed,
        Child(task(feed.url, headers=(("X-Token", "${file:token}"),), base=str(tmp_path))) as child,
    ):
        assert "${file:token} cannot be read" in reason_of_refusal(child)
        assert not feed.connects
        (tmp_path / "token").write_text("here")
        child.word(OPEN, 1)
    assert feed.connects[0].headers["x-token"] == "here"


# --- the request --------------------------------------------------------------------------------------------


def test_the_request_carries_what_is_configured_and_no_origin() -> None:
    headers = (("X-One", "1"), ("Host", "feed.example"), ("Sec-WebSocket-Protocol", "v2, v1"))

    def behave(peer: Peer) -> None:
        peer.accept("Sec-WebSocket-Protocol: v1")
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url + "/path?query=1", headers=headers)) as child:
        child.word(OPEN, 1)
    request = feed.connects[0]
    assert request.path == "/path?query=1"
    assert request.headers["host"] == "feed.example"
    assert request.headers["x-one"] == "1"
    assert "origin" not in request.headers
    assert "sec-websocket-extensions" not in request.headers


@pytest.fixture
def everything_is_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names are resolved to this machine; which ones were asked for."""
    names: list[str] = []

    def resolved(host: bytes, *rest: Any) -> Any:
        names.append(host.decode())
        return socket.getaddrinfo("127.0.0.1", *rest)

    monkeypatch.setattr(route, "getaddrinfo", resolved)
    return names


@pytest.mark.parametrize("secure", [False, True])
def test_a_name_of_other_than_ascii_letters_goes_out_as_its_a_label(
    everything_is_here: list[str], server_tls: ssl.SSLContext, secure: bool
) -> None:
    shown_names: list[str | None] = []
    server_tls.sni_callback = lambda sock, name, context: shown_names.append(name)
    with Feed(good, server_tls if secure else None) as feed:
        child = Child(task(f"{'wss' if secure else 'ws'}://Bücher.example:{feed.port}/", tls_ca=CERTIFICATE))
        with child:
            if secure:
                assert reason_of_refusal(child).startswith("the certificate of xn--bcher-kva.example is refused")
            else:
                child.word(OPEN, 1)
                assert feed.connects[0].headers["host"] == f"xn--bcher-kva.example:{feed.port}"
    assert set(everything_is_here) == {"xn--bcher-kva.example"}
    assert set(shown_names) == ({"xn--bcher-kva.example"} if secure else set())


def test_a_name_that_can_be_none_is_a_permanent_refusal() -> None:
    with Child(task(f"ws://{'ü' * 64}.example/")) as child:
        assert reason_of_refusal(child) == f"{'ü' * 64}.example is no name of a host"
        assert child.log("connection.closed")[0]["permanent"] is True


def test_user_and_password_of_a_url_become_basic_authorization_and_stay_out_of_the_log() -> None:
    with Feed(good) as feed:
        url = feed.url.replace("ws://", "ws://us%40er:s3cret@") + "/p?token=qu3ry"
        with Child(task(url)) as child:
            child.word(OPEN, 1)
    expected = base64.b64encode(b"us@er:s3cret").decode()
    assert feed.connects[0].headers["authorization"] == f"Basic {expected}"
    for secret in ("s3cret", "us%40er", "qu3ry"):
        assert secret not in child.log_text()


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ((("Sec-WebSocket-Extensions", "permessage-deflate"),), "asks for an extension"),
        ((("X-Token", "a\r\nX-Evil: 1"),), "line break"),
        ((("Upgrade", "h2c"),), "belongs to the upgrade"),
        ((("X-Token", "secret\udce9"),), "the url or a header holds bytes that are no UTF-8"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_with_a_sentence(
    headers: tuple[tuple[str, str], ...], sentence: str
) -> None:
    with Feed(good) as feed, Child(task(feed.url, headers=headers)) as child:
        assert sentence in reason_of_refusal(child)
        assert child.log("connection.closed")[0]["permanent"] is True
    assert feed.accepted == 0


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "ws://", "ws://127.0.0.1:99999/", "ws://127.0.0.1/a b", "${shard}"]
)
def test_a_url_that_is_none_is_refused_with_a_sentence(url: str) -> None:
    with Child(task(url)) as child:
        assert reason_of_refusal(child).startswith("the url")


# --- what a server must not do ------------------------------------------------------------------------------


def test_redirects_are_not_followed_so_that_no_header_reaches_another_origin() -> None:
    with Feed(good) as other:
        with (
            Feed(lambda peer: peer.refuse(302, f"Location: {other.url}/")) as feed,
            Child(task(feed.url, headers=(("Authorization", "Bearer secret"),))) as child,
        ):
            until(lambda: len(feed.connects) >= 3, 5)
            assert "redirects are not followed" in reason_of_refusal(child)
        assert other.accepted == 0


def test_no_cookie_of_a_server_is_sent_to_anybody() -> None:
    def behave(peer: Peer) -> None:
        peer.accept("Set-Cookie: session=s3cret; Domain=127.0.0.1; Path=/", "set-cookie: b=c")
        if len(peer.feed.connects) > 3:
            peer.serve()

    with Feed(behave) as feed, Child(task(feed.url + "/a", feed.url + "/b")) as child:
        child.word(CONNECTS, 4)
    assert all("cookie" not in connect.headers for connect in feed.connects)


def test_an_extension_that_nobody_asked_for_is_refused() -> None:
    with (
        Feed(lambda peer: peer.accept("Sec-WebSocket-Extensions: permessage-deflate")) as feed,
        Child(task(feed.url)) as child,
    ):
        assert "extension" in reason_of_refusal(child)


def test_a_wrong_accept_key_is_refused() -> None:
    def behave(peer: Peer) -> None:
        peer.headers["sec-websocket-key"] = "another"
        peer.accept()
        peer.wait_for_end()

    with Feed(behave) as feed, Child(task(feed.url)) as child:
        assert "upgrade failed" in reason_of_refusal(child)
        assert child.words[CONNECTS] == 0


def endless_header(peer: Peer) -> None:
    peer.raw(b"HTTP/1.1 101 Switching Protocols\r\n")
    while True:
        peer.raw(b"X-Filler: " + b"x" * 10_000 + b"\r\n")


def endless_line(peer: Peer) -> None:
    while True:
        peer.raw(b"x" * 10_000)


@pytest.mark.parametrize("behave", [endless_header, endless_line])
def test_an_answer_without_end_is_cut_off(behave: Callable[[Peer], None]) -> None:
    with Feed(behave) as feed, Child(task(feed.url)) as child:
        assert "header has more than" in reason_of_refusal(child)


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n\r\n", b"\r\n\r\n", b"HTTP/1.1\r\n\r\n", b"\xff\xfe\r\n\r\n"])
def test_an_answer_that_is_no_http_is_refused(answer: bytes) -> None:
    with Feed(lambda peer: peer.raw(answer)) as feed, Child(task(feed.url)) as child:
        assert "does not speak HTTP" in reason_of_refusal(child)


def test_a_body_of_a_refusal_is_not_read() -> None:
    with (
        Feed(
            lambda peer: peer.raw(b"HTTP/1.1 503 Busy\r\nContent-Length: 8589934592\r\n\r\n" + b"x" * 100_000)
        ) as feed,
        Child(task(feed.url)) as child,
    ):
        assert reason_of_refusal(child) == "the server answered 503"


def test_messages_that_come_with_the_answer_are_not_lost() -> None:
    def behave(peer: Peer) -> None:
        peer.raw(peer.upgrade() + frame(TEXT, b"first") + frame(TEXT, b"second")[:3])
        peer.raw(frame(TEXT, b"second")[3:])
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url)) as child:
        child.word(MESSAGES, 2)


# --- proxies and resolvers ----------------------------------------------------------------------------------


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Feed(good) as proxy, Feed(good) as feed:
        for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url.replace("ws:", "http:"))
        monkeypatch.delenv("no_proxy", raising=False)
        with Child(task(feed.url)) as child:
            child.word(OPEN, 1)
        assert proxy.accepted == 0


@pytest.fixture
def stalled_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names under `stalled.test` are never resolved; the list says which were asked for."""
    release, asked = threading.Event(), list[str]()

    def resolve(host: bytes, *rest: Any) -> Any:
        if host.endswith(b"stalled.test"):
            asked.append(host.decode())
            release.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "released")
        return socket.getaddrinfo(host, *rest)

    monkeypatch.setattr(route, "getaddrinfo", resolve)
    yield asked
    release.set()


def test_a_resolver_that_stalls_holds_up_no_other_connection(stalled_resolver: list[str]) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        while not peer.feed.closing.wait(0.01):
            peer.text("tick")

    with (
        Feed(behave) as feed,
        Child(task("ws://stalled.test", feed.url, connect_timeout_ms=200)) as child,
    ):
        child.word(MESSAGES, 5)
        until(lambda: "still hang" in child.log_text(), 5)
        child.word(MESSAGES, child.words[MESSAGES] + 5)
        assert len(stalled_resolver) == 2


def test_what_an_abandoned_attempt_still_achieves_is_closed() -> None:
    ours, theirs = socket.socketpair()
    abandoned, settled = threading.Event(), threading.Event()

    def connect(target: Target) -> Opened:
        abandoned.wait(5)
        return Opened(ours, b"", target)

    attempt = Attempt(lambda: Target("ws://feed.example"), connect, lambda attempt: settled.set())
    attempt.abandon()
    abandoned.set()
    assert settled.wait(5)
    assert ours.fileno() == -1
    assert theirs.recv(1) == b""


# --- TLS ----------------------------------------------------------------------------------------------------


def test_a_certificate_of_a_configured_authority_is_accepted(server_tls: ssl.SSLContext) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(3000):
            peer.text(f"{number} " + "x" * 1000)
        peer.text("y" * 500_000)
        peer.serve()

    with (
        Feed(behave, server_tls) as feed,
        Child(task(feed.url, tls_ca=CERTIFICATE, subscribe=("hello",)), contexts={}) as child,
    ):
        child.word(MESSAGES, 3001)
        assert feed.texts == [] or feed.texts[0][1] == "hello"
        assert child.stop() == 0
    assert feed.close_codes == [1001]


def test_what_tls_has_decrypted_already_is_read_without_waiting_for_more(server_tls: ssl.SSLContext) -> None:
    record, turned = 16_384, threading.Event()

    def behave(peer: Peer) -> None:
        peer.accept()
        for count in range(5, 25):  # the frame ends inside a record, sometimes at the last read of a turn
            turned.clear()
            peer.raw(frame(TEXT, b"x" * (count * record + 100)) + frame(TEXT, b"tail"))
            assert turned.wait(5)
        peer.serve()

    with Feed(behave, server_tls) as feed, Child(task(feed.url, tls_ca=CERTIFICATE)) as child:
        for count in range(1, 21):
            child.word(MESSAGES, 2 * count, timeout_s=2)
            turned.set()


def test_what_tls_has_decrypted_already_is_read_when_its_consumer_has_caught_up(server_tls: ssl.SSLContext) -> None:
    def behave(peer: Peer) -> None:
        peer.accept("Sec-WebSocket-Extensions: permessage-deflate")
        peer.raw(frame(TEXT, b"x" * 1000) * 14)  # one record, which is read in two parts
        peer.serve()

    seen: list[int] = []

    class Behind(Handler):
        def message(self, connection: Connection, message: Message) -> None:
            seen.append(len(message))

    spec = {"tls_ca": CERTIFICATE, "compression": "deflate", "ping_interval_ms": 600_000, "handler": "x"}
    with Feed(behave, server_tls) as feed, Child(task(feed.url, **spec), Behind):
        until(lambda: len(seen) == 14, 10)


def test_what_is_no_tls_on_an_open_connection_is_told_without_a_place_in_a_source(server_tls: ssl.SSLContext) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        if peer.number == 0:
            os.write(peer.sock.fileno(), b"this is no record of TLS")
        peer.serve()

    with Feed(behave, server_tls) as feed, Child(task(feed.url, tls_ca=CERTIFICATE)) as child:
        assert reason_of_refusal(child) == "wrong version number"
        child.word(CONNECTS, 2)


def test_a_tls_handshake_that_does_not_end_is_told_without_a_place_in_a_source() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"wss://127.0.0.1:{server.getsockname()[1]}"
        with Child(task(url, tls_ca=CERTIFICATE, connect_timeout_ms=200)) as child:
            assert reason_of_refusal(child) == "no connection in time: TLS with 127.0.0.1 was not complete"


def test_a_certificate_that_nobody_vouches_for_is_a_permanent_refusal(server_tls: ssl.SSLContext) -> None:
    with (
        Feed(good, server_tls) as feed,
        Child(task(feed.url), contexts={tls.Profile(): tls.context(tls.Profile())}) as child,
    ):
        closed = until(lambda: child.log("connection.closed"), 5)[0]
        assert closed["permanent"] is True
        assert "certificate" in closed["reason"]


def test_a_certificate_of_another_host_is_a_permanent_refusal(server_tls: ssl.SSLContext) -> None:
    with Feed(good, server_tls, host="127.0.0.2") as feed, Child(task(feed.url, tls_ca=CERTIFICATE)) as child:
        closed = until(lambda: child.log("connection.closed"), 5)[0]
    assert closed["permanent"] is True
    assert "127.0.0.2" in closed["reason"]


def test_a_missing_authority_file_is_told_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"tls_ca /nowhere/ca\.pem cannot be used: No such file"):
        tls.context(tls.Profile("/nowhere/ca.pem"))


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("wss://user:pw@host.example:8443/a/b?token=1#x", "wss://host.example:8443"),
        ("ws://[::1]:80/", "ws://[::1]:80"),
        ("ws://host:port/", "?"),
    ],
)
def test_of_a_url_scheme_host_and_port_are_shown(url: str, text: str) -> None:
    assert shown(url) == text
