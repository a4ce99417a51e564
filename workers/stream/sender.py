"""What a link sends: at once, or in its turn where `send_rate` spaces messages out; masked, as the socket takes it.

What holds: nothing here waits. What waits to be sent is bounded: a peer that does not read is given up. After the first
error nothing is sent any more, and nothing is raised: what the peer had said before is still to be read.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from workers.stream.paced import NEVER_NS, Paced
from workers.websocket.cause import cause_of
from workers.websocket.outgoing import TEXT, Outgoing


class Sender:
    """`put` for messages, `queue` for what goes at once: pings, pongs, close frames. Both may flush."""

    __slots__ = ("_out", "_paced", "_sock", "broken")

    def __init__(self, sock: socket.socket, interval_ns: int) -> None:
        """An interval of 0 is none."""
        self._sock = sock
        self._out = Outgoing()
        self._paced = Paced(interval_ns) if interval_ns else None
        self.broken = ""  # why nothing can be sent any more

    @property
    def waiting(self) -> int:
        """How many bytes the socket has not taken."""
        return len(self._out.data)

    @property
    def due_ns(self) -> int:
        """When `send_due` has something to do."""
        return self._paced.due_ns if self._paced else NEVER_NS

    @property
    def full(self) -> bool:
        """Too much waits for its turn already."""
        return self._paced is not None and self._paced.full

    @property
    def in_turn(self) -> bool:
        """Whether messages still wait for theirs."""
        return self._paced is not None and not self._paced.empty

    def begin(self, subscriptions: Iterable[str]) -> None:
        """Before all else; whatever there is of them, the file bounds it."""
        for text in subscriptions:
            if self._paced is None:
                self._out.queue(TEXT, text.encode())
            else:
                self._paced.put((TEXT, text.encode()))
        self.flush()

    def put(self, opcode: int, payload: bytes) -> bool:
        """A message. False: see `queue`."""
        if self._paced is None:
            return self.queue(opcode, payload)
        self._paced.put((opcode, payload))
        return True

    def send_due(self, now_ns: int) -> bool:
        """Send what may be sent by now. False: see `queue`."""
        if self._paced is None:
            return True
        return all(self.queue(opcode, payload) for opcode, payload in self._paced.take(now_ns))

    def queue(self, opcode: int, payload: bytes, last: bool = False) -> bool:
        """Send as much as goes now, keep the rest for when the socket takes it. False: the peer does not read, and too
        much waits; the `last` frame waits all the same."""
        if self.broken:
            return True
        if self._out.overflowing and not last:
            return False
        self._out.queue(opcode, payload)
        self.flush()
        return True

    def flush(self) -> None:
        try:
            self._out.flush(self._sock)
        except OSError as error:
            self.broken, self._out = cause_of(error), Outgoing()
