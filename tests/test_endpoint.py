"""The HTTP endpoint over real sockets: what it answers, to whom, and that no client can get in the way of others."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
import pytest
from waitress.channel import ClientDisconnected

from supervisor.control import Occupied
from supervisor.serving import endpoint
from supervisor.serving.endpoint import Endpoint, serve
from tests.page.fleet import FakeSources, healthy, json_of, now_ms
from tests.wait import until

PATHS = ("/", "/healthz", "/readyz", "/metrics", "/api/leases")
LOCAL = "127.0.0.1"


@pytest.fixture
def sources() -> FakeSources:
    return FakeSources(b'{"fleet": "f"}')


@pytest.fixture
def served(sources: FakeSources) -> Iterator[Endpoint]:
    one = serve((LOCAL, 0), ["status.example"], sources)
    yield one
    one.close()


def ask(
    served: Endpoint, path: str, method: str = "GET", host: str | None = None, timeout_s: float = 20.0
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(LOCAL, served.port, timeout=timeout_s)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def raw(served: Endpoint, data: bytes, timeout_s: float = 20.0) -> bytes:
    """What comes back until the end of the connection."""
    with socket.create_connection((LOCAL, served.port), timeout=timeout_s) as connection:
        connection.sendall(data)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            pass
        return received


# --- routes ---------------------------------------------------------------------------------------------------------


def test_each_route_answers_in_its_own_kind(served: Endpoint) -> None:
    kinds = {path: ask(served, path)[1]["Content-Type"].split(";")[0] for path in PATHS}
    assert kinds == {
        "/": "text/html",
        "/healthz": "text/plain",
        "/readyz": "text/plain",
        "/metrics": "text/plain",
        "/api/leases": "application/json",
    }
    assert [ask(served, path)[0] for path in PATHS] == [200] * 5


def test_healthy_is_a_loop_that_turns_and_ready_is_more(served: Endpoint, sources: FakeSources) -> None:
    sources.ready = (False, "the store cannot be reached; 3 of 9 children do not run")
    assert ask(served, "/healthz")[0] == 200
    status, _, body = ask(served, "/readyz")
    assert (status, body) == (503, b"the store cannot be reached; 3 of 9 children do not run\n")
    sources.turns = False
    for path in ("/healthz", "/readyz"):
        status, _, body = ask(served, path)
        assert (status, body) == (503, b"the supervisor's loop does not turn\n")


def test_leases_are_the_last_that_were_read_with_their_age_while_the_store_cannot_be(
    served: Endpoint, sources: FakeSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.serving.latest.FRESH_S", 0.0)
    sources.age_s = 7.2
    _, headers, body = ask(served, "/api/leases")
    assert (json.loads(body), headers["Age"], headers["Tenured-Error"]) == ({"fleet": "f"}, "7", None)
    sources.error = "it timed out\r\nSet-Cookie: a=é"
    status, headers, body = ask(served, "/api/leases")
    assert (status, json.loads(body)) == (200, {"fleet": "f"})
    assert headers["Tenured-Error"] == "the store cannot be read: it timed out??Set-Cookie: a=?"
    assert headers["Set-Cookie"] is None


def test_leases_that_were_never_read_are_unavailable_with_the_reason(served: Endpoint, sources: FakeSources) -> None:
    sources.error = "it timed out"
    status, headers, body = ask(served, "/api/leases")
    assert (status, headers["Retry-After"]) == (503, "1")
    assert json.loads(body) == {"error": "the store cannot be read: it timed out"}


def test_a_store_that_hangs_delays_nothing_else(served: Endpoint, sources: FakeSources) -> None:
    sources.gate.clear()
    try:
        for _ in range(3 * endpoint.THREADS):
            assert ask(served, "/api/leases", timeout_s=10)[0] == 503
        assert [ask(served, path, timeout_s=5)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200] * 3
        assert sources.looks == 1
    finally:
        sources.gate.set()
    until(lambda: ask(served, "/api/leases")[0] == 200, 10)


@pytest.mark.parametrize("path", ["/favicon.ico", "/api", "/api/leases/", "/page.js", "/../etc/passwd", "/%2e%2e/x"])
def test_anything_else_is_not_found(served: Endpoint, path: str) -> None:
    assert ask(served, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(served: Endpoint, method: str) -> None:
    for path in PATHS:
        status, headers, _ = ask(served, path, method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_head_is_get_without_the_body(served: Endpoint) -> None:
    for path in PATHS:
        status, headers, body = ask(served, path, "HEAD")
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) == len(ask(served, path)[2])


def test_old_clients_are_answered(served: Endpoint) -> None:
    assert raw(served, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 ")


# --- security -------------------------------------------------------------------------------------------------------


def test_only_expected_hosts_are_answered(served: Endpoint) -> None:
    for path in ("/", "/metrics", "/api/leases"):
        for host in ("localhost", f"127.0.0.1:{served.port}", "[::1]:1", "status.example"):
            assert ask(served, path, host=host)[0] == 200, (path, host)
        status, _, body = ask(served, path, host="evil.example")
        assert status == 403
        assert b"http_hosts" in body
        assert b"evil" not in body
    assert raw(served, b"GET /api/leases HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 403 ")
    twice = b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert raw(served, twice).startswith(b"HTTP/1.1 403 ")


def test_probes_are_answered_whatever_their_host(served: Endpoint) -> None:
    for path in ("/healthz", "/readyz"):
        assert ask(served, path, host="10.9.8.7:80")[0] == 200
        assert ask(served, path, host="balancer.example")[0] == 200


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
def test_every_answer_forbids_caches_frames_sniffing_and_reading_by_others(served: Endpoint, path: str) -> None:
    for method in ("GET", "HEAD", "POST"):
        _, headers, _ = ask(served, path, method)
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["Server"] is None
        assert not [name for name in headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: [\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000,
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        random.Random(1).randbytes(4096) + b"\r\n\r\n",
    ],
    ids=lambda garbage: repr(garbage[:24]),
)
def test_garbage_gets_an_error_and_disturbs_nobody(served: Endpoint, garbage: bytes) -> None:
    with socket.create_connection((LOCAL, served.port), timeout=20) as connection:
        with contextlib.suppress(OSError):  # it may have had enough before the end
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
        try:
            answer = connection.recv(65536)
        except OSError:
            answer = b""
    assert answer == b"" or answer.split(b" ")[1][:1] in (b"4", b"5")
    assert b"waitress" not in answer
    assert ask(served, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("large", "status"),
    [(b"X: " + b"x" * endpoint.REQUEST_MAX_BYTES, b"431"), (b"Content-Length: %d" % endpoint.BODY_MAX_BYTES, b"413")],
    ids=["headers", "body"],
)
def test_a_large_request_is_refused(served: Endpoint, large: bytes, status: bytes) -> None:
    answer = raw(served, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + large + b"\r\n\r\n")
    assert answer.split(b" ")[1] == status


# --- clients that get in the way ------------------------------------------------------------------------------------


def test_each_connection_answers_once_so_that_nobody_queues_up_requests(served: Endpoint, sources: FakeSources) -> None:
    sources.body = b"x" * 1_000_000
    request = b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = raw(served, request * 50)
    assert answer.count(b"HTTP/1.1 200 OK") <= 1
    for path in (b"/", b"/healthz", b"/nowhere"):
        answer = raw(served, b"HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path * 3)
        assert answer.count(b"HTTP/1.1 ") == answer.count(b"Connection: close") == 1


def test_clients_that_do_not_read_keep_nobody_waiting(served: Endpoint, sources: FakeSources) -> None:
    sources.body = b"x" * 8_000_000
    request = b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(4 * endpoint.THREADS):
            connection = stack.enter_context(socket.create_connection((LOCAL, served.port), timeout=20))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(request)
        for path in ("/healthz", "/metrics"):
            assert ask(served, path, timeout_s=10)[0] == 200


def test_hundreds_that_ask_for_a_large_fleet_and_never_read_cost_little_and_keep_nobody_waiting(
    sources: FakeSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = now_ms()
    body = json_of(healthy(10, 5000, at), at)
    monkeypatch.setattr(sources, "fleet", lambda: (bytes(bytearray(body)), 0.0))  # each look is one of its own
    request = b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        stack.enter_context(descriptors(4096))
        served = serve((LOCAL, 0), [], sources)
        stack.callback(served.close)
        assert ask(served, "/api/leases")[2] == body
        before = psutil.Process().memory_info().rss
        for _ in range(530):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.settimeout(20)
            connection.connect((LOCAL, served.port))
            connection.sendall(request)
        most = before
        until(lambda: open_connections(served) > endpoint.CONNECTIONS_MAX, 20)
        while open_connections(served) > 1:
            began_s = time.monotonic()
            assert ask(served, "/healthz")[0] == 200
            assert time.monotonic() - began_s < 2
            most = max(most, psutil.Process().memory_info().rss)
            assert all(sending(each) <= 2 * endpoint.SEND_BUFFER_BYTES for each in channels(served))
        assert most - before < 100_000_000


def channels(served: Endpoint) -> list[Any]:
    return list(served._server.active_channels.values())


def sending(channel: Any) -> int:
    """How much of an answer the kernel takes, or nothing if the connection was ended meanwhile."""
    try:
        return int(channel.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
    except OSError:
        return 0


@contextmanager
def descriptors(number: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(number, limits[0]), limits[1]), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_answer_that_is_not_taken_is_ended_with_a_reset(
    served: Endpoint, sources: FakeSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "STALL_S", 0.5)
    sources.body = b"x" * 8_000_000
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((LOCAL, served.port))
        connection.sendall(b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: open_connections(served) == 1, 10)
        until(lambda: open_connections(served) == 0, 20)
        with pytest.raises(ConnectionResetError):
            all(iter(lambda: connection.recv(65536), b""))


def test_a_slow_reader_gets_the_whole_answer_while_there_is_room(
    served: Endpoint, sources: FakeSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "STALL_S", 1.0)
    sources.body = bytes(range(256)) * 8000
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        connection.settimeout(20)
        connection.connect((LOCAL, served.port))
        connection.sendall(b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\n\r\n")
        pause, received = threading.Event(), b""
        while part := connection.recv(65536):
            received += part
            pause.wait(0.02)  # the client is what is slow here
    assert received.endswith(sources.body)


def test_hundreds_of_silent_connections_keep_nobody_out_and_are_ended(served: Endpoint) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection((LOCAL, served.port), timeout=20)) for _ in range(300)]
        for half in silent[::2]:
            half.sendall(b"GET /healthz HTT")
        assert ask(served, "/healthz", timeout_s=10)[0] == 200
        until(lambda: open_connections(served) <= endpoint.CONNECTIONS_MAX, 20, 0.1)
        assert ask(served, "/api/leases", timeout_s=10)[0] == 200


def test_two_hundred_clients_at_once_are_all_answered(served: Endpoint) -> None:
    with ThreadPoolExecutor(200) as pool:
        found = list(pool.map(lambda _: ask(served, "/api/leases", timeout_s=30)[0], range(200)))
    # The first look at the store is made by one; who comes meanwhile is told to come again.
    assert set(found) <= {200, 503}
    assert ask(served, "/api/leases")[0] == 200


def test_a_client_that_drips_is_ended_at_last(served: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LIFE_MAX_S", 1.0)

    def ended() -> bool:
        try:
            connection.send(b"x")
            return connection.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    with socket.create_connection((LOCAL, served.port), timeout=0.2) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        until(ended, 20, 0.05)


def open_connections(served: Endpoint) -> int:
    return len(served._server.active_channels)


# --- begin and end --------------------------------------------------------------------------------------------------


def test_an_address_in_use_is_refused_with_a_sentence(served: Endpoint, sources: FakeSources) -> None:
    with pytest.raises(
        Occupied, match=rf"^http = 127.0.0.1:{served.port} cannot be listened on: address already in use$"
    ):
        serve((LOCAL, served.port), [], sources)


@pytest.mark.parametrize(("host", "shown"), [("203.0.113.7", "203.0.113.7"), ("2001:db8::7", r"\[2001:db8::7\]")])
def test_an_address_that_is_not_ours_is_refused_with_a_sentence(host: str, shown: str, sources: FakeSources) -> None:
    with pytest.raises(Occupied, match=rf"^http = {shown}:0 cannot be listened on: cannot assign requested address$"):
        serve((host, 0), [], sources)


@pytest.mark.parametrize("host", ["::1", "localhost", "0.0.0.0", "::"])
def test_any_kind_of_address_can_be_listened_on(host: str, sources: FakeSources) -> None:
    one = serve((host, 0), [], sources)
    try:
        with socket.create_connection(("localhost" if host != "::1" else host, one.port), timeout=20) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.0 200 ")
    finally:
        one.close()


def test_it_listens_beyond_the_first_thousand_descriptors(sources: FakeSources) -> None:
    """A supervisor with hundreds of children has that many open, and select would not see the later ones."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        while (read := os.open(os.devnull, os.O_RDONLY)) < 1100:
            stack.callback(os.close, read)
        stack.callback(os.close, read)
        one = serve((LOCAL, 0), [], sources)
        try:
            assert ask(one, "/healthz")[0] == 200
        finally:
            one.close()


