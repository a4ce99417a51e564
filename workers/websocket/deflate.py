"""permessage-deflate (RFC 7692): what a server agreed to, and the inflating of what it then sends.

What holds:

- the offer has no parameters. An answer may hold `server_no_context_takeover`, `client_no_context_takeover` and
  `server_max_window_bits`, each once; anything else fails the attempt, and the server is told 1010;
- no more is inflated than the limit of a message: what would become larger is a failure (1009), whatever it was
  compressed from; data that cannot be inflated is one, too (1007);
- an end block inside a message is taken as the RFC says, but only some of them in one message, as each costs a new
  window.

What we send is not compressed, which the RFC allows for every message; so the server's wishes for that mean nothing to
us. Not promised: that a back reference reaches over an end block into an earlier message, which no library writes; that
a message which was cut off within a block is noticed before the next one.

Imported only where compression is on and the server agreed to it.
"""

from __future__ import annotations

import re
import zlib

from workers.stream.session import Refusal
from workers.websocket.frames import BAD_TEXT, TOO_BIG, Failure
from workers.websocket.upgrade import EXTENSION, MANDATORY_EXTENSION, Refused

_WINDOW_BITS = -15  # raw, and the largest window, in which all smaller ones fit
_WINDOW_BYTES = 32_768
_FLUSHED = b"\0\0\xff\xff"  # what ends each message and is not sent
_ENDS_MAX = 16
_PARAMETERS = {
    "server_no_context_takeover": "",
    "client_no_context_takeover": "",
    "server_max_window_bits": "8|9|1[0-5]",
}


class Inflater:
    """The messages of one connection, in order, a frame at a time."""

    __slots__ = ("_begun", "_ends", "_keep", "_zlib")

    def __init__(self, keep: bool = True) -> None:
        """`keep`: messages refer to those before them (context takeover)."""
        self._keep = keep
        self._zlib = zlib.decompressobj(_WINDOW_BITS)
        self._begun = False  # bytes of the message under way have come
        self._ends = 0  # of deflate streams in it

    def inflate(self, payload: bytes, final: bool, room: int) -> bytes | Failure:
        """What a frame adds to its message, at most `room` bytes; `final`: it is the message's last frame."""
        self._begun = self._begun or bool(payload)
        try:
            data = self._inflated(payload, room)
            # a library may send nothing at all for an empty message that follows another one
            if final and self._begun and not self._zlib.eof and len(data) <= room:
                data += self._inflated(_FLUSHED, room - len(data))
        except zlib.error:
            return Failure(BAD_TEXT, "a compressed message cannot be inflated")
        if len(data) > room:
            return Failure(TOO_BIG, "a message would be inflated beyond the limit")
        if self._ends > _ENDS_MAX:
            return Failure(BAD_TEXT, f"a compressed message has more than {_ENDS_MAX} end blocks")
        if final:
            self._begun, self._ends = False, 0
            if self._zlib.eof or not self._keep:
                self._zlib = zlib.decompressobj(_WINDOW_BITS)
        return data

    def _inflated(self, payload: bytes, room: int) -> bytes:
        """Up to one byte more than there is room for."""
        data = self._zlib.decompress(payload, room + 1)
        while self._zlib.eof and (rest := self._zlib.unused_data) and len(data) <= room and self._ends <= _ENDS_MAX:
            self._ends += 1
            self._zlib = zlib.decompressobj(_WINDOW_BITS, zdict=data[-_WINDOW_BYTES:])
            data += self._zlib.decompress(rest, room + 1 - len(data))
        return data


def agreed(answer: str) -> Inflater:
    """What inflates as the server's `Sec-WebSocket-Extensions` says. Raises `Refused`."""
    extension, *parameters = (part.strip() for part in answer.split(";"))
    if extension != EXTENSION:
        raise _not_offered("the server agreed to an extension that nobody asked for")
    found = set()
    for parameter in parameters:
        name, separator, value = (part.strip() for part in parameter.partition("="))
        value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
        wanted = _PARAMETERS.get(name)
        if wanted is None or name in found or bool(separator) != bool(wanted) or not re.fullmatch(wanted, value):
            raise _not_offered("the server agreed to a compression other than the one that was offered")
        found.add(name)
    return Inflater("server_no_context_takeover" not in found)


def _not_offered(reason: str) -> Refused:
    return Refused(Refusal(reason, permanent=True), MANDATORY_EXTENSION)
