"""A chat gateway: hello, then identify or resume, and a heartbeat whose interval the gateway gives.

What it shows: a session that outlives connections, children and hosts, since session and number of the last event are
the checkpoint; `every` for the heartbeat; the answers to what a gateway may ask for: a heartbeat at once, a reconnect,
a new session.

Emitted is each event of the chat. A child that was killed goes on from its last checkpoint, so some come twice, with
the same "s" in the same session. GATEWAY_TOKEN, from the environment, is who we are.
"""

from __future__ import annotations

import json
import os
from enum import IntEnum
from typing import Any

from tenured import Connection, Handler, Message, Shard, Timer

KEEPING = 4000  # a code with which the gateway keeps the session
SESSION_GONE = (4007, 4009)  # its codes for a number that it does not know, and for a session that is too old


class Op(IntEnum):
    EVENT = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    RESUME = 6
    RECONNECT = 7
    INVALID_SESSION = 9
    HELLO = 10
    HEARD = 11


class Gateway(Handler):
    def start(self, shard: Shard) -> None:
        self.index = int(shard.index)
        self.session: str | None = None
        self.seq: int | None = None
        if shard.checkpoint:
            self.session, self.seq = json.loads(shard.checkpoint)
        self.heart: Timer | None = None
        self.heard = True  # the answer to the last heartbeat

    def message(self, connection: Connection, message: Message) -> None:
        event = json.loads(message)
        match event["op"]:
            case Op.EVENT:
                self.take(event, message)
            case Op.HELLO:
                self.begin(connection, event["d"]["heartbeat_interval"] / 1000)
            case Op.HEARD:
                self.heard = True
            case Op.HEARTBEAT:  # wanted at once
                self.send(connection, Op.HEARTBEAT, self.seq)
            case Op.RECONNECT:
                connection.close(KEEPING)
            case Op.INVALID_SESSION:
                if not event["d"]:
                    self.forget()
                connection.close(KEEPING)  # the usual wait, then hello again

    def take(self, event: dict[str, Any], message: Message) -> None:
        self.seq = event["s"]
        if event["t"] == "READY":
            self.session = event["d"]["session_id"]
        elif event["t"] != "RESUMED":
            self.emit(message)
        self.checkpoint(json.dumps([self.session, self.seq]))

    def begin(self, connection: Connection, interval_s: float) -> None:
        self.stop_beating()
        self.heard = True
        self.heart = self.every(interval_s, lambda: self.beat(connection))
        token = os.environ["GATEWAY_TOKEN"]
        if self.session:
            self.send(connection, Op.RESUME, {"token": token, "session_id": self.session, "seq": self.seq})
        else:
            self.send(connection, Op.IDENTIFY, {"token": token, "shard": self.index})

    def beat(self, connection: Connection) -> None:
        if not self.heard:
            connection.close(KEEPING)  # it takes what we send, and is not there any more
            return
        self.heard = False
        self.send(connection, Op.HEARTBEAT, self.seq)

    def send(self, connection: Connection, op: Op, data: object) -> None:
        connection.send(json.dumps({"op": op, "d": data}))

    def forget(self) -> None:
        self.session = self.seq = None

    def stop_beating(self) -> None:
        if self.heart is not None:
            self.heart.cancel()

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        self.stop_beating()
        if code in SESSION_GONE:
            self.forget()
