"""The proxy that other tests trust: what it forwards, breaks and records."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests import faults
from tests.faults import Pick
from tests.proxy import FaultProxy, now_ns
from tests.wait import until


class Upstream(ThreadingHTTPServer):
    """Answers each request with its own body, and keeps what arrived."""

    daemon_threads = True

    def __init__(self) -> None:
        self.arrived: list[bytes] = []
        super().__init__(("127.0.0.1", 0), Echo)


class Echo(BaseHTTPRequestHandler):
    server: Upstream

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.arrived.append(body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[FaultProxy]:
    with FaultProxy(upstream.server_address[1]) as running:
        yield running


def call(proxy: FaultProxy, operation: str, body: bytes, timeout_s: float = 5) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=timeout_s)
    try:
        connection.request("POST", "/", body, {"X-Amz-Target": f"DynamoDB_20120810.{operation}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_without_a_fault_requests_pass_and_are_recorded_with_the_time_of_the_answer(
    proxy: FaultProxy, upstream: Upstream
) -> None:
    before = now_ns()
    assert call(proxy, "UpdateItem", b"one") == (200, b"one")
    assert call(proxy, "GetItem", b"two") == (200, b"two")
    assert upstream.arrived == [b"one", b"two"]
    assert (proxy.count(), proxy.count("UpdateItem"), proxy.count("Scan")) == (2, 1, 0)
    (seen,) = proxy.seen("UpdateItem")
    until(lambda: seen.status and seen.answered_ns, 5)
    assert (seen.body, seen.status) == (b"one", 200)
    assert before < seen.arrived_ns < (seen.answered_ns or 0) < now_ns()


def test_a_fault_acts_on_what_it_picks_and_on_nothing_else(proxy: FaultProxy) -> None:
    proxy.fault = faults.Reply(faults.server_error(), Pick("UpdateItem", lambda body: b"bad" in body))
    assert call(proxy, "UpdateItem", b"bad")[0] == 500
    assert call(proxy, "UpdateItem", b"good")[0] == 200
    assert call(proxy, "GetItem", b"bad")[0] == 200
    proxy.fault = None
    assert call(proxy, "UpdateItem", b"bad")[0] == 200


def test_of_several_faults_the_first_that_picks_acts(proxy: FaultProxy) -> None:
    proxy.faults = (faults.Reply(faults.throttled(), Pick("Scan")), faults.Reply(faults.server_error()))
    assert (call(proxy, "Scan", b"x")[0], call(proxy, "GetItem", b"x")[0]) == (400, 500)


@pytest.mark.parametrize(
    ("fault", "forwarded"),
    [
        (faults.Close(), 0),
        (faults.EatAnswers(), 1),
        (faults.CutBody(), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_connection_is_broken_before_or_after_the_request_was_carried_out(
    fault: faults.Fault, forwarded: int, proxy: FaultProxy, upstream: Upstream
) -> None:
    proxy.fault = fault
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        call(proxy, "UpdateItem", b"0123456789")
    assert len(upstream.arrived) == forwarded
    assert proxy.seen()[0].answered_ns is None


@pytest.mark.parametrize(
    ("fault", "forwarded"),
    [(faults.Hang(), 0), (faults.EatAnswers(close=False), 1), (faults.DelayAnswers(30), 1), (faults.TrickleBody(1), 1)],
    ids=lambda value: type(value).__name__,
)
def test_an_answer_that_does_not_come_is_waited_for_in_vain(
    fault: faults.Fault, forwarded: int, proxy: FaultProxy, upstream: Upstream
) -> None:
    proxy.fault = fault
    with pytest.raises(TimeoutError):
        call(proxy, "UpdateItem", b"0123456789", timeout_s=0.2)
    assert len(upstream.arrived) == forwarded


def test_a_held_request_is_carried_out_after_its_client_has_gone(proxy: FaultProxy, upstream: Upstream) -> None:
    held = faults.HoldRequests()
    proxy.fault = held
    with pytest.raises(TimeoutError):
        call(proxy, "UpdateItem", b"late", timeout_s=0.1)
    assert upstream.arrived == []
    held.release()
    until(lambda: upstream.arrived == [b"late"], 5)


def test_a_delayed_request_is_carried_out_after_its_client_has_gone(proxy: FaultProxy, upstream: Upstream) -> None:
    proxy.fault = faults.DelayRequests(0.2)
    with pytest.raises(TimeoutError):
        call(proxy, "UpdateItem", b"late", timeout_s=0.05)
    assert upstream.arrived == []
    until(lambda: upstream.arrived == [b"late"], 5)


def test_a_duplicate_is_carried_out_twice_and_a_rewritten_request_as_rewritten(
    proxy: FaultProxy, upstream: Upstream
) -> None:
    proxy.fault = faults.Duplicate()
    assert call(proxy, "UpdateItem", b"twice") == (200, b"twice")
    proxy.fault = faults.Rewrite(bytes.upper)
    assert call(proxy, "UpdateItem", b"changed") == (200, b"CHANGED")
    assert upstream.arrived == [b"twice", b"twice", b"CHANGED"]


def test_a_proxy_that_stopped_listening_refuses_and_comes_back_at_the_same_port(proxy: FaultProxy) -> None:
    proxy.stop_listening()
    with pytest.raises(ConnectionRefusedError):
        call(proxy, "UpdateItem", b"x")
    proxy.listen()
    assert call(proxy, "UpdateItem", b"x")[0] == 200
