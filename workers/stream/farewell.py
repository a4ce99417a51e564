"""How a link ends: the close handshake, and how long what the peer had sent before it is waited for.

What holds: the peer has a second to answer a close frame. What still comes is delivered, for as long as it takes the
consumer, unless the shard stops; a peer that just goes on for a minute and `_LINGER_BYTES` is left with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workers.stream.session import CLOSE_TIMEOUT_NS
from workers.websocket.frames import NO_CODE, Close

ABNORMAL = 1006  # the end of a connection without a close frame; never sent
UNSATISFIED = 4000  # what we close with when the peer keeps the protocol, and not what is expected of it
_REASON_MAX_BYTES = 123
_LINGER_NS = 60_000_000_000  # for a consumer that is slow to take what a peer had sent before our close frame came;
_LINGER_BYTES = 16 * 1024 * 1024  # more than that was not on its way then: this peer just goes on


@dataclass(frozen=True, slots=True)
class End:
    """How a link ended, or will have when the handshake is over. `discard`: what still comes is not delivered."""

    code: int
    reason: str
    discard: bool = False
    theirs: bool = False  # the peer ended it: not we, and no broken line
    brief: str = ""  # see `Refusal`

    @property
    def payload(self) -> bytes:
        """Of our close frame. A reason is for whom we are not satisfied with."""
        code = b"" if self.code == NO_CODE else self.code.to_bytes(2, "big")
        if self.code != UNSATISFIED:
            return code
        return code + self.reason.encode()[:_REASON_MAX_BYTES].decode(errors="ignore").encode()


def end_of(close: Close) -> End:
    """The peer closed it first."""
    said = f": {close.reason}" if close.reason else ""
    brief = f"the peer closed it with {close.code}"
    return End(close.code, f"the peer closed it{said}", discard=True, theirs=True, brief=brief)


class Farewell:
    """`due_ns` is when `over` is to be asked."""

    __slots__ = ("_begun_ns", "_bytes", "due_ns", "end")

    def __init__(self, end: End, now_ns: int) -> None:
        """Our close frame goes out."""
        self.end = end
        self._begun_ns = now_ns
        self._bytes = 0
        self.due_ns = now_ns + CLOSE_TIMEOUT_NS

    def heard(self, size: int) -> None:
        self._bytes += size

    def held_up(self, now_ns: int) -> None:
        """Reading is, or was: the peer's second begins anew, for what it sent waits."""
        if not self._overdue(now_ns):
            self.due_ns = now_ns + CLOSE_TIMEOUT_NS

    def over(self, now_ns: int, paused: bool, stopping: bool) -> bool:
        """The peer had its time: is it the end? Where the shard stops, nothing more is delivered from now on."""
        if not paused or self.end.discard or self._overdue(now_ns):
            return True
        self.due_ns = now_ns + CLOSE_TIMEOUT_NS
        if stopping:
            self.end = replace(self.end, discard=True)
        return False

    def _overdue(self, now_ns: int) -> bool:
        return now_ns >= self._begun_ns + _LINGER_NS and self._bytes > _LINGER_BYTES
