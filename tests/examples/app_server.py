"""The two ends of `examples/socketmode`: python3 -m tests.examples.app_server

`apps.connections.open`, over HTTP, gives urls away; each lets one connection in, once. There a new envelope comes with
each tick, and is kept until it is acknowledged: those that were not come again on the next connection. On demand it
asks to be left, and refuses to give urls away.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.examples.far_end import FarEnd, Line, run

PORT, API_PORT = 8803, 8813
TICK_S = 0.02
TOKEN = "example-token"


class AppServer:
    def __init__(self, is_safe: Callable[[str], bool] = lambda name: True) -> None:
        """`is_safe`: whether an envelope may be acknowledged now."""
        self._is_safe = is_safe
        self.too_early = 0
        self.given: list[str] = []  # tickets
        self.used: list[str] = []
        self.strangers = 0  # connections without a ticket that is good
        self.refusing = self.refused = 0  # so many of the next requests for a url
        self.sent = 0  # envelopes
        self.pending: dict[str, Any] = {}  # those that nobody has acknowledged
        self.quiet = False
        self._line: Line | None = None

    def ask_to_be_left(self) -> None:
        if self._line is not None:
            self._line.send({"type": "disconnect", "reason": "refresh_requested"})

    def ticket(self, token: str) -> dict[str, Any]:
        """The answer to a request for a url, but for the place of the server."""
        if token != TOKEN:
            return {"ok": False, "error": "invalid_auth"}
        if self.refusing:
            self.refusing -= 1
            self.refused += 1
            return {"ok": False, "error": "internal_error"}
        self.given.append(f"ticket-{len(self.given)}")
        return {"ok": True, "ticket": self.given[-1]}

    # --- the service ----------------------------------------------------------------------------------------

    def opened(self, line: Line) -> None:
        ticket = line.path.rpartition("=")[2]
        if ticket not in self.given or ticket in self.used:
            self.strangers += 1
            line.close(4001, "this url was used before")
            return
        self.used.append(ticket)
        self._line = line
        line.send({"type": "hello"})
        for envelope in self.pending.values():
            line.send(envelope)

    def heard(self, line: Line, message: Any) -> None:
        name = message["envelope_id"]
        self.too_early += not self._is_safe(name)
        self.pending.pop(name, None)

    def closed(self, line: Line) -> None:
        if self._line is line:
            self._line = None

    def tick(self) -> None:
        if not self.quiet:
            self.sent += 1
            name = f"envelope-{self.sent}"
            self.pending[name] = {"type": "events_api", "envelope_id": name, "payload": {"number": self.sent}}
            if self._line is not None:
                self._line.send(self.pending[name])


class _Api(BaseHTTPRequestHandler):
    def __init__(self, far_end: FarEnd[AppServer], *given: Any) -> None:
        self._far_end = far_end
        super().__init__(*given)

    def do_POST(self) -> None:
        far_end = self._far_end
        with far_end.lock:
            answer = far_end.service.ticket(self.headers["Authorization"].removeprefix("Bearer "))
        if answer["ok"]:
            answer["url"] = f"ws://127.0.0.1:{far_end.port}/?ticket={answer.pop('ticket')}"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""


@contextmanager
def api(far_end: FarEnd[AppServer], port: int = 0) -> Iterator[str]:
    """The endpoint beside a far end: its url."""
    with ThreadingHTTPServer(("127.0.0.1", port), partial(_Api, far_end)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


if __name__ == "__main__":
    run(AppServer(), 1.0, PORT, beside=lambda far_end: api(far_end, API_PORT))
