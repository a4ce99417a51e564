"""Of the handler alone, with an endpoint on this machine that gives urls away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.error import HTTPError

import pytest
from socketmode import SocketMode

from workers.testing import Rig

ANSWERS: list[tuple[int, dict[str, Any]]] = []
ASKED: list[tuple[str, str | None]] = []


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        ASKED.append((self.path, self.headers["Authorization"]))
        status, answer = ANSWERS.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig[SocketMode]]:
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("APP_API", f"http://127.0.0.1:{server.server_port}/api")
        monkeypatch.setenv("APP_TOKEN", "secret")
        ANSWERS.clear()
        ASKED.clear()
        yield Rig(SocketMode, shard="app")
        server.shutdown()


def envelope(name: str) -> str:
    return json.dumps({"type": "events_api", "envelope_id": name, "payload": {"text": "hi"}})


def test_each_attempt_asks_for_a_url_of_its_own(rig: Rig[SocketMode]) -> None:
    ANSWERS[:] = [(200, {"ok": True, "url": f"wss://app.example/?ticket={number}"}) for number in range(2)]
    assert [rig.target() for _ in range(2)] == [(f"wss://app.example/?ticket={number}", {}) for number in range(2)]
    assert ASKED == [("/api/apps.connections.open", "Bearer secret")] * 2


def test_a_refusal_is_a_failed_attempt_that_says_why_and_keeps_the_token_to_itself(rig: Rig[SocketMode]) -> None:
    ANSWERS[:] = [(200, {"ok": False, "error": "invalid_auth"}), (500, {})]
    with pytest.raises(PermissionError, match=r"^apps\.connections\.open: invalid_auth$"):
        rig.target()
    with pytest.raises(HTTPError) as raised:
        rig.target()
    assert "secret" not in str(raised.value)


def test_each_envelope_is_emitted_and_then_acknowledged(rig: Rig[SocketMode]) -> None:
    rig.opened()
    rig.receive('{"type": "hello"}', envelope("a"), envelope("b"))
    assert [json.loads(event) for event in rig.events] == [
        {"id": name, "type": "events_api", "payload": {"text": "hi"}} for name in ("a", "b")
    ]
    assert [json.loads(message) for message in rig.sent()] == [{"envelope_id": "a"}, {"envelope_id": "b"}]


def test_a_server_that_asks_to_be_left_is_left(rig: Rig[SocketMode]) -> None:
    rig.opened()
    rig.receive(json.dumps({"type": "disconnect", "reason": "refresh_requested"}))
    assert rig.close_codes() == [1000]
