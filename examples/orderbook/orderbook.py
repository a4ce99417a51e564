"""An order book that is right: a snapshot, then diffs whose numbers must follow each other and whose checksums hold.

What it shows: `messages`, so that the best prices are looked for once for all that arrived together; a fresh snapshot
after a gap, asked for on the same connection; a timer that gives up a connection on which none comes.

Emitted is each change of the best prices, {"symbol", "seq", "bid": [price, size], "ask": [price, size]}; of changes
that arrive together the last one. There is no checkpoint, since a new child starts from a new snapshot anyway. Leave
`max_age` off: while one connection replaces another, two series of diffs would arrive.
"""

from __future__ import annotations

import heapq
import json
import zlib
from decimal import Decimal
from typing import Any

from tenured import Connection, Handler, Message, Shard, Timer

PATIENCE_S = 10  # for a snapshot
CHECKED_LEVELS = 10  # of each side


class Wrong(Exception):
    """The book is not that of the exchange any more."""


class Book:
    """Both sides by price; prices and sizes stay the texts that came, since the checksum is made of them."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self.seq: int = snapshot["seq"]
        self._bids: dict[str, str] = dict(snapshot["bids"])
        self._asks: dict[str, str] = dict(snapshot["asks"])

    def apply(self, diff: dict[str, Any]) -> None:
        """Raises `Wrong` for one that does not follow, or leads to another book than that of the exchange."""
        if diff["seq"] <= self.seq:
            return  # the snapshot was newer
        if diff["seq"] != self.seq + 1:
            raise Wrong(f"diff {diff['seq']} came after {self.seq}")
        for side, changes in ((self._bids, diff["bids"]), (self._asks, diff["asks"])):
            for price, size in changes:
                if Decimal(size):
                    side[price] = size
                else:
                    side.pop(price, None)
        self.seq = diff["seq"]
        if "checksum" in diff and diff["checksum"] != self.checksum:
            raise Wrong(f"the checksum of diff {self.seq} does not hold")

    @property
    def checksum(self) -> int:
        bids = heapq.nlargest(CHECKED_LEVELS, self._bids.items(), key=_price)
        asks = heapq.nsmallest(CHECKED_LEVELS, self._asks.items(), key=_price)
        return zlib.crc32("|".join(f"{price}:{size}" for price, size in bids + asks).encode())

    @property
    def top(self) -> dict[str, tuple[str, str] | None]:
        return {
            "bid": max(self._bids.items(), key=_price, default=None),
            "ask": min(self._asks.items(), key=_price, default=None),
        }


def _price(level: tuple[str, str]) -> Decimal:
    return Decimal(level[0])


class OrderBook(Handler):
    def start(self, shard: Shard) -> None:
        self.symbol = shard.index
        self.book: Book | None = None  # None: a snapshot is to come
        self.patience: Timer | None = None
        self.top: dict[str, tuple[str, str] | None] = {}

    def opened(self, connection: Connection) -> None:
        self.expect_snapshot(connection)  # the subscription of the file brings one

    def messages(self, connection: Connection, batch: list[Message]) -> None:
        for message in batch:
            self.take(connection, json.loads(message))
        if self.book is not None and (top := self.book.top) != self.top:
            self.top = top
            self.emit(json.dumps({"symbol": self.symbol, "seq": self.book.seq, **top}))

    def take(self, connection: Connection, event: dict[str, Any]) -> None:
        if event["type"] == "snapshot":
            self.book = Book(event)
            self.stop_waiting()
        elif event["type"] == "diff" and self.book is not None:
            try:
                self.book.apply(event)
            except Wrong as error:
                print(f"{self.symbol}: {error}; asking for a snapshot")  # goes to stderr
                self.expect_snapshot(connection)
                connection.send(json.dumps({"op": "snapshot", "symbol": self.symbol}))

    def expect_snapshot(self, connection: Connection) -> None:
        self.book = None
        self.stop_waiting()
        self.patience = self.every(PATIENCE_S, lambda: connection.close(4000))

    def stop_waiting(self) -> None:
        if self.patience is not None:
            self.patience.cancel()

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        self.book = None
        self.stop_waiting()
