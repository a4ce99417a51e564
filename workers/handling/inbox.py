"""What happened on connections and waits for a handler, in order.

What holds: what happened on one connection stays in its order; connections take turns, an item each.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from workers.handler import Connection
from workers.websocket.frames import Message


@dataclass(frozen=True, slots=True)
class Opened:
    pass


@dataclass(frozen=True, slots=True)
class Received:
    messages: list[Message]
    size: int
    at_ns: int  # unix


@dataclass(frozen=True, slots=True)
class Closed:
    code: int
    reason: str


Item = Opened | Received | Closed


class Inbox:
    """Falsy when it is empty."""

    __slots__ = ("_items", "position")

    def __init__(self) -> None:
        self._items: dict[Connection, deque[Item]] = {}  # never an empty queue
        self.position = 0  # how many messages of the next item were handed over

    def __bool__(self) -> bool:
        return bool(self._items)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._items

    @property
    def messages(self) -> int:
        """How many wait."""
        items = [item for queue in self._items.values() for item in queue]
        return sum(len(item.messages) for item in items if isinstance(item, Received)) - self.position

    def put(self, connection: Connection, item: Item) -> None:
        self._items.setdefault(connection, deque()).append(item)

    @property
    def next(self) -> tuple[Connection, Item]:
        """It stays the next one until it is `done`."""
        connection = next(iter(self._items))
        return connection, self._items[connection][0]

    def done(self) -> None:
        """The next item was handed over; its connection stands behind the others."""
        self.position = 0
        connection = next(iter(self._items))
        queue = self._items.pop(connection)
        queue.popleft()
        if queue:
            self._items[connection] = queue
