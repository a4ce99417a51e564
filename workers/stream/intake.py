"""What was received, on its way to the handler or straight to the sink, with what the file's pointers find in it.

What holds: a token is committed behind the events of its batch, and with a handler only once the handler returned from
its message. Without pointers nothing here costs more than a comparison for each batch.
"""

from __future__ import annotations

import time
from collections.abc import Hashable

from workers.handling.dispatch import Dispatch
from workers.resuming.checkpoint import Checkpoint
from workers.resuming.gaps import Gaps, in_words
from workers.resuming.marks import NOTHING, Found, Marks
from workers.resuming.watched import Watched
from workers.sinks.outflow import Outflow
from workers.stream.connection import Connection
from workers.websocket.frames import Message


class Intake:
    __slots__ = ("_checkpoint", "_cuts", "_dispatch", "_gaps", "_marks", "_outflow")

    def __init__(
        self,
        marks: Marks | Watched,
        gaps: Gaps | None,
        cuts: bool,
        checkpoint: Checkpoint,
        outflow: Outflow,
        dispatch: Dispatch | None,
    ) -> None:
        """`cuts`: the far end is told a checkpoint, so what lies behind a gap comes again."""
        self._marks, self._gaps, self._cuts = marks, gaps, cuts
        self._checkpoint, self._outflow, self._dispatch = checkpoint, outflow, dispatch

    def received(self, link: Hashable, connection: Connection, messages: list[Message], size: int, now_ns: int) -> str:
        """A batch of one connection. Why that has to be closed now, or empty."""
        at_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        found, reason = NOTHING, ""
        if self._marks.wanted:
            found = Found(numbers=self._marks.numbers(messages)) if self._dispatch else self._marks.all(messages)
        if self._gaps is not None and found.numbers:
            gap = self._gaps.seen(link, connection.number, found.numbers, now_ns)
            if gap is not None:
                reason = in_words(gap)
                if self._cuts:
                    messages, size, found = self._before(gap.index, messages, found)
        if self._dispatch is not None:
            if messages:
                self._dispatch.received(connection, messages, size, at_ns)
            return reason
        if messages:
            self._outflow.deliver(connection.number, messages, size, at_ns, found.ids)
            self._outflow.handled(len(messages), size)
        token = self._checkpoint.fitting(found.token)
        if token is not None:
            self._outflow.commit(token)
        return reason

    def _before(self, index: int, messages: list[Message], found: Found) -> tuple[list[Message], int, Found]:
        kept = messages[:index]
        size = sum(len(message) if isinstance(message, bytes) else len(message.encode()) for message in kept)
        ids = None if found.ids is None else found.ids[:index]
        return kept, size, Found(None if self._dispatch else self._marks.token(kept), ids)
