"""The exchange of `examples/orderbook`: python3 -m tests.examples.exchange

Each symbol has a book that changes with every tick. A subscription, or {"op": "snapshot"}, is answered by the whole
book; then come diffs, some with a checksum. On demand it loses diffs on the way, or sends wrong ones. `tops` is what
the best prices of a symbol really were at each number.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from typing import Any

from tests.examples.far_end import Line, run

PORT = 8801
TICK_S = 0.02
CHECKED_EVERY = 5  # diffs
LEVELS = 20
_MIDDLE = 100_00  # cents


class Market:
    """One symbol: sizes by price in cents, and who follows it."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.seq = 0
        self.bids = {_MIDDLE - step: step for step in range(1, LEVELS)}
        self.asks = {_MIDDLE + step: step for step in range(1, LEVELS)}
        self.tops: dict[int, Any] = {0: self.top}
        self._random = random.Random(5)

    def move(self) -> dict[str, Any]:
        """The diff of the next number."""
        self.seq += 1
        changes = {"bids": [self._change(self.bids, -1)], "asks": [self._change(self.asks, 1)]}
        self.tops[self.seq] = self.top
        checked = {"checksum": self._checksum()} if self.seq % CHECKED_EVERY == 0 else {}
        return {"type": "diff", "seq": self.seq, **changes, **checked}

    def _change(self, side: dict[int, int], sign: int) -> list[str]:
        price = _MIDDLE + sign * self._random.randrange(1, LEVELS)
        if len(side) > 1 and side.pop(price, 0):
            return _level(price, 0)
        side[price] = self.seq
        return _level(price, self.seq)

    def snapshot(self) -> dict[str, Any]:
        bids, asks = ([_level(*each) for each in side.items()] for side in (self.bids, self.asks))
        return {"type": "snapshot", "seq": self.seq, "bids": bids, "asks": asks}

    @property
    def top(self) -> dict[str, list[str]]:
        bid, ask = max(self.bids), min(self.asks)
        return {"bid": _level(bid, self.bids[bid]), "ask": _level(ask, self.asks[ask])}

    def _checksum(self) -> int:
        best = sorted(self.bids.items(), reverse=True)[:10] + sorted(self.asks.items())[:10]
        return zlib.crc32("|".join(":".join(_level(*each)) for each in best).encode())


def _level(price: int, size: int) -> list[str]:
    return [f"{price // 100}.{price % 100:02}", str(size)]


class Exchange:
    """`losing` and `lying`: so many of the next diffs of each symbol do not arrive, or say something else."""

    def __init__(self) -> None:
        self.markets: dict[str, Market] = defaultdict(Market)
        self.losing = self.lying = 0
        self.subscriptions = self.snapshots = 0  # asked for

    def opened(self, line: Line) -> None:
        """It is for the client to begin."""

    def heard(self, line: Line, message: Any) -> None:
        market = self.markets[message["symbol"]]
        if message["op"] == "subscribe":
            self.subscriptions += 1
            market.lines.append(line)
        else:
            self.snapshots += 1
        line.send(market.snapshot())

    def closed(self, line: Line) -> None:
        for market in self.markets.values():
            if line in market.lines:
                market.lines.remove(line)

    def tick(self) -> None:
        for market in self.markets.values():
            diff = market.move()
            if self.lying:
                diff["bids"] = [["9999.00", "1"]]
            for line in market.lines if not self.losing else ():
                line.send(diff)
        self.losing, self.lying = max(self.losing - 1, 0), max(self.lying - 1, 0)


if __name__ == "__main__":
    run(Exchange(), TICK_S, PORT)
