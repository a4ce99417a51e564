"""Connections through an HTTP proxy: which one, what it is asked, and what its answers lead to."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.configuration.config import load
from supervisor.core.model import Start
from supervisor.tasks import task_for
from tests.child import Child, task
from tests.feed import Feed, Peer
from tests.tunnel import forwards_to
from tests.wait import until
from workers.board import MESSAGES, OPEN
from workers.websocket import proxy
from workers.websocket.proxy import Proxy
from workers.websocket.upgrade import Refused

TLS = Path(__file__).with_name("tls")
SECRET = "p%40ss-w0rd"  # as it stands in a url
LOGIN = f"Basic {base64.b64encode(b'user:p@ss-w0rd').decode()}"
SLOW = {"reconnect_min_ms": 60_000, "reconnect_max_ms": 60_000}


def good(peer: Peer) -> None:
    peer.accept()
    peer.text("hello")
    peer.serve()


def place(feed: Feed) -> str:
    return f"127.0.0.1:{feed.port}"


# --- which one ----------------------------------------------------------------------------------------------


def chosen(text: str, url: str = "wss://feed.example:443", **environ: str) -> Proxy | None:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    return proxy.chosen(text, scheme == "wss", host.strip("[]"), int(port), environ)


def test_none_is_none_whatever_the_environment_says() -> None:
    assert chosen("none", **dict.fromkeys(proxy.VARIABLES, "http://p:1")) is None


def test_a_password_that_is_no_text_is_told_without_any_of_it() -> None:
    with pytest.raises(Refused) as raised:
        chosen("env", https_proxy="http://user:secret\udce9@p:1")
    assert raised.value.refusal.reason == "user or password of the proxy hold bytes that are no UTF-8"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://proxy.internal:3128", Proxy("proxy.internal", 3128)),
        ("http://proxy.internal:3128/", Proxy("proxy.internal", 3128)),
        ("http://[::1]:3128", Proxy("::1", 3128)),
        (f"http://user:{SECRET}@proxy.internal:3128", Proxy("proxy.internal", 3128, LOGIN)),
        ("http://a@b:c@p:1", Proxy("p", 1, f"Basic {base64.b64encode(b'a@b:c').decode()}")),
    ],
)
def test_a_configured_one_is_taken_also_for_hosts_that_the_environment_spares(text: str, expected: Proxy) -> None:
    assert chosen(text, no_proxy="*") == expected


@pytest.mark.parametrize(
    "text", ["https://p:1", "socks5://p:1", "http://p", "http://p:0", "http://p:70000", "http://:1", "p q:1", ""]
)
def test_what_is_no_proxy_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Refused, match="the proxy is none that can be used, expected http") as refused:
        chosen(text)
    assert refused.value.refusal.permanent
    with pytest.raises(Refused, match="HTTPS_PROXY is none that can be used") as refused:
        chosen("env", HTTPS_PROXY=f"socks5://user:{SECRET}@p:1")
    assert SECRET not in refused.value.refusal.reason


@pytest.mark.parametrize(
    ("url", "environ", "host"),
    [
        ("wss://a:1", {"HTTPS_PROXY": "http://p:1"}, "p"),
        ("wss://a:1", {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "p"),
        ("wss://a:1", {"https_proxy": "", "HTTPS_PROXY": "http://q:1"}, "q"),
        ("wss://a:1", {"HTTPS_PROXY": "p:1"}, "p"),
        ("wss://a:1", {"HTTP_PROXY": "http://p:1"}, None),
        ("wss://a:1", {"ALL_PROXY": "http://p:1"}, "p"),
        ("ws://a:1", {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "p"),
        ("ws://a:1", {"HTTPS_PROXY": "http://q:1"}, None),
        ("ws://a:1", {"http_proxy": "http://p:1", "ALL_PROXY": "http://q:1"}, "p"),
        ("ws://a:1", {}, None),
    ],
)
def test_the_environment_is_read_as_other_programs_do(url: str, environ: dict[str, str], host: str | None) -> None:
    found = chosen("env", url, **environ)
    assert (found and found.host) == host


@pytest.mark.parametrize(
    ("spared", "url", "direct"),
    [
        ("*", "wss://a.example:443", True),
        ("example.com", "wss://example.com:443", True),
        ("example.com", "wss://a.b.Example.com.:443", True),
        ("example.com", "wss://badexample.com:443", False),
        (".example.com", "wss://example.com:443", True),
        ("*.example.com", "wss://a.example.com:443", True),
        ("example.com:8443", "wss://example.com:8443", True),
        ("example.com:8443", "wss://example.com:443", False),
        ("a.test, b.test c.test", "wss://b.test:443", True),
        ("a.test,,c.test", "wss://d.test:443", False),
        ("10.0.0.0/8", "wss://10.1.2.3:443", True),
        ("10.0.0.0/8", "wss://11.1.2.3:443", False),
        ("127.0.0.1:80", "ws://127.0.0.1:80", True),
        ("::1", "wss://[::1]:443", True),
        ("[::1]:443", "wss://[0:0::1]:443", True),
        ("[::1]:444", "wss://[::1]:443", False),
        ("fd00::/8", "wss://[fd12::1]:443", True),
        ("1", "wss://10.0.0.1:443", False),
        (".internal2", "wss://feed1.internal2:443", True),
        ("feed1", "wss://feed1:443", True),
        ("nonsense/8", "wss://10.0.0.1:443", False),
        ("", "wss://a:443", False),
    ],
)
def test_hosts_that_no_proxy_names_are_reached_directly(spared: str, url: str, direct: bool) -> None:
    assert (chosen("env", url, ALL_PROXY="http://p:1", NO_PROXY=spared) is None) == direct


def test_only_children_that_ask_the_environment_for_a_proxy_get_its_variables(tmp_path: Path) -> None:
    file = tmp_path / "tenured.ini"
    streams = "".join(f"[stream:{name}]\nurl = ws://h/\nproxy = {name}\n" for name in ("none", "env"))
    file.write_text(f"[supervisor]\nfleet = f\nstore = sqlite:///{tmp_path}/db\n{streams}")
    environ = {"HTTPS_PROXY": f"http://user:{SECRET}@p:1", "no_proxy": "*", "OTHER": "1"}
    settings = load(str(file), {})
    given = {
        stream.name: task_for(settings, stream, Start(stream.name, 1, 0, None), "s", "h", environ).environment
        for stream in settings.streams
    }
    assert given == {"none": {}, "env": {"HTTPS_PROXY": environ["HTTPS_PROXY"], "no_proxy": "*"}}


# --- what it is asked, and what it answers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "port", "first"),
    [
        ("feed.example", 443, "CONNECT feed.example:443 HTTP/1.1"),
        ("::1", 80, "CONNECT [::1]:80 HTTP/1.1"),
    ],
)
def test_a_tunnel_is_asked_for_by_the_name_of_the_host(host: str, port: int, first: str) -> None:
    assert proxy.request(Proxy("p", 1), host, port).decode().splitlines()[0] == first


@pytest.mark.parametrize("status", [200, 201, 299])
def test_any_success_opens_the_tunnel(status: int) -> None:
    proxy.check(f"HTTP/1.0 {status} Fine\r\nContent-Length: 5".encode(), b"", 0.0)


@pytest.mark.parametrize(
    ("head", "rest", "reason", "permanent", "floor_s"),
    [
        (b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic", b"", "the proxy answered 407", True, 0),
        (b"HTTP/1.1 403 No", b"<html>", "the proxy answered 403", True, 0),
        (b"HTTP/1.1 302 Login\r\nLocation: http://captive", b"", "the proxy answered 302", True, 0),
        (b"HTTP/1.1 502 Bad", b"", "the proxy answered 502", False, 0),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 7", b"", "the proxy answered 503", False, 7),
        (b"HTTP/1.1 429 Slow\r\nretry-after: Thu, 01 Jan 1970 00:00:09 GMT", b"", "the proxy answered 429", False, 9),
        (b"HTTP/1.1 200 OK", b"<html>", "the proxy opened no tunnel: it sent more than its answer", False, 0),
        (b"SSH-2.0-OpenSSH", b"", "the proxy does not speak HTTP", False, 0),
        (b"", b"", "the proxy does not speak HTTP", False, 0),
    ],
)
def test_every_other_answer_is_a_refusal_that_names_the_proxy(
    head: bytes, rest: bytes, reason: str, permanent: bool, floor_s: float
) -> None:
    with pytest.raises(Refused) as refused:
        proxy.check(head, rest, 0.0)
    refusal = refused.value.refusal
    assert (refusal.reason, refusal.permanent, refusal.floor_s) == (reason, permanent, floor_s)


# --- a whole child ------------------------------------------------------------------------------------------


def test_events_come_through_a_proxy_that_alone_sees_its_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    with Feed(good) as feed, Feed(forwards_to(feed.port)) as through:
        text = f"http://user:${{file:password}}@{place(through)}"
        url, headers = "ws://feed.test:7/path?token=1", (("Authorization", "Bearer 1"),)
        with Child(task(url, proxy=text, headers=headers, base=str(tmp_path))) as child:
            child.word(MESSAGES, 1)
            said = child.log_text()
    (asked,), (connect,) = through.connects, feed.connects
    assert asked.path == "feed.test:7"
    assert asked.headers == {"host": "feed.test:7", "proxy-authorization": LOGIN}
    assert "proxy-authorization" not in connect.headers
    assert (connect.path, connect.headers["host"]) == ("/path?token=1", "feed.test:7")
    assert SECRET not in said
    assert "p@ss-w0rd" not in said
    assert LOGIN.removeprefix("Basic ") not in said


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem")
    return context


def test_tls_is_spoken_with_the_host_behind_the_proxy_whose_name_only_the_proxy_knows(
    server_tls: ssl.SSLContext,
) -> None:
    with Feed(good, server_tls) as feed, Feed(forwards_to(feed.port)) as through:
        spec = {"proxy": f"http://{place(through)}", "tls_ca": str(TLS / "ca.pem")}
        with Child(task("wss://feed.test/", **spec)) as child:
            child.word(MESSAGES, 1)
        with Child(task("wss://other.test/", **spec, **SLOW)) as child:
            closed = until(lambda: child.log("connection.closed"), 5)[0]
    assert [asked.path for asked in through.connects] == ["feed.test:443", "other.test:443"]
    assert closed["permanent"] is True
    assert "the certificate of other.test is refused" in closed["reason"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 407 Auth\r\n\r\n", "the proxy answered 407"),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 30\r\n\r\n", "the proxy answered 503"),
    ],
)
def test_a_proxy_that_refuses_is_asked_again_slowly_and_the_server_never(answer: bytes, reason: str) -> None:
    with (
        Feed(good) as feed,
        Feed(lambda peer: peer.raw(answer)) as through,
        Child(task(feed.url, proxy=f"http://{place(through)}", reconnect_max_ms=30_000)) as child,
    ):
        closed = until(lambda: child.log("connection.closed"), 5)[0]
        assert closed["reason"] == reason
        assert closed["retry_ms"] >= 29_000
        assert feed.accepted == 0


def drips(peer: Peer) -> None:
    for byte in b"HTTP/1.1 200 Connection established" * 100:
        peer.raw(bytes([byte]))
        if peer.feed.closing.wait(0.05):
            return


def endless(peer: Peer) -> None:
    while True:
        peer.raw(b"HTTP/1.1 200 " + b"x" * 10_000)


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (drips, "no connection in time: the tunnel was not complete"),
        (Peer.wait_for_end, "no connection in time: the tunnel was not complete"),
        (endless, "the proxy's header has more than 65536 bytes"),
        (lambda peer: None, "the proxy closed the connection during the tunnel"),
    ],
)
def test_a_proxy_that_answers_no_end_or_nothing_keeps_nobody(behave: Callable[[Peer], None], reason: str) -> None:
    with (
        Feed(behave) as through,
        Child(task("ws://a.test/", proxy=f"http://{place(through)}", connect_timeout_ms=400, **SLOW)) as child,
    ):
        assert until(lambda: child.log("connection.closed"), 2)[0]["reason"] == reason


def test_a_proxy_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Child(task("ws://a.test/", proxy=f"http://127.0.0.1:{port}", **SLOW)) as child:
        reason = until(lambda: child.log("connection.closed"), 5)[0]["reason"]
    assert reason == f"the proxy 127.0.0.1 port {port} cannot be reached: Connection refused"


def test_the_environment_is_asked_where_the_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in proxy.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with Feed(good) as feed, Feed(forwards_to(feed.port)) as through:
        monkeypatch.setenv("http_proxy", f"http://{place(through)}")
        with Child(task(feed.url, proxy="env")) as child:
            child.word(OPEN, 1)
        assert through.accepted == 1
        monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
        with Child(task(feed.url, proxy="env")) as child:
            child.word(OPEN, 1)
        assert through.accepted == 1
