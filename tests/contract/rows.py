"""Writes and rows with the fields that a test does not care about filled in, and raw access to every engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3

from supervisor.records import Lease, Member
from supervisor.stores.expressions import attribute_of
from supervisor.stores.location import DynamoLocation, SqliteLocation, parse
from supervisor.stores.sql import sql_of
from supervisor.stores.statements import KEY, Put
from supervisor.writes import Claim, Create, Depose, Pause, Release, Renew, Wish

AT = 1_764_444_444_000
ME = "host-a:11:00000000000000aa"
OTHER = "host-b:22:00000000000000bb"
TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 0.5  # of the stores behind the proxy, short because faults last that long


def create(shard: str, **fields: Any) -> Create:
    return Create(**{"shard": shard, "epoch": 7, "nonce": "created", "duration_ms": 10_000, "at": AT} | fields)


def claim(row: Lease, **fields: Any) -> Claim:
    """Of `row` exactly as it is, by `ME`."""
    default = {
        "shard": row.shard,
        "seen_owner": row.owner,
        "seen_epoch": row.epoch,
        "beat_low": row.beat,
        "beat_high": row.beat,
        "owner": ME,
        "epoch": row.epoch + 1,
        "nonce": f"claimed {row.epoch + 1}",
        "duration_ms": 6_000,
        "policy": "hold",
        "want": 3,
        "history": (*row.history, f"{row.epoch + 1} aa 1764444444 claim"),
        "at": AT + 1000,
    }
    return Claim(**default | fields)


def renew(row: Lease, **fields: Any) -> Renew:
    """Of `row` by its owner, the next beat."""
    default = {
        "shard": row.shard,
        "owner": row.owner,
        "epoch": row.epoch,
        "beat_low": row.beat,
        "beat_high": row.beat,
        "beat": row.beat + 1,
        "nonce": f"renewed {row.epoch} {row.beat + 1}",
        "open": 2,
        "want": 3,
        "quiet_ms": 40,
        "policy": "hold",
        "checkpoint": None,
        "at": AT + 2000,
    }
    return Renew(**default | fields)


def release(row: Lease, **fields: Any) -> Release:
    default = {
        "shard": row.shard,
        "owner": row.owner,
        "epoch": row.epoch,
        "nonce": f"released {row.epoch}",
        "history": (*row.history, f"{row.epoch} aa 1764444445 release"),
        "checkpoint": None,
        "at": AT + 3000,
    }
    return Release(**default | fields)


def wish(row: Lease, move: str | None, **fields: Any) -> Wish:
    """That `row`, exactly as it is, moves."""
    default = {"shard": row.shard, "seen_owner": row.owner, "seen_epoch": row.epoch, "seen_move": row.move}
    return Wish(**default | {"move": move} | fields)


def pause(row: Lease, paused: bool = True, **fields: Any) -> Pause:
    """Of `row` exactly as it is."""
    default = {"shard": row.shard, "seen_owner": row.owner, "seen_epoch": row.epoch, "paused": paused}
    return Pause(**default | fields)


def depose(row: Lease, **fields: Any) -> Depose:
    """Of the owner of `row` exactly as it is."""
    default = {
        "shard": row.shard,
        "seen_owner": row.owner,
        "seen_epoch": row.epoch,
        "nonce": f"deposed {row.epoch}",
        "history": (*row.history, f"{row.epoch} aa 1764444446 deposed"),
        "at": AT + 4000,
    }
    return Depose(**default | fields)


def member(**fields: Any) -> Member:
    default = {
        "id": ME,
        "fleet": "test",
        "state": "active",
        "beat": 4,
        "nonce": "here",
        "duration_ms": 10_000,
        "capacity": 16,
        "shards": ("trades/0-15", "chat"),
        "version": "0.1.0",
        "digest": "0123abcd",
        "host": "host-a",
        "task": "",
        "zone": "eu-west-1a",
        "since": AT,
        "renewed_at": AT,
        "poll_ms": 1500,
        "rejected": "tenured.ini:7: stor is no key",
    }
    return Member(**default | fields)


# --- behind the store's back ------------------------------------------------------------------------------


def plant(url: str, rows: Iterable[dict[str, Any]]) -> None:
    """Put rows of plain attributes as they are, also such as no store would write."""
    location = parse(url, Path("/"))
    if isinstance(location, SqliteLocation):
        with sqlite3.connect(location.path) as connection:
            for row in rows:
                sets = {name: value for name, value in row.items() if name != KEY}
                connection.execute(*sql_of(Put(row[KEY], sets, new=False)))
        connection.close()
        return
    client = raw_client(location)
    puts = [{"PutRequest": {"Item": {name: attribute_of(value) for name, value in row.items()}}} for row in rows]
    for start in range(0, len(puts), 25):
        answer = client.batch_write_item(RequestItems={location.table: puts[start : start + 25]})
        assert not answer["UnprocessedItems"]


def raw_client(location: DynamoLocation) -> Any:
    return boto3.client("dynamodb", region_name=location.region, endpoint_url=location.endpoint_url)


def raw_item(url: str, key: str) -> dict[str, Any]:
    """A row as DynamoDB answers it."""
    location = parse(url, Path("/"))
    assert isinstance(location, DynamoLocation)
    return dict(raw_client(location).get_item(TableName=location.table, Key={KEY: {"S": key}})["Item"])
