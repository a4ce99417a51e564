"""The gateway of `examples/gateway`: python3 -m tests.examples.chat_gateway

A session has numbered events, a new one with each tick, and is kept while nobody is connected, unless its client left
with 1000 or 1001. Who resumes it gets what came after the number that he names, and then RESUMED. A client whose
heartbeats stay out is cut off. On demand it asks for reconnects, forgets sessions, or ignores heartbeats.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tests.examples.far_end import Line, run

PORT = 8802
TICK_S = 0.02
HEARTBEAT_S = 0.5
TOKEN = "example-token"
ENDING = (1000, 1001)
EVENT, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID_SESSION, HELLO, HEARD = 0, 1, 2, 6, 7, 9, 10, 11


@dataclass
class Session:
    name: str
    shard: int
    events: list[Any] = field(default_factory=list)  # number n stands at n - 1
    line: Line | None = None

    def add(self, kind: str, data: object) -> None:
        self.events.append({"op": EVENT, "t": kind, "s": len(self.events) + 1, "d": data})
        if self.line is not None:
            self.line.send(self.events[-1])


class ChatGateway:
    """`done` is what clients asked for: ("identify", shard), ("resume", shard)."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}  # all that ever were
        self.gone: set[str] = set()
        self.done: list[tuple[str, int]] = []
        self.heartbeats = self.late = 0
        self.deaf = self.quiet = False
        self._due_s: dict[Line, float] = {}

    # --- what tests want ------------------------------------------------------------------------------------

    def ask_to_reconnect(self) -> None:
        for line in list(self._due_s):  # connections come and go meanwhile
            line.send({"op": RECONNECT, "d": None})

    def forget_sessions(self) -> None:
        """The connections stay, until somebody resumes."""
        self.gone |= set(self.sessions)

    def messages(self, shard: int) -> list[Any]:
        """All events of its sessions that are for the handler's sink."""
        mine = [session for session in self.sessions.values() if session.shard == shard]
        return [event for session in mine for event in session.events if event["t"] == "MESSAGE"]

    # --- the service ----------------------------------------------------------------------------------------

    def opened(self, line: Line) -> None:
        self._due_s[line] = time.monotonic() + 3 * HEARTBEAT_S
        line.send({"op": HELLO, "d": {"heartbeat_interval": HEARTBEAT_S * 1000}})

    def heard(self, line: Line, message: Any) -> None:
        op, data = message["op"], message["d"]
        if op == HEARTBEAT:
            self.heartbeats += 1
            self._due_s[line] = time.monotonic() + 3 * HEARTBEAT_S
            if not self.deaf:
                line.send({"op": HEARD, "d": None})
        elif data["token"] != TOKEN:
            line.close(4004)
        elif op == IDENTIFY:
            session = Session(f"session-{len(self.sessions)}", data["shard"], line=line)
            self.sessions[session.name] = session
            self.done.append(("identify", session.shard))
            session.add("READY", {"session_id": session.name})
        elif op == RESUME:
            self._resume(line, data["session_id"], data["seq"])

    def _resume(self, line: Line, name: str, seq: int) -> None:
        if name not in self.sessions or name in self.gone:
            line.send({"op": INVALID_SESSION, "d": False})
            return
        session = self.sessions[name]
        self.done.append(("resume", session.shard))
        session.line = line
        for event in session.events[seq:]:
            line.send(event)
        session.add("RESUMED", None)

    def closed(self, line: Line) -> None:
        del self._due_s[line]
        for session in self.sessions.values():
            if session.line is line:
                session.line = None
                if line.code in ENDING:
                    self.gone.add(session.name)

    def tick(self) -> None:
        for session in self.sessions.values():
            if session.name not in self.gone and not self.quiet:
                session.add("MESSAGE", {"text": f"{len(session.events) + 1} in {session.name}"})
        for line in [line for line, due_s in self._due_s.items() if time.monotonic() > due_s]:
            self.late += 1
            line.cut()


if __name__ == "__main__":
    run(ChatGateway(), 1.0, PORT)
