"""One child as the parent holds it: its slot of the board, and its pidfd once it has one.

`pidfd` is -1 until the fork server has handed it over; from then on it names this process and no other, whatever
becomes of its number. All that is decided about a child is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass

from supervisor.model import Report
from workers import board as words_of
from workers.board import Slot
from workers.wire import Start


@dataclass(slots=True, eq=False)
class Child:
    """`doomed`: it is to die at birth. `gone`: its pidfd was seen readable."""

    shard: str
    start: Start
    slot: Slot
    pid: int = 0
    pidfd: int = -1
    doomed: bool = False
    gone: bool = False
    checkpoint: str | None = None
    generation: int = 0

    @property
    def epoch(self) -> int:
        return self.start.epoch

    def report(self) -> Report:
        words = self.slot.words
        generation = words[words_of.GENERATION]
        if generation != self.generation:
            checkpoint = self.slot.read_checkpoint()
            if checkpoint is not None:
                self.checkpoint, self.generation = checkpoint, generation
        return Report(
            epoch=self.epoch,
            heartbeat_ns=words[words_of.HEARTBEAT],
            started=words[words_of.STARTED] != 0,
            open=words[words_of.OPEN],
            want=words[words_of.WANT],
            messages=words[words_of.MESSAGES],
            last_event_ns=words[words_of.LAST_EVENT],
            checkpoint=self.checkpoint,
        )

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it is gone, and its pidfd is about to say so
            signal.pidfd_send_signal(self.pidfd, number)
