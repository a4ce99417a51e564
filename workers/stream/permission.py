"""When this child may begin its next TCP connection: what servers and the parent have to say about it.

With `connect_rate` the parent paces the attempts of all children of the host. This child asks on the board, for one
attempt at a time: it counts `ASKED` up and rings the parent's bell; the answer is that number in `GRANTED`, and in
`GRANTED_AT` from when on the attempt may begin. Its connections take turns in the order in which they came.

What holds:

- with a rate nothing connects without a permission of its own, which soon expires: who was held up, whatever by, must
  not connect together with others. A question that is not answered is asked again;
- a floor holds for every attempt, with a rate or without: what a server told this child (`Retry-After`), and what it
  told another child with the same `connect_key` (`FLOORS`, from the parent). It is one for the host that said it, and
  for no other;
- who waits for a turn sleeps until it comes; who has it sleeps until the time that was granted. Only while the parent
  has not answered is there something to look for, less often the longer that takes.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from workers.board import ASKED, FLOORS, GRANTED, GRANTED_AT, REFUSED
from workers.chance import chance
from workers.stream import floors
from workers.stream.floors import Floors

FLOOR_SPREAD_NS = 1_000_000_000  # all children wait for the same floor, and should not begin in one instant
ASK_AGAIN_NS = 5_000_000_000
NEVER_NS = 2**63 - 1
_VALID_MIN_NS, _VALID_MAX_NS = 100_000_000, 1_000_000_000
_LOOK_MIN_NS = 2_000_000
_SECOND_NS = 1_000_000_000


class Asker(Protocol):
    def take_turn(self) -> None:
        """It is the first in line now: `look`."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again then; `take_turn` may come first."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class Go:
    """Connect now, and not at or after `by_ns`."""

    by_ns: int


def valid_ns(rate_per_s: float) -> int:
    """How long a permission holds: as long as a busy host may take to use it, and short enough for the rate to hold."""
    return min(max(int(_SECOND_NS / rate_per_s), _VALID_MIN_NS), _VALID_MAX_NS)


class Permissions:
    """`look` until it says `Go`; `leave` when the attempt is not wanted any more."""

    __slots__ = ("_asked_ns", "_bell_fd", "_floors", "_number", "_valid_ns", "_waiting", "_words")

    def __init__(self, words: memoryview, rate_per_s: float, parent_bell_fd: int) -> None:
        """A rate of 0 is none."""
        self._words = words
        self._valid_ns = valid_ns(rate_per_s) if rate_per_s else 0
        self._bell_fd = parent_bell_fd
        self._floors: Floors = {}
        self._waiting: deque[Asker] = deque()
        self._number = 0  # of the question that is open; 0: none
        self._asked_ns = 0

    # --- floors ---------------------------------------------------------------------------------------------

    def held_until(self, host: str, now_ns: int) -> int:
        """Before then nothing may go to that host; 0: it may now. The host may be unknown, thus empty."""
        mark = floors.mark_of(host)
        floor_ns = max(self._floors.get(mark, 0), floors.read(self._words, FLOORS).get(mark, 0))
        return floor_ns + int(chance() * FLOOR_SPREAD_NS) if floor_ns > now_ns else 0

    def refuse(self, host: str, until_ns: int, now_ns: int) -> None:
        """A server does not want to see us before then."""
        self._floors = floors.merged(self._floors, {floors.mark_of(host): until_ns}, now_ns)
        floors.write(self._words, REFUSED, self._floors)
        self._ring()

    # --- the rate -------------------------------------------------------------------------------------------

    def look(self, asker: Asker, now_ns: int) -> Wait | Go:
        """`Go` uses the permission up."""
        if not self._valid_ns:
            return Go(NEVER_NS)
        if asker not in self._waiting:
            self._waiting.append(asker)
        if self._waiting[0] is not asker:
            return Wait(NEVER_NS)
        step = self._answer(now_ns)
        if isinstance(step, Go):
            self.leave(asker)
        return step

    def leave(self, asker: Asker) -> None:
        """Its permission, if it has one, lapses."""
        if asker not in self._waiting:
            return
        first = self._waiting[0] is asker
        self._waiting.remove(asker)
        if first:
            self._number = 0
            if self._waiting:
                self._waiting[0].take_turn()

    def _answer(self, now_ns: int) -> Wait | Go:
        """As `look`, for the first that waits."""
        words = self._words
        if self._number and words[GRANTED] >= self._number:
            at_ns: int = words[GRANTED_AT]
            if now_ns < at_ns + self._valid_ns:
                return Wait(at_ns) if at_ns > now_ns else Go(at_ns + self._valid_ns)
            self._number = 0  # this process stood still; others have theirs by now
        if not self._number or now_ns >= self._asked_ns + ASK_AGAIN_NS:
            words[ASKED] += 1
            self._number, self._asked_ns = words[ASKED], now_ns
            self._ring()
        return Wait(now_ns + min(max((now_ns - self._asked_ns) // 2, _LOOK_MIN_NS), self._valid_ns // 2))

    def _ring(self) -> None:
        if self._bell_fd >= 0:
            os.eventfd_write(self._bell_fd, 1)