def test_close_is_quick_with_connections_of_every_kind_open(sources: FakeSources) -> None:
    one = serve((LOCAL, 0), [], sources)
    sources.gate.clear()
    request = b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        stack.callback(sources.gate.set)
        connections = [stack.enter_context(socket.create_connection((LOCAL, one.port), timeout=20)) for _ in range(30)]
        for half in connections[:10]:
            half.sendall(request[:20])
        connections[-1].sendall(request)
        until(lambda: sources.looks == 1, 10)
        began_s = time.monotonic()
        one.close()
        assert time.monotonic() - began_s < 2 * endpoint.CLOSE_TIMEOUT_S + 1.5
        for connection in connections[:-1]:
            assert ends(connection)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOCAL, one.port), timeout=5)


def ends(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_close_leaves_no_thread_and_no_descriptor_and_frees_the_port(sources: FakeSources) -> None:
    def turn(port: int) -> int:
        one = serve((LOCAL, port), [], sources)
        assert ask(one, "/")[0] == 200
        one.close()
        return one.port

    port = turn(0)  # what a process opens once is open from here on
    before = threads(), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        turn(port)
    until(lambda: (threads(), len(os.listdir("/proc/self/fd"))) <= before, 10)


def threads() -> int:
    return threading.active_count()


def test_nothing_that_clients_do_is_logged(
    served: Endpoint, sources: FakeSources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    requests: Sequence[bytes] = (b"\x00\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"POST /x HTTP/1.1\r\n\r\n", b"GET /")
    for request in requests:
        with socket.create_connection((LOCAL, served.port), timeout=20) as connection:
            connection.sendall(request)
    with ThreadPoolExecutor(50) as pool:
        list(pool.map(lambda _: ask(served, "/metrics"), range(200)))
    assert [record.getMessage() for record in caplog.records if record.name.startswith("waitress")] == []


def test_a_client_that_leaves_during_the_answer_to_what_is_no_request_is_not_logged(
    served: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = threading.Event()

    def leave(_: object) -> None:
        raise ClientDisconnected

    def hear(_: logging.LogRecord) -> bool:
        said.set()
        return True

    monkeypatch.setattr("waitress.task.ErrorTask.execute", leave)
    log = logging.getLogger("waitress")
    monkeypatch.setattr(log, "filters", [hear, *log.filters])
    with socket.create_connection((LOCAL, served.port), timeout=20) as connection:
        connection.sendall(b"\0\r\n\r\n")
        assert said.wait(20)
    ask(served, "/healthz")
    assert [record.getMessage() for record in caplog.records] == []


def test_a_bug_behind_a_route_is_an_error_for_its_caller_and_a_line_in_the_log(
    served: Endpoint, sources: FakeSources, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(sources, "metrics", broken)
    status, _, body = ask(served, "/metrics")
    assert status == 500
    assert b"ZeroDivision" not in body
    assert [record.getMessage() for record in caplog.records] == ["Exception while serving /metrics"]
    assert ask(served, "/healthz")[0] == 200
