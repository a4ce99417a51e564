"""Events on their way out: numbered, counted on the board, handed to the delivery.

What holds: `seq` counts from 1 within the epoch, without a gap, in the order of delivery. Whoever has to wait for the
sink outside of the loop's turn keeps the child's heartbeat going, shows how the sink fares, and looks whether the child
is to stop, from when on a sink that is away is waited for no longer (`leave`). A consumer sees by a gap in `seq` what
`overflow = drop_oldest` lost.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from workers.board import BYTES, EVENTS_DROPPED, HEARTBEAT, MESSAGES, Slot
from workers.log import Log
from workers.process.kernel import boottime_ns
from workers.resuming.marks import Ids, Marks
from workers.resuming.watched import Watched
from workers.sinks.condition import Condition
from workers.sinks.delivery import Delivery, Direct
from workers.sinks.envelope import Batch
from workers.sinks.interface import Sink
from workers.sinks.lane import Lane
from workers.spec import StreamSpec
from workers.websocket.frames import Message

_WAIT_MAX_MS = 500
_SAID_EVERY_NS = 10_000_000_000


class Bell:
    """Lets any thread wake the loop, which watches `fd`."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def ring(self) -> None:
        os.eventfd_write(self.fd, 1)

    def quiet(self, _events: int = 0) -> None:
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

    def __init__(
        self,
        slot: Slot,
        sink: Sink,
        condition: Condition,
        log: Log,
        spec: StreamSpec,
        bell: Bell,
        marks: Marks | Watched,
    ) -> None:
        self._slot, self._words = slot, slot.words
        self._sink, self._condition = sink, condition
        self._log = log
        self._spec = spec
        self._bell = bell
        self._marks = marks
        self._dropped_said = self._dropped_said_ns = 0
        self._delivery: Delivery | None = None
        self._seq = self._messages = self._bytes = 0
        self.asked_to_stop: Callable[[], bool] = bool  # nobody has; who runs the loop knows better
        self.token = ""  # the newest one that stands behind the events handed over so far, safe already or not

    @property
    def full(self) -> bool:
        return self._delivery is not None and self._delivery.full

    @property
    def failure(self) -> str:
        """Why nothing can be delivered any more, or empty."""
        return self._delivery.failure if self._delivery else ""

    @property
    def away(self) -> bool:
        """It is because a stop did not wait for the sink."""
        return self._delivery is not None and self._delivery.away

    def _begun(self) -> Delivery:
        if self._delivery is None:
            sink, slot, spec = self._sink, self._slot, self._spec
            if sink.inline:
                self._delivery = Direct(sink, slot)
            else:
                drops = spec.overflow == "drop_oldest"
                self._delivery = Lane(sink, slot, self._condition, self._bell.ring, spec.sink_buffer, drops)
        return self._delivery

    def show(self, now_ns: int) -> None:
        """How the delivery fares; in each turn of the loop, and by whoever waits here instead."""
        if self._delivery is not None:
            self._condition.show(self._delivery.waiting_bytes, now_ns)
            if self._delivery.dropped != self._dropped_said:
                self._show_dropped(self._delivery.dropped, now_ns)

    def _show_dropped(self, dropped: int, now_ns: int, last: bool = False) -> None:
        self._words[EVENTS_DROPPED] = dropped
        if now_ns >= self._dropped_said_ns + _SAID_EVERY_NS or last:
            reason = "the sink is slower than the feed, or refuses them, and overflow = drop_oldest"
            self._log("events.dropped", "WARNING", count=dropped - self._dropped_said, total=dropped, reason=reason)
            self._dropped_said, self._dropped_said_ns = dropped, now_ns

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

    def settle(self, number: int) -> None:
        """Let `settled` reach it once all that was delivered before is safe; the bell rings then."""
        self._begun().settle(number)

    @property
    def settled(self) -> int:
        return self._delivery.settled if self._delivery else 0

    def wait_for_room(self) -> None:
        while self.full and not self.failure:
            self._pause()

    def _pause(self) -> None:
        self._words[HEARTBEAT] = now_ns = boottime_ns()
        self.show(now_ns)
        if self.asked_to_stop():
            self.leave()
        self._bell.wait()

    def leave(self) -> None:
        """The child stops: what the sink was about to try later it tries now, and waits no more."""
        self._condition.leave()

    def finish(self) -> None:
        """Wait until everything is safe and the sink is closed."""
        delivery = self._begun()
        delivery.finish()
        while not delivery.finished:
            self._pause()
        if delivery.dropped != self._dropped_said:
            self._show_dropped(delivery.dropped, boottime_ns(), last=True)
