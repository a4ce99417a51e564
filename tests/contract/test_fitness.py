"""How a store is made, recognised and proved, on every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.stores.interface import Store, Unavailable, Unfit
from supervisor.stores.location import open_store
from supervisor.writes import PutMember, Unknown
from tests.contract.rows import ME, TIMEOUT_S, create, member, plant


def test_initialize_makes_the_store_once_and_keeps_its_rows(url: str, tmp_path: Path) -> None:
    store = open_store(url, tmp_path, TIMEOUT_S)
    assert store.initialize().endswith("was created")
    store.apply(create("trades/0"), TIMEOUT_S)
    again = open_store(url, tmp_path, TIMEOUT_S)
    assert again.initialize().endswith("exists already")
    assert list(again.snapshot(TIMEOUT_S).leases) == ["trades/0"]
    again.close()
    store.close()


def test_nothing_but_initialize_creates_anything(url: str, tmp_path: Path) -> None:
    store = open_store(url, tmp_path, TIMEOUT_S)
    with pytest.raises(Unfit, match="does not exist; `tenured init` creates it"):
        store.inspect(TIMEOUT_S)
    with pytest.raises(Unavailable, match="does not exist"):
        store.prove(member(), TIMEOUT_S)
    with pytest.raises(Unavailable, match="does not exist"):
        store.snapshot(TIMEOUT_S)
    with pytest.raises(Unavailable, match="does not exist"):
        store.read("trades/0", TIMEOUT_S)
    assert isinstance(store.apply(PutMember(member()), TIMEOUT_S), Unknown)
    with pytest.raises(Unfit, match="does not exist"):
        store.inspect(TIMEOUT_S)
    assert list(tmp_path.iterdir()) == []
    store.close()


def test_looking_at_a_store_writes_nothing(store: Store) -> None:
    store.inspect(TIMEOUT_S)
    assert not store.snapshot(TIMEOUT_S).members


def test_a_proof_leaves_our_member_row_as_it_was_given(store: Store) -> None:
    store.prove(member(), TIMEOUT_S)
    store.prove(member(), TIMEOUT_S)
    snapshot = store.snapshot(TIMEOUT_S, full=True)
    assert snapshot.members == {ME: member()}
    assert not snapshot.leases


def test_batches_are_used_where_conditions_of_statements_are_honoured(store: Store, url: str, dynalite: object) -> None:
    store.prove(member(), TIMEOUT_S)
    if url.startswith("sqlite"):
        assert store.batch == 100
    else:
        assert store.batch == (1 if f":{dynalite.port}" in url else 25)  # type: ignore[attr-defined]


def test_attributes_of_a_later_version_are_tolerated_and_kept(store: Store, url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        import sqlite3

        with sqlite3.connect(tmp_path / "leases.db") as connection:
            connection.execute("ALTER TABLE leases ADD COLUMN colour TEXT")
    plant(url, [{"lease": "c", "epoch": 3, "beat": 0, "nonce": "n", "duration_ms": 1000, "colour": "blue"}])
    assert store.snapshot(TIMEOUT_S).leases["c"].epoch == 3
    assert not store.snapshot(TIMEOUT_S, full=True).bad
