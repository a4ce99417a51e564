"""An open connection outside a shard: send what waits, answer pings, wait for the first message, take leave.

What holds: it ends by an instant that the caller names, whatever the peer does; what ends it before is one sentence.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Callable

from workers.process.kernel import boottime_ns
from workers.stream.session import CLOSE_TIMEOUT_NS, Refusal
from workers.texts import printable
from workers.websocket import outgoing
from workers.websocket.dial import Opened
from workers.websocket.frames import READ_BYTES, Close, Message, Parsed, Ping
from workers.websocket.outgoing import Outgoing
from workers.websocket.parser import Parser
from workers.websocket.upgrade import Refused

SHOWN_MAX_CHARS = 500
_MS = 1_000_000


class Talk:
    """Frames in both directions until there is a message. Raises `Refused` when the connection ends before."""

    def __init__(self, opened: Opened, message_max_bytes: int) -> None:
        self.out = Outgoing()
        self._sock = opened.sock
        self._rest = opened.rest
        self._parser = Parser(message_max_bytes, opened.inflater)

    def first(self, until_ns: int, closing: Callable[[], bool]) -> Message | None:
        """None: nothing came in time, or `closing` became true."""
        parsed: Parsed | None = self._parser.feed(self._rest)
        while not closing():
            if parsed is not None:
                if parsed.messages:
                    return parsed.messages[0]
                self._obey(parsed)
            if not self._ready(until_ns):
                return None
            parsed = self._read()
        return None

    def _obey(self, parsed: Parsed) -> None:
        for control in parsed.controls:
            if isinstance(control, Ping):
                self.out.queue(outgoing.PONG, control.data)
            elif isinstance(control, Close):
                reason = f" ({printable(control.reason)})" if control.reason else ""
                raise Refused(Refusal(f"the server closed the connection with {control.code}{reason}"))
        if parsed.failure:
            raise Refused(Refusal(f"what the server sent is wrong: {parsed.failure.reason}"))

    def leave(self, code: int) -> None:
        """Say good-bye, and give the peer a moment to answer."""
        try:
            self.out.queue(outgoing.CLOSE, code.to_bytes(2, "big"))
            until_ns = boottime_ns() + CLOSE_TIMEOUT_NS
            while self._ready(until_ns):
                parsed = self._read()
                if parsed is not None and (parsed.failure or any(isinstance(c, Close) for c in parsed.controls)):
                    return
        except (OSError, Refused):
            return  # the peer was faster

    def _ready(self, until_ns: int) -> bool:
        """Send what waits, until there is something to read; False: nothing came in time."""
        poll = select.poll()
        while True:
            try:
                self.out.flush(self._sock)
            except OSError as error:
                raise Refused(Refusal(f"the connection broke: {error.strerror or type(error).__name__}")) from None
            if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
                return True
            poll.register(self._sock, select.POLLIN | (select.POLLOUT if self.out else 0))
            left_ms = (until_ns - boottime_ns()) / _MS
            if left_ms <= 0:
                return False
            if any(events & ~select.POLLOUT for _, events in poll.poll(left_ms)):
                return True

    def _read(self) -> Parsed | None:
        """None: there was nothing yet."""
        try:
            data = self._sock.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            raise Refused(Refusal(f"the connection broke: {error.strerror or type(error).__name__}")) from None
        if not data:
            raise Refused(Refusal("the server ended the connection without a close frame"))
        return self._parser.feed(data)


def printed(message: Message) -> str:
    """A message on one line of a terminal, which it cannot control."""
    if isinstance(message, bytes):
        shown = message[: SHOWN_MAX_CHARS // 2].hex()
        more = "..." if len(message) > SHOWN_MAX_CHARS // 2 else ""
        return f"{len(message)} bytes: {shown}{more}"
    more = "..." if len(message) > SHOWN_MAX_CHARS else ""
    return f"{len(message)} characters: {printable(message[:SHOWN_MAX_CHARS])}{more}"
