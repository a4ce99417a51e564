"""One store per test, on every engine; and one DynamoDB store per module, behind a proxy that can break things."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.records import Lease
from supervisor.stores.dynamodb import DynamoStore
from supervisor.stores.interface import Store
from supervisor.stores.location import open_store
from supervisor.writes import Applied
from tests.contract.rows import CALL_TIMEOUT_S, TIMEOUT_S, claim, create, member
from tests.engines import Engine
from tests.proxy import FaultProxy


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


# --- DynamoDB behind a proxy ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_table() -> str:
    return f"leases-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def one_proxy(ministack: Engine) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.port) as running:
        yield running


@pytest.fixture(scope="module")
def one_store(one_proxy: FaultProxy, one_table: str) -> Iterator[DynamoStore]:
    """Through the proxy. Making clients is slow, so the tests of this module share them."""
    opened = open_store(one_proxy.url(one_table), Path("/"), CALL_TIMEOUT_S)
    assert isinstance(opened, DynamoStore)
    opened.initialize()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def patient_store(one_store: DynamoStore, ministack: Engine, one_table: str) -> Iterator[DynamoStore]:
    """Past the proxy to the same table, with time for what a test needs before it begins."""
    opened = open_store(ministack.url(one_table), Path("/"), TIMEOUT_S)
    assert isinstance(opened, DynamoStore)
    yield opened
    opened.close()


@pytest.fixture
def proxy(one_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """Without a fault."""
    yield one_proxy
    one_proxy.fault = None


@pytest.fixture
def proved(one_store: DynamoStore, proxy: FaultProxy) -> DynamoStore:
    """Proved, so that it renews in batches."""
    if one_store.batch == 1:
        one_store.prove(member(), CALL_TIMEOUT_S)
    return one_store
