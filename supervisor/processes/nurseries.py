"""Which fork server makes the next child, while one that was prepared otherwise goes and another one comes.

    serving   makes all children that are asked for now
    other     is not ready yet and will serve next, or has served and lives for the children that it still has

What holds:

- at most two fork servers exist at any time, and one counts until it was seen dead;
- one that is prepared as wanted serves as soon as it is ready, and until then the one before goes on to serve: a new
  one that never becomes ready takes nothing down. Children that the old one makes meanwhile import for themselves what
  it lacks; requests that it has not been sent move to the new one;
- one that is not wanted any more ends with its last child, and is not started again when it dies. If it is wanted again
  before that, it serves again, with what it has imported;
- a third preparation waits until the one that does not serve has no children, which `crowding` tells; of several that
  wait, the last one asked for counts.

Every method belongs to the thread of the loop. Answers come from the loop, never from within a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from supervisor.processes.nursery import Died, Nursery, Request
from supervisor.processes.server import Seat, Server
from workers.process.wire import Message, Preparation, Start


class Nurseries:
    """`on_message` gets what `Nursery` says, and the pid of the fork server that said it. `prepare` comes first."""

    def __init__(
        self,
        seat: Seat,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[Message | Died, int | None, int], None],
    ) -> None:
        self._seat = seat
        self._loop = loop
        self._on_message = on_message
        self._wanted: Preparation | None = None
        self._serving: Nursery | None = None
        self._other: Nursery | None = None

    def prepare(self, wanted: Preparation) -> None:
        """Have a fork server that is prepared like this, and no other in the end."""
        self._wanted = wanted
        self._settle()

    def ask(self, start: Start, task: bytes) -> None:
        if self._serving is None:
            raise RuntimeError("there is no fork server to ask: prepare comes before start")
        self._serving.ask(Request(start, task))

    def withdraw(self, start: Start) -> bool:
        """Take a request back. False: it has been sent, and its answer will come."""
        return any(nursery.withdraw(start) for nursery in self._all())

    def freed(self, slot: int) -> None:
        """The child that had this slot is dead."""
        for nursery in self._all():
            nursery.slots.discard(slot)
        self._settle()

    def crowding(self) -> frozenset[int]:
        """The slots of the children that keep one fork server too many alive, while another is waited for."""
        if self._other is None or self._wanted in [nursery.asked_for for nursery in self._all()]:
            return frozenset()
        return frozenset(self._other.slots)

    @property
    def preparing(self) -> bool:
        """A fork server is on its way to serve, for the first time; it ends in `Ready` or, after a while, in `Died`."""
        return self._other is not None and self._other.firstborn and not self._is_needless(self._other)

    def pids(self) -> tuple[int, ...]:
        """Of the fork servers that are not known to be dead; the one that serves comes first."""
        return tuple(nursery.pid for nursery in self._all() if nursery.pid is not None)

    def close(self) -> list[Server]:
        """Kill them and answer nothing any more. They wait to be seen dead and collected."""
        servers = [nursery.close() for nursery in self._all()]
        self._serving = self._other = None
        return [server for server in servers if server is not None]

    def _all(self) -> list[Nursery]:
        return [nursery for nursery in (self._serving, self._other) if nursery is not None]

    def _hear(self, nursery: Nursery, message: Message | Died, fd: int | None) -> None:
        if isinstance(message, Died) and nursery is self._other and self._is_needless(nursery):
            nursery.close()
            self._other = None
            message = Died(message.pid, message.status, None)
        self._on_message(message, fd, nursery.pid or 0)
        self._settle()

    def _is_needless(self, nursery: Nursery) -> bool:
        return nursery.ending or nursery.asked_for != self._wanted

    def _settle(self) -> None:
        """After anything that may have changed whose turn it is."""
        serving, other = self._serving, self._other
        if self._wanted is None:
            return
        if serving is None:
            self._serving = self._begun(self._wanted)
        elif other is None:
            if serving.asked_for != self._wanted:
                self._other = self._begun(self._wanted)
        elif self._is_needless(other):
            if not other.slots:
                other.end()
        elif other.ready:
            self._serving, self._other = other, serving
            for request in serving.surrender():
                other.ask(request)
            self._settle()

    def _begun(self, preparation: Preparation) -> Nursery:
        return Nursery(self._seat, preparation, self._loop, self._hear)
