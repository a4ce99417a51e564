"""The parent's side of connect pacing: it answers on the board when a child may begin its next attempt to connect.

A child writes a number (`ASKED`) and rings the bell, an eventfd that all children inherit; the answer is that number
(`GRANTED`) and a time (`GRANTED_AT`). What one child is told by a server (`REFUSED`) becomes a floor for all children
with the same key (`FLOORS`), also for those to come. `core.pacing` decides.

What holds: a child that rings without end costs a bounded part of the loop. Everything belongs to its thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable

from supervisor.core import pacing
from supervisor.core.pacing import Gate
from supervisor.processes.child import Child
from workers.board import ASKED, FLOORS, GRANTED, GRANTED_AT, REFUSED
from workers.stream import floors

_LOOK_EVERY_S = 0.005


class Gates:
    """`children` are those that live, `begun` and `ended` are told of each."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, children: Callable[[], Iterable[Child]], now_ns: Callable[[], int]
    ) -> None:
        self.bell_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop = loop
        self._children = children
        self._now_ns = now_ns
        self._gates: dict[str, Gate] = {}
        self._pause: asyncio.TimerHandle | None = None
        loop.add_reader(self.bell_fd, self._rung)

    def begun(self, child: Child) -> None:
        """Before it can do anything."""
        floors.write(child.slot.words, FLOORS, self._gate(child).floors)

    def ended(self, child: Child) -> None:
        """While its slot still says what it did last."""
        self._hear(child)
        words = child.slot.words
        if words[GRANTED]:
            self._gates[child.connect_key] = pacing.given_back(self._gate(child), words[GRANTED_AT], self._now_ns())

    def close(self) -> None:
        """Also a second time."""
        if self._pause is not None:
            self._pause.cancel()
        if self.bell_fd >= 0:
            self._loop.remove_reader(self.bell_fd)
            os.close(self.bell_fd)
            self.bell_fd = -1

    def _gate(self, child: Child) -> Gate:
        return self._gates.get(child.connect_key, Gate())

    def _rung(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell_fd)
        self._loop.remove_reader(self.bell_fd)
        self._pause = self._loop.call_later(_LOOK_EVERY_S, self._loop.add_reader, self.bell_fd, self._rung)
        children = list(self._children())
        for child in children:  # all floors before the first answer
            self._hear(child)
        for child in children:
            if child.slot.words[ASKED] != child.slot.words[GRANTED]:
                self._answer(child)

    def _hear(self, child: Child) -> None:
        heard = floors.read(child.slot.words, REFUSED)
        if not heard:
            return
        before = self._gate(child)
        after = pacing.refused(before, heard, self._now_ns())
        if after.floors != before.floors:
            self._gates[child.connect_key] = after
            for other in self._children():
                if other.connect_key == child.connect_key:
                    floors.write(other.slot.words, FLOORS, after.floors)

    def _answer(self, child: Child) -> None:
        """One question at a time: a further one is answered when the child asks it, after this answer."""
        words = child.slot.words
        asked = words[ASKED]
        gate, at_ns = pacing.granted(self._gate(child), child.connect_rate, self._now_ns())
        self._gates[child.connect_key] = gate
        words[GRANTED_AT] = at_ns
        words[GRANTED] = asked
