"""Whatever a client raises becomes an outcome; what reached nobody says so; no message of the provider is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
import urllib3.exceptions

from supervisor.records import Lease
from supervisor.stores.dynamodb import DynamoStore
from supervisor.stores.errors import failed, failed_statement
from supervisor.stores.interface import Unavailable
from supervisor.stores.location import open_store
from supervisor.writes import Unknown
from tests.contract.rows import ME, create, renew

ROW = Lease("trades/0", ME, 8, 0, "n", 1000)


def every_botocore_exception() -> list[Exception]:
    found: list[Exception] = []
    for kind in vars(botocore.exceptions).values():
        if isinstance(kind, type) and issubclass(kind, botocore.exceptions.BotoCoreError):
            found.append(instance_of(kind))
    return found


def instance_of(kind: type[Exception]) -> Exception:
    """Their messages are formats; the values are secrets, to see whether one gets out."""
    names = re.findall(r"{(\w+)", kind.fmt)  # type: ignore[attr-defined]
    return kind(**dict.fromkeys(names, "hunter2"), last_response={})


OTHERS = [
    UnicodeDecodeError("utf-8", b"hunter2", 0, 1, "hunter2"),
    RuntimeError("hunter2"),
    KeyError("hunter2"),
    ValueError("hunter2"),
    OSError(24, "hunter2"),
    MemoryError("hunter2"),
    RecursionError("hunter2"),
    TimeoutError("hunter2"),
    urllib3.exceptions.ProtocolError("hunter2"),
    json.JSONDecodeError("hunter2", "hunter2", 0),
    botocore.exceptions.ClientError({"Error": {"Code": "hunter 2", "Message": "hunter2"}}, "hunter2"),
    botocore.exceptions.ClientError({}, "UpdateItem"),
    botocore.exceptions.ClientError({"Error": {"Code": 5, "Message": None}}, "UpdateItem"),
]


@pytest.fixture(scope="module")
def store() -> DynamoStore:
    opened = open_store("dynamodb://leases?region=us-east-1&endpoint_url=http://127.0.0.1:9", Path("/"), 0.2)
    assert isinstance(opened, DynamoStore)
    opened.batch = 25
    return opened


class Broken:
    """Clients of which every call raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property
    def renewals(self) -> Broken:
        return self

    others = renewals

    def __getattr__(self, name: str) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [*every_botocore_exception(), *OTHERS], ids=lambda error: type(error).__name__)
def test_whatever_a_client_raises_is_unknown_or_unavailable(
    error: Exception, store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._table, "_clients", Broken(error))
    outcomes = [
        store.apply(renew(ROW), 0.2),
        store.apply(create("trades/1"), 0.2),
        *store.renew([renew(ROW), renew(Lease("trades/1", ME, 8, 0, "n", 1000))], 0.2),
    ]
    for outcome in outcomes:
        assert isinstance(outcome, Unknown)
        assert outcome.cause.startswith(("UpdateItem: ", "BatchExecuteStatement: "))
        assert "hunter" not in outcome.cause
    for read in (lambda: store.read("trades/0", 0.2), lambda: store.snapshot(0.2)):
        with pytest.raises(Unavailable) as raised:
            read()
        assert "hunter" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "unsent"),
    [
        ("EndpointConnectionError", True),
        ("ConnectTimeoutError", True),
        ("NoCredentialsError", True),
        ("CredentialRetrievalError", True),
        ("ReadTimeoutError", False),
        ("ConnectionClosedError", False),
        ("HTTPClientError", False),
        ("SSLError", False),
        ("ProxyConnectionError", False),
    ],
)
def test_only_what_certainly_reached_nobody_is_unsent(kind: str, unsent: bool) -> None:
    error = instance_of(getattr(botocore.exceptions, kind))
    assert failed(error, "UpdateItem").unknown.unsent is unsent


def test_a_real_refused_connection_is_unsent(store: DynamoStore) -> None:
    outcome = store.apply(renew(ROW), 0.2)
    assert outcome == Unknown("UpdateItem: cannot connect to the endpoint (127.0.0.1:9)", unsent=True)


@pytest.mark.parametrize(
    "kind", ["EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError"]
)
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://dynamodb.eu-west-1.amazonaws.com/", " (dynamodb.eu-west-1.amazonaws.com)"),
        ("http://user:hunter2@127.0.0.1:8000/hunter2?hunter2", " (127.0.0.1:8000)"),
        ("http://[", ""),
        ("hunter2", ""),
    ],
)
def test_whoever_does_not_answer_is_named_by_host_and_port_alone(kind: str, url: str, told: str) -> None:
    error = getattr(botocore.exceptions, kind)(endpoint_url=url, error="hunter2")
    cause = failed(error, "UpdateItem").cause
    assert cause.endswith(told or ("endpoint", "time", "answer"))
    assert "hunter" not in cause


def test_a_missing_table_is_told_with_what_makes_one_to_a_read_and_without_to_a_write(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = botocore.exceptions.ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "any")
    monkeypatch.setattr(store._table, "_clients", Broken(error))
    assert store.apply(renew(ROW), 0.2) == Unknown("UpdateItem: the table does not exist (ResourceNotFoundException)")
    with pytest.raises(Unavailable, match=r"the table does not exist .*; `tenured init` creates it"):
        store.snapshot(0.2)


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "ResourceNotFound"])
def test_a_missing_table_is_named_also_where_a_statement_of_a_batch_misses_it(code: str) -> None:
    found = failed_statement({"Error": {"Code": code, "Message": "hunter2"}})
    assert found is not None
    assert "the table does not exist" in found.cause
    assert "hunter2" not in found.cause
