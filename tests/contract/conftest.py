"""One store per test, on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.records import Applied, Lease
from supervisor.stores.interface import Store
from supervisor.stores.location import open_store
from tests.contract.rows import TIMEOUT_S, claim, create
from tests.engines import Engine


@pytest.fixture(params=["sqlite", "ministack", "dynalite"])
def url(request: pytest.FixtureRequest, tmp_path: Path, table: str) -> str:
    """Where nothing is yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'leases.db'}"
    engine: Engine = request.getfixturevalue(request.param)
    return engine.url(table)


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(url, tmp_path, TIMEOUT_S)
    opened.initialize()
    yield opened
    opened.close()


@pytest.fixture
def free(store: Store) -> Lease:
    """A free row, `trades/0`, epoch 7."""
    outcome = store.apply(create("trades/0"), TIMEOUT_S)
    assert isinstance(outcome, Applied)
    assert outcome.row is not None
    return outcome.row


@pytest.fixture
def owned(store: Store, free: Lease) -> Lease:
    """The same row, claimed by `ME` under epoch 8."""
    outcome = store.apply(claim(free), TIMEOUT_S)
    assert isinstance(outcome, Applied)
    assert outcome.row is not None
    return outcome.row
