"""The demo's handler: pass every event on, and remember where to go on from.

The checkpoint travels in the lease. Whoever owns the shard next connects with `from=CHECKPOINT`, so the events of
the time in which nobody was connected are asked for again instead of lost.
"""

from __future__ import annotations

import json

from tenured import Connection, Handler, Message


class Resume(Handler):
    def message(self, connection: Connection, message: Message) -> None:
        self.emit(message)
        self.checkpoint(str(json.loads(message)["seq"] + 1))
