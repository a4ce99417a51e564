"""One child as the parent holds it: its slot of the board, and its pidfd once it has one.

`pidfd` is -1 until the fork server has handed it over; from then on it names this process and no other, whatever
becomes of its number. All that is decided about a child is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass

from supervisor.core.model import Report
from supervisor.processes.child_events import Exited
from supervisor.processes.server import described
from workers import board as words_of
from workers.board import Slot
from workers.process.wire import Start


@dataclass(slots=True, eq=False)
class Child:
    """`doomed`: it is to die at birth. `gone`: its pidfd was seen readable. `killed`: by us; `signalled`: also in any
    other way. `server_pid`: of the fork server that made it. `deadline_ns` is what the slot said when it was given up.
    `status`: how it ended, once that is known. `untold`: its death, of which nobody was told yet."""

    shard: str
    start: Start
    slot: Slot
    connect_key: str = ""
    connect_rate: float = 0.0
    pid: int = 0
    pidfd: int = -1
    doomed: bool = False
    gone: bool = False
    killed: bool = False
    signalled: bool = False
    status: str = ""
    untold: Exited | None = None
    server_pid: int = 0
    deadline_ns: int = 0
    checkpoint: str | None = None
    generation: int = 0
    trouble: str = ""
    trouble_generation: int = 0

    @property
    def epoch(self) -> int:
        return self.start.epoch

    def report(self) -> Report:
        self._read_texts()
        words = self.slot.words
        return Report(
            epoch=self.epoch,
            heartbeat_ns=words[words_of.HEARTBEAT],
            started=words[words_of.STARTED] != 0,
            open=words[words_of.OPEN],
            want=words[words_of.WANT],
            messages=words[words_of.MESSAGES],
            last_event_ns=words[words_of.LAST_EVENT],
            checkpoint=self.checkpoint,
            bytes=words[words_of.BYTES],
            connects=words[words_of.CONNECTS],
            trouble=self.trouble,
            handler_errors=words[words_of.HANDLER_ERRORS],
            gaps=words[words_of.GAPS],
            violations=words[words_of.VIOLATIONS],
            silences=words[words_of.SILENCES],
            tokens_dropped=words[words_of.TOKENS_DROPPED],
            events_dropped=words[words_of.EVENTS_DROPPED],
            sink_waiting_bytes=words[words_of.SINK_WAITING],
            sink_stalled_ns=words[words_of.SINK_STALLED],
            sink_retries=words[words_of.SINK_RETRIES],
        )

    def _read_texts(self) -> None:
        """Those that changed; one that cannot be read now stays as it was, and is read again at the next look."""
        words = self.slot.words
        generation = words[words_of.GENERATION]
        if generation != self.generation and (checkpoint := self.slot.read_checkpoint()) is not None:
            self.checkpoint, self.generation = checkpoint, generation
        generation = words[words_of.TROUBLE_GENERATION]
        if generation != self.trouble_generation and (trouble := self.slot.read_trouble()) is not None:
            self.trouble, self.trouble_generation = trouble, generation

    def ended(self, status: int, now_ns: int) -> str:
        """Its exit status in words. A deadline that has passed explains a kill that was not ours: the fence did it."""
        deadline_ns = self.deadline_ns or self.slot.words[words_of.DEADLINE]
        if status == -signal.SIGKILL and not self.killed and now_ns >= deadline_ns:
            return f"{described(status)}: its deadline passed"
        return described(status)

    def signal(self, number: signal.Signals) -> None:
        self.signalled = True
        self.killed = self.killed or number == signal.SIGKILL
        with contextlib.suppress(ProcessLookupError):  # it is gone, and its pidfd is about to say so
            signal.pidfd_send_signal(self.pidfd, number)
