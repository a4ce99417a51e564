"""Who of this child may connect next, and to which hosts nobody may: what servers and the parent have to say about it.

With `connect_rate` the parent paces the attempts of all children of the host. This child asks for one attempt at a time
(see `question`), so its connections stand in line, in the order in which they came.

What holds:

- with a rate nothing connects without a permission of its own;
- a floor holds for every attempt, with a rate or without: what a server told this child (`Retry-After`), and what it
  told another child with the same `connect_key` (`FLOORS`, from the parent). It is one for the host that said it, and
  for no other;
- who stands in line sleeps until `take_turn`.

All is called on the loop, but `held_until`, which any thread may call.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from workers.board import FLOORS, REFUSED
from workers.chance import chance
from workers.stream import floors
from workers.stream.floors import Floors
from workers.stream.question import Question, ring

FLOOR_SPREAD_NS = 1_000_000_000  # all children wait for the same floor, and should not begin in one instant


class Asker(Protocol):
    def take_turn(self) -> None:
        """It is the first in line now: `ask`."""


class Permissions:
    """`ask` when it is there to connect; `leave` when it has begun, or is not wanted any more."""

    __slots__ = ("_bell_fd", "_floors", "_question", "_rate_per_s", "_waiting", "_words")

    def __init__(self, words: memoryview, rate_per_s: float, parent_bell_fd: int) -> None:
        """A rate of 0 is none."""
        self._words = words
        self._rate_per_s = rate_per_s
        self._bell_fd = parent_bell_fd
        self._floors: Floors = {}
        self._waiting: deque[Asker] = deque()
        self._question: Question | None = None  # of the first of them

    @property
    def needed(self) -> bool:
        return self._rate_per_s > 0

    # --- floors ---------------------------------------------------------------------------------------------

    def held_until(self, host: str, now_ns: int) -> int:
        """Before then nothing may go to that host; 0: it may now."""
        mark = floors.mark_of(host)
        floor_ns = max(self._floors.get(mark, 0), floors.read(self._words, FLOORS).get(mark, 0))
        return floor_ns + int(chance() * FLOOR_SPREAD_NS) if floor_ns > now_ns else 0

    def refuse(self, host: str, until_ns: int, now_ns: int) -> None:
        """A server does not want to see us before then."""
        self._floors = floors.merged(self._floors, {floors.mark_of(host): until_ns}, now_ns)
        floors.write(self._words, REFUSED, self._floors)
        ring(self._bell_fd)

    # --- the line -------------------------------------------------------------------------------------------

    def ask(self, asker: Asker) -> Question | None:
        """None: others are before it; it stands in line, and is told when it is its turn."""
        if asker not in self._waiting:
            self._waiting.append(asker)
        if self._waiting[0] is not asker:
            return None
        self._question = Question(self._words, self._rate_per_s, self._bell_fd)
        return self._question

    def leave(self, asker: Asker) -> None:
        """Its permission, if it has one and has not begun, lapses."""
        if asker not in self._waiting:
            return
        first = self._waiting[0] is asker
        self._waiting.remove(asker)
        if not first:
            return
        if self._question is not None:
            self._question.drop()
            self._question = None
        if self._waiting:
            self._waiting[0].take_turn()
