"""What the loop of a child waits for: files, a time, and links that have something to read whatever epoll says."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.stream.link import Link

NEVER_NS = 2**63 - 1


class Poller:
    """`due_ns` is when something is due; whoever looks sets it anew."""

    __slots__ = ("_again", "_epoll", "_ready", "due_ns")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ready: dict[int, Callable[[int], object]] = {}  # by file: what to do when epoll reports events of it
        self._again: set[Link] = set()
        self.due_ns = 0

    def close(self) -> None:
        self._epoll.close()

    def wake_at(self, due_ns: int) -> None:
        self.due_ns = min(self.due_ns, due_ns)

    def watch(self, fd: int, ready: Callable[[int], object], before: int, events: int) -> None:
        """Whom to call with what is reported of a file; `before` is what was asked for so far, 0 in either: nothing."""
        if not events:
            self._epoll.unregister(fd)
            del self._ready[fd]
        elif not before:
            self._epoll.register(fd, events)
            self._ready[fd] = ready
        else:
            self._epoll.modify(fd, events)

    def listen(self, fd: int, ready: Callable[[int], object]) -> None:
        self.watch(fd, ready, 0, select.EPOLLIN)

    def again(self, link: Link) -> None:
        """It has something to read, whatever epoll says."""
        self._again.add(link)

    def forget(self, link: Link) -> None:
        self._again.discard(link)

    def wait(self, wait_ns: int) -> None:
        """Serve what is ready, after that time at the latest."""
        for fd, events in self._epoll.poll(0 if self._again or wait_ns < 0 else wait_ns / 1e9):
            if ready := self._ready.get(fd):  # none: it was closed by what another one had to say
                ready(events)
        if self._again:
            again, self._again = self._again, set()
            for link in again:
                link.readable()
