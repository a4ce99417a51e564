"""The IAM policies allow what the code calls and nothing else: calls are recorded while everything is done once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import botocore.client
import pytest

from supervisor.stores.clients import Client
from supervisor.stores.interface import Store
from supervisor.stores.location import open_store
from supervisor.writes import (
    Applied,
    Claim,
    Create,
    DeleteMember,
    Depose,
    Forget,
    OperatorsWrite,
    PutMember,
    Refused,
    Release,
    Renew,
    Write,
)
from tests.contract.rows import TIMEOUT_S, claim, create, member, pause, release, renew, wish
from tests.engines import Engine

FOLDER = Path(__file__).resolve().parents[2] / "etc" / "aws"
# A statement is allowed or forbidden by what it does, the call that carries it by nothing.
ACTION_OF = {"BatchExecuteStatement": "PartiQLUpdate"}


class Recorder:
    """The operations that any client of boto3 was asked for since `begin`."""

    def __init__(self) -> None:
        self.operations: set[str] = set()

    def begin(self) -> None:
        self.operations.clear()

    @property
    def actions(self) -> set[str]:
        return {f"dynamodb:{ACTION_OF.get(name, name)}" for name in self.operations}


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder, call = Recorder(), botocore.client.BaseClient._make_api_call

    def recorded(client: Any, operation: str, parameters: Any) -> Any:
        recorder.operations.add(operation)
        return call(client, operation, parameters)

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", recorded)
    return recorder


@pytest.fixture
def store(ministack: Engine, table: str) -> Iterator[Store]:
    """Without a table."""
    opened = open_store(ministack.url(table), Path("/"), TIMEOUT_S)
    yield opened
    opened.close()


def allowed(name: str) -> set[str]:
    (statement,) = json.loads((FOLDER / name).read_text())["Statement"]
    assert statement["Effect"] == "Allow"
    return set(statement["Action"])


def applied(store: Store, write: Write) -> Any:
    outcome = store.apply(write, TIMEOUT_S)
    assert isinstance(outcome, Applied), outcome
    return outcome.row


def as_supervisor(store: Store) -> set[type]:
    """All that `run` does. The kinds of writes that were applied."""
    store.inspect(TIMEOUT_S)
    store.prove(member(), TIMEOUT_S)
    assert store.batch > 1
    rows = [applied(store, claim(applied(store, create(f"trades/{number}")))) for number in range(2)]
    assert store.renew([renew(row) for row in rows], TIMEOUT_S) == [Applied(), Applied()]
    assert isinstance(store.apply(claim(rows[0], beat_low=9, beat_high=9), TIMEOUT_S), Refused)
    row = store.read("trades/0", TIMEOUT_S)
    assert row is not None
    applied(store, renew(row))
    applied(store, wish(row, "any"))
    applied(store, release(row))
    store.snapshot(TIMEOUT_S)
    applied(store, PutMember(member()))
    applied(store, DeleteMember(member().id, member().beat, member().nonce))
    return {Create, Claim, Renew, Release, PutMember, DeleteMember}


def as_operator(store: Store) -> set[type]:
    """All that operators' commands do."""
    row = store.read("trades/1", TIMEOUT_S)
    assert row is not None
    assert row.owner is not None
    applied(store, wish(row, "any"))
    applied(store, pause(row))
    assert isinstance(store.apply(pause(row, seen_epoch=99), TIMEOUT_S), Refused)
    deposed = Depose("trades/1", row.owner, row.epoch, "deposed", row.history, 1)
    applied(store, deposed)
    applied(store, Forget("trades/1", deposed.epoch))
    store.snapshot(TIMEOUT_S, full=True)
    return set(get_args(OperatorsWrite))


def test_each_policy_allows_exactly_what_its_bearer_calls(store: Store, recorder: Recorder) -> None:
    store.initialize()
    made = recorder.actions
    assert made == {"dynamodb:CreateTable", "dynamodb:DescribeTable"}

    recorder.begin()
    writes = as_supervisor(store)
    running = recorder.actions
    assert running == allowed("policy.json")

    recorder.begin()
    writes |= as_operator(store)
    operating = recorder.actions
    assert operating == allowed("policy-operator.json")

    recorder.begin()
    store.snapshot(TIMEOUT_S, full=True)
    assert recorder.actions == allowed("policy-status.json")

    assert writes == set(get_args(Write)), "a kind of write is missing above"
    assert _calls_of_the_client() == made | running | operating


def _calls_of_the_client() -> set[str]:
    """Whatever the code could call at all."""
    names = {name for name in vars(Client) if not name.startswith("_") and name != "close"}
    operations = {"".join(word.capitalize() for word in name.split("_")) for name in names}
    return {f"dynamodb:{ACTION_OF.get(name, name)}" for name in operations}
