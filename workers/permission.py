"""When this child may begin its next attempt to connect: what servers and the parent have to say about it.

With `connect_rate` the parent paces the attempts of all children of the host. This child asks on the board, for one
attempt at a time: it counts `ASKED` up and rings the parent's bell; the answer is that number in `GRANTED`, and in
`GRANTED_AT` from when on the attempt may begin. Its connections take turns in the order in which they came.

What holds:

- with a rate no attempt begins without a permission of its own, which soon expires: a child that stood still must not
  begin together with others; a question that is not answered is asked again;
- a floor holds for every attempt, with a rate or without: what a server told this child (`Retry-After`, by host), and
  what one told another child with the same key (`FLOOR`, from the parent). A permission that a floor has overtaken is
  thrown away and asked for anew behind it, so that not all begin at the floor's end at once.

Looking costs a wake-up of the loop; it happens every few milliseconds only while a question is open.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from workers.board import ASKED, FLOOR, GRANTED, GRANTED_AT, REFUSED_UNTIL
from workers.chance import chance

if TYPE_CHECKING:
    from workers.connection import Connection

FLOOR_SPREAD_NS = 1_000_000_000  # all children wait for the same floor, and should not begin in one instant
ASK_AGAIN_NS = 5_000_000_000
_VALID_MIN_NS = 100_000_000  # how long a permission holds: as long as the loop of a busy child may take to use it
_LOOK_MIN_NS, _LOOK_MAX_NS = 2_000_000, 20_000_000


class Permissions:
    """`look` until it says 0; `leave` when the attempt is not wanted any more."""

    __slots__ = ("_asked_ns", "_bell_fd", "_floors", "_number", "_valid_ns", "_waiting", "_words")

    def __init__(self, words: memoryview, rate_per_s: float, parent_bell_fd: int) -> None:
        """A rate of 0 is none."""
        self._words = words
        self._valid_ns = max(int(1e9 / rate_per_s), _VALID_MIN_NS) if rate_per_s else 0
        self._bell_fd = parent_bell_fd
        self._floors: dict[str, int] = {}
        self._waiting: deque[Connection] = deque()
        self._number = 0  # of the question that is open; 0: none
        self._asked_ns = 0

    def look(self, connection: Connection, host: str, now_ns: int) -> int:
        """When to look again; 0: begin now, which uses the permission up. `host` may be unknown, thus empty."""
        floor_ns = max(self._words[FLOOR], self._floors.get(host, 0))
        if floor_ns > now_ns:
            self.leave(connection)
            return floor_ns + int(chance() * FLOOR_SPREAD_NS)
        if not self._valid_ns:
            return 0
        if connection not in self._waiting:
            self._waiting.append(connection)
        if self._waiting[0] is not connection:
            return now_ns + _LOOK_MAX_NS
        look_ns = self._answer(now_ns)
        if not look_ns:
            self.leave(connection)
        return look_ns

    def leave(self, connection: Connection) -> None:
        """Its permission, if it has one, lapses."""
        if connection in self._waiting:
            if self._waiting[0] is connection:
                self._number = 0
            self._waiting.remove(connection)

    def refuse(self, host: str, until_ns: int, now_ns: int) -> None:
        """A server does not want to see us before then."""
        self._floors = {host: floor_ns for host, floor_ns in self._floors.items() if floor_ns > now_ns}
        self._floors[host] = max(until_ns, self._floors.get(host, 0))
        self._words[REFUSED_UNTIL] = max(self._words[REFUSED_UNTIL], until_ns)
        self._ring()

    def _answer(self, now_ns: int) -> int:
        """As `look`, for the first that waits."""
        words = self._words
        if not self._number or (words[GRANTED] < self._number and now_ns >= self._asked_ns + ASK_AGAIN_NS):
            words[ASKED] += 1
            self._number, self._asked_ns = words[ASKED], now_ns
            self._ring()
        elif words[GRANTED] >= self._number:
            at_ns: int = words[GRANTED_AT]
            if now_ns < at_ns + self._valid_ns:
                return at_ns if at_ns > now_ns else 0
            self._number = 0  # this process stood still; others have theirs by now
            return now_ns
        return now_ns + min(max((now_ns - self._asked_ns) // 2, _LOOK_MIN_NS), _LOOK_MAX_NS)

    def _ring(self) -> None:
        if self._bell_fd >= 0:
            os.eventfd_write(self._bell_fd, 1)
