"""What a connection and its links need of the shard that they belong to."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from workers.log import Log
from workers.stream.permission import Permissions
from workers.stream.session import Policy, Refusal
from workers.stream.target import Target
from workers.troubles import Troubles
from workers.websocket.dial import Opened
from workers.websocket.frames import Message
from workers.websocket.route import Route

if TYPE_CHECKING:
    from workers.stream.connection import Connection
    from workers.stream.farewell import End
    from workers.stream.link import Link


class Home(Protocol):
    """`target`, `route`, `connect` and `tell` are called in the thread of an attempt, all else on the loop."""

    policy: Policy
    log: Log
    message_max_bytes: int
    stopping: bool
    troubles: Troubles
    permissions: Permissions

    def target(self, connection: Connection) -> Target: ...

    def route(self, target: Target, deadline_ns: int) -> Route: ...

    def connect(self, route: Route, begin_by_ns: int) -> Opened | Route: ...

    def tell(self, heard: Callable[[int], object]) -> None:
        """Call it on the loop, with the time."""

    def watch(self, link: Link, sock: socket.socket, before: int, events: int) -> None: ...

    def wake_at(self, due_ns: int) -> None: ...

    def again(self, link: Link) -> None:
        """Call `readable` in the next turn, whatever epoll says."""

    def held(self, link: Link) -> bool:
        """Do not read now; `resume` will be called."""

    def backlogged(self, connection: Connection) -> bool:
        """The consumer has not seen all of the last connection yet."""

    def count(self, word: int) -> None:
        """One more, on the board."""

    def opened(self, link: Link) -> None:
        """While its connection does not count it among its links yet."""

    def refused(self, connection: Connection, refusal: Refusal, checkpoint: str) -> None:
        """An attempt failed, which asked to go on from that checkpoint."""

    def received(self, link: Link, messages: list[Message], size: int, now_ns: int) -> None: ...

    def closed(self, link: Link, end: End) -> None:
        """While its connection does not count it any more."""
