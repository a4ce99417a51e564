"""`examples/orderbook` against an exchange that loses diffs, lies, and cuts connections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.examples.application import application, events, kill_child
from tests.examples.exchange import CHECKED_EVERY, TICK_S, Exchange
from tests.examples.far_end import FarEnd
from tests.process.host import Host
from tests.wait import until

SYMBOLS = ("BTC-USD", "ETH-USD")


def newest(host: Host) -> dict[str, int]:
    """The number of the newest event of each symbol."""
    return {event["data"]["symbol"]: event["data"]["seq"] for event in events(host)}


def follows_again(host: Host, exchange: Exchange) -> None:
    """Events that are newer than now come of each symbol."""
    begin = max(market.seq for market in exchange.markets.values())
    until(lambda: all(newest(host).get(symbol, 0) > begin for symbol in SYMBOLS), 20)


def test_best_prices_are_those_of_the_exchange_after_gaps_lies_cuts_and_kills(tmp_path: Path) -> None:
    exchange = Exchange()
    with FarEnd(exchange, TICK_S) as far_end, application("orderbook", tmp_path, far_end.port) as host:
        until(lambda: set(newest(host)) == set(SYMBOLS), 20)
        assert exchange.snapshots == 0

        def each_asks_again(after: Callable[[], object]) -> None:
            asked = exchange.snapshots
            after()
            until(lambda: exchange.snapshots == asked + len(SYMBOLS), 10)
            follows_again(host, exchange)

        each_asks_again(lambda: setattr(exchange, "losing", 3))
        each_asks_again(lambda: setattr(exchange, "lying", 1))
        far_end.cut()
        follows_again(host, exchange)
        for symbol in SYMBOLS:
            kill_child(host, f"books/{symbol}")
        follows_again(host, exchange)
        assert exchange.subscriptions == 3 * len(SYMBOLS)
        assert host.stop() == 0
    wrong = 0
    for event in (event["data"] for event in events(host)):
        truth = exchange.markets[event["symbol"]].tops[event["seq"]]
        wrong += {side: event[side] for side in ("bid", "ask")} != truth
    assert wrong <= len(SYMBOLS) * CHECKED_EVERY  # of the lie, until the next checksum
