"""A renewal costs one write unit only while the whole row, wishes included, stays within 1 KiB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor.changes import history_after
from supervisor.records import HISTORY_MAX, TROUBLE_MAX_BYTES
from supervisor.stores.location import open_store
from supervisor.writes import Applied
from tests.contract.rows import AT, TIMEOUT_S, claim, create, depose, pause, raw_item, renew, wish
from tests.engines import Engine

HOST = "ip-172-31-255-255.ap-southeast-2.compute.internal"
SHARD = "binance-usdm-futures-depth/ap-southeast-2-15"


def size_of(attribute: dict[str, Any]) -> int:
    """As DynamoDB counts a value: text in UTF-8, a number at most a byte per two digits and two more, 3 for a list."""
    ((kind, value),) = attribute.items()
    if kind == "S":
        return len(value.encode())
    if kind == "N":
        return len(value) // 2 + 2
    if kind == "L":
        return 3 + sum(1 + size_of(element) for element in value)
    return 1


def test_a_full_row_with_aws_host_names_costs_one_write_unit(ministack: Engine, table: str, tmp_path: Path) -> None:
    url = ministack.url(table)
    me, peer = (f"{HOST}:4194304:{number:016x}" for number in (2**64 - 1, 2**64 - 2))
    history: tuple[str, ...] = ()
    for number in range(HISTORY_MAX):
        for _ in range(200):
            history = history_after(history, 1_764_444_444 + number, (me, peer)[number % 2], AT, "restart")
    store = open_store(url, tmp_path, TIMEOUT_S)
    store.initialize()
    created = store.apply(create(SHARD, epoch=1_764_444_444, nonce="f" * 16), TIMEOUT_S)
    assert isinstance(created, Applied)
    assert created.row is not None
    claimed = store.apply(claim(created.row, owner=me, history=history, nonce="e" * 16), TIMEOUT_S)
    assert isinstance(claimed, Applied)
    assert claimed.row is not None
    beats = {"beat_high": 999_998, "beat": 999_999}
    numbers = {"open": 100, "want": 100, "quiet_ms": 86_400_000}
    texts = {"checkpoint": "c" * 64, "trouble": "t" * TROUBLE_MAX_BYTES}
    store.apply(renew(claimed.row, nonce="d" * 16, **texts, **beats, **numbers), TIMEOUT_S)
    assert store.apply(wish(claimed.row, f"{peer} balance"), TIMEOUT_S) == Applied()
    assert store.apply(pause(claimed.row), TIMEOUT_S) == Applied()
    item = raw_item(url, SHARD)
    store.apply(depose(claimed.row, history=history), TIMEOUT_S)
    deposed = raw_item(url, SHARD)
    store.close()
    assert len(item["history"]["L"]) == HISTORY_MAX
    assert {"move", "paused", "checkpoint", "trouble"} <= item.keys()
    for row in (item, deposed):
        assert sum(len(name) + size_of(value) for name, value in row.items()) < 1024
