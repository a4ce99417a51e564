"""Of the handler alone, without a supervisor and a network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from orderbook import PATIENCE_S, Book, OrderBook

from workers.testing import Rig

SNAPSHOT = {
    "type": "snapshot",
    "seq": 7,
    "bids": [["99.5", "1"], ["100.5", "2"]],
    "asks": [["101", "3"], ["9000", "1"]],
}
ASKED = '{"op": "snapshot", "symbol": "BTC-USD"}'


def diff(seq: int, bids: Any = (), asks: Any = (), **more: Any) -> str:
    return json.dumps({"type": "diff", "seq": seq, "bids": bids, "asks": asks, **more})


@pytest.fixture
def rig() -> Rig[OrderBook]:
    """With a book."""
    rig = Rig(OrderBook, shard="books/BTC-USD")
    rig.opened()
    rig.receive(json.dumps(SNAPSHOT))
    return rig


def newest(rig: Rig[OrderBook]) -> Any:
    return json.loads(rig.events[-1])


def test_prices_are_compared_as_numbers(rig: Rig[OrderBook]) -> None:
    assert newest(rig) == {"symbol": "BTC-USD", "seq": 7, "bid": ["100.5", "2"], "ask": ["101", "3"]}


def test_of_what_arrives_together_the_last_change_is_emitted_and_none_that_leaves_the_best_prices_alone(
    rig: Rig[OrderBook],
) -> None:
    rig.receive(diff(8, bids=[["100.7", "1"]]), diff(9, bids=[["100.7", "0"]], asks=[["100.9", "4"]]))
    assert newest(rig) == {"symbol": "BTC-USD", "seq": 9, "bid": ["100.5", "2"], "ask": ["100.9", "4"]}
    rig.receive(diff(10, bids=[["50", "1"]]))
    assert len(rig.events) == 2


def test_a_gap_leads_to_a_fresh_snapshot_and_nothing_is_made_of_diffs_before_it(rig: Rig[OrderBook]) -> None:
    rig.receive(diff(9, bids=[["100.9", "1"]]), diff(10), diff(11))
    assert rig.sent() == [ASKED]
    assert len(rig.events) == 1
    rig.receive(json.dumps({**SNAPSHOT, "seq": 12, "bids": [["100", "1"]]}), diff(11), diff(13, bids=[["100.1", "1"]]))
    assert newest(rig)["seq"] == 13
    assert newest(rig)["bid"] == ["100.1", "1"]
    assert len(rig.sent()) == 1


def test_a_checksum_that_does_not_hold_leads_to_a_fresh_snapshot(rig: Rig[OrderBook]) -> None:
    rig.receive(diff(8, checksum=Book(SNAPSHOT).checksum))
    assert rig.sent() == []
    rig.receive(diff(9, bids=[["100.5", "9"]], checksum=Book(SNAPSHOT).checksum))
    assert rig.sent() == [ASKED]


def test_a_message_that_cannot_be_read_costs_a_snapshot_and_no_wrong_price() -> None:
    rig = Rig(OrderBook, shard="books/BTC-USD", collect_errors=True)
    rig.opened()
    rig.receive(json.dumps(SNAPSHOT))
    rig.receive("no diff", diff(8, bids=[["100.9", "1"]]))  # the whole batch is lost
    rig.receive(diff(9))
    assert rig.sent() == [ASKED]
    assert len(rig.events) == len(rig.errors) == 1


def test_a_connection_without_a_snapshot_is_given_up(rig: Rig[OrderBook]) -> None:
    rig.advance(PATIENCE_S * 3)
    assert rig.close_codes() == []
    rig.receive(diff(9))
    rig.advance(PATIENCE_S)
    assert rig.close_codes() == [4000]
    rig.closed()
    rig.opened()
    rig.receive(json.dumps(SNAPSHOT))
    rig.advance(PATIENCE_S * 3)
    assert rig.close_codes() == [4000]
