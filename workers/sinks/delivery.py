"""The way from the loop to the sink: bounded, in order, and nothing of it after the deadline.

What holds:

- each hand-over, and again each write of the sink, is preceded by a look at the board: at or after the deadline this
  process ends on the spot (the kernel's timer normally was first);
- a sink that never waits is called by the loop (`Direct`), any other one by a thread of its own (see `lane`);
- a checkpoint is on the board only after the sink has flushed every event handed over before it;
- an error of a sink ends the child: `failure` says why.

A frozen machine can still be between the look and the write; the epoch in each event is for that.
"""

from __future__ import annotations

import os
from typing import Protocol

from workers.board import DEADLINE, Slot
from workers.process.kernel import boottime_ns
from workers.sinks.envelope import Batch
from workers.sinks.interface import Sink

FENCED = 3  # exit code of a child that saw its deadline pass


def end_if_fenced(slot: Slot, now_ns: int) -> None:
    """Nothing may be delivered at or after the deadline: not even an exit handler runs."""
    if now_ns >= slot.words[DEADLINE]:
        os._exit(FENCED)


class Delivery(Protocol):
    @property
    def full(self) -> bool:
        """Do not `put` now if that can be avoided."""

    @property
    def waiting_bytes(self) -> int:
        """Of events that were put and are not written."""

    @property
    def dropped(self) -> int:
        """Events that were put and never will be written."""

    @property
    def failure(self) -> str:
        """Why nothing can be delivered any more, or empty."""

    @property
    def away(self) -> bool:
        """It is a failure that might have passed, and that a stop did not wait for."""

    def put(self, batch: Batch) -> None: ...

    def commit(self, token: str) -> None:
        """Write a checkpoint once all that was put before is safe."""

    def settle(self, number: int) -> None:
        """Let `settled` reach a number, larger than any before, once all that was put before is safe."""

    @property
    def settled(self) -> int: ...

    def finish(self) -> None:
        """No more will be put; `finished` becomes true when everything is safe and the sink is closed."""

    @property
    def finished(self) -> bool: ...


class Direct:
    """For a sink that never waits: it is called on the loop itself."""

    full = away = False
    waiting_bytes = dropped = 0

    def __init__(self, sink: Sink, slot: Slot) -> None:
        self._sink = sink
        self._slot = slot
        self.failure = ""
        self.finished = False
        self.settled = 0

    def put(self, batch: Batch) -> None:
        end_if_fenced(self._slot, boottime_ns())
        self._sink.write([batch])

    def commit(self, token: str) -> None:
        self._slot.write_checkpoint(token)

    def settle(self, number: int) -> None:
        self.settled = number

    def finish(self) -> None:
        self._sink.close()
        self.finished = True
