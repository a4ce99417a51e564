"""Events on their way out: numbered, counted on the board, handed to the delivery.

What holds: `seq` counts from 1 within the epoch, without a gap, in the order of delivery. Whoever has to wait for the
sink outside of the loop's turn keeps the child's heartbeat going.
"""

from __future__ import annotations

import os
import select

from workers.board import BYTES, HEARTBEAT, MESSAGES, Slot
from workers.delivery import Delivery, Direct, Lane
from workers.envelope import Batch
from workers.frames import Message
from workers.kernel import boottime_ns
from workers.marks import Ids, Marks
from workers.sinks.interface import Sink

_WAIT_MAX_MS = 500


class Bell:
    """Lets any thread wake the loop, which watches `fd`."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def ring(self) -> None:
        os.eventfd_write(self.fd, 1)

    def quiet(self) -> None:
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:  # nobody has rung since the last time
            return

    def wait(self) -> None:
        """Outside of the loop: until it rings, half a second at most."""
        if self._poll.poll(_WAIT_MAX_MS):
            self.quiet()


class Outflow:
    """What a handler's events, or the messages themselves, go through. The delivery begins with its first work: until
    then a child has a thread less."""

    def __init__(self, slot: Slot, sink: Sink, bell: Bell, marks: Marks) -> None:
        self._slot, self._words = slot, slot.words
        self._sink = sink
        self._bell = bell
        self._marks = marks
        self._delivery: Delivery | None = None
        self._seq = self._messages = self._bytes = 0
        self.token = ""  # the newest one that stands behind the events handed over so far, safe already or not

    @property
    def full(self) -> bool:
        return self._delivery is not None and self._delivery.full

    @property
    def failure(self) -> str:
        """Why nothing can be delivered any more, or empty."""
        return self._delivery.failure if self._delivery else ""

    def _begun(self) -> Delivery:
        if self._delivery is None:
            sink, slot = self._sink, self._slot
            self._delivery = Direct(sink, slot) if sink.inline else Lane(sink, slot, self._bell.ring)
        return self._delivery

    def deliver(
        self, connection: int | None, messages: list[Message], size: int, at_ns: int, ids: Ids | None = None
    ) -> None:
        """`at_ns`: unix time of arrival; `ids`: what was found already."""
        found = self._marks.ids(messages) if ids is None else ids
        self._begun().put(Batch(connection, self._seq + 1, at_ns, messages, size, found))
        self._seq += len(messages)

    def handled(self, messages: int, size: int) -> None:
        """Count messages that were handed over."""
        self._messages += messages
        self._bytes += size
        self._words[MESSAGES] = self._messages
        self._words[BYTES] = self._bytes

    def commit(self, token: str) -> None:
        """A token that fits the board."""
        self.token = token
        self._begun().commit(token)

    def wait_for_room(self) -> None:
        while self.full and not self.failure:
            self._words[HEARTBEAT] = boottime_ns()
            self._bell.wait()

    def finish(self) -> None:
        """Wait until everything is safe and the sink is closed."""
        delivery = self._begun()
        delivery.finish()
        while not delivery.finished:
            self._words[HEARTBEAT] = boottime_ns()
            self._bell.wait()
