"""What a connection needs of the shard that it belongs to."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

from workers.dial import Attempt, Opened
from workers.frames import Message
from workers.log import Log
from workers.session import Policy
from workers.target import Target

if TYPE_CHECKING:
    from workers.connection import Connection


class Home(Protocol):
    """What a connection needs of its shard. `target` and `connect` are called in the thread of an attempt, `settled`
    also; all else on the loop."""

    policy: Policy
    log: Log
    message_max_bytes: int
    stopping: bool

    def target(self, connection: Connection) -> Target: ...

    def connect(self, target: Target) -> Opened: ...

    def settled(self, connection: Connection, attempt: Attempt) -> None: ...

    def watch(self, connection: Connection, sock: socket.socket, before: int, events: int) -> None: ...

    def wake_at(self, due_ns: int) -> None: ...

    def again(self, connection: Connection) -> None:
        """Call `readable` in the next turn, whatever epoll says."""

    def held(self, connection: Connection) -> bool:
        """Do not read now; `resume` will be called."""

    def backlogged(self, connection: Connection) -> bool:
        """The consumer has not seen all of the last connection yet."""

    def floor_ns(self, host: str) -> int: ...

    def set_floor(self, host: str, until_ns: int) -> None: ...

    def opened(self, connection: Connection) -> None: ...

    def received(self, connection: Connection, messages: list[Message], size: int, now_ns: int) -> None: ...

    def closed(self, connection: Connection, code: int, reason: str) -> None: ...
