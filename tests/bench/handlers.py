"""Handlers that do next to nothing, for benchmarks: what remains is the price of calling them."""

from __future__ import annotations

from tenured import Handler
from workers.handler import Connection, Message


class Each(Handler):
    def message(self, connection: Connection, message: Message) -> None:
        """Called for each message."""


class Batches(Handler):
    def messages(self, connection: Connection, batch: list[Message]) -> None:
        """Called for each batch."""


class Emits(Handler):
    def message(self, connection: Connection, message: Message) -> None:
        self.emit(message)
