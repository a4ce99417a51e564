"""A socket-mode app: urls that are used once, and envelopes that must be acknowledged or come again.

What it shows: `target`, which may block, asks for a fresh url at each attempt to connect; `when_safe` acknowledges an
envelope only when its event is safe in the sink, so that a kill at any moment loses none; a server that asks to be
left is left before it cuts.

Emitted is the payload of each envelope, with the envelope's id: one that was not acknowledged in time comes again.
APP_API and APP_TOKEN come from the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from urllib.request import Request, urlopen

from tenured import Connection, Handler, Message

TIMEOUT_S = 5
LEAVING = 1000


class SocketMode(Handler):
    def target(self, connection: Connection) -> tuple[str, Mapping[str, str]]:
        """In a thread of its own: what it raises is a failed attempt, and the next one asks again."""
        headers = {"Authorization": f"Bearer {os.environ['APP_TOKEN']}"}
        request = Request(f"{os.environ['APP_API']}/apps.connections.open", method="POST", headers=headers)
        with urlopen(request, timeout=TIMEOUT_S) as response:
            answer = json.load(response)
        if not answer["ok"]:
            raise PermissionError(f"apps.connections.open: {answer['error']}")
        return answer["url"], {}

    def message(self, connection: Connection, message: Message) -> None:
        envelope = json.loads(message)
        if envelope["type"] == "disconnect":
            connection.close(LEAVING)  # it is opened again, with a url of its own
        elif "envelope_id" in envelope:
            name = envelope["envelope_id"]
            self.emit(json.dumps({"id": name, "type": envelope["type"], "payload": envelope["payload"]}))
            self.when_safe(lambda: connection.send(json.dumps({"envelope_id": name})))
