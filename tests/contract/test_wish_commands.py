"""Operators' commands on DynamoDB: who is not permitted, or finds no table, is told so in one sentence."""

from __future__ import annotations

import pytest

from supervisor import exits
from supervisor.stores.dynamodb import DynamoStore
from supervisor.writes import Applied
from tests import faults
from tests.contract.rows import AT, CALL_TIMEOUT_S, claim, create, member
from tests.engines import Engine
from tests.faults import EatAnswers, Pick, Reply
from tests.process.host import tenured
from tests.proxy import FaultProxy

SHARD = "trades/0"


@pytest.fixture
def url(one_store: DynamoStore, proxy: FaultProxy, one_table: str) -> str:
    """A table in which nobody live has a shard."""
    own(one_store, SHARD)
    return proxy.url(one_table)


def own(store: DynamoStore, shard: str) -> None:
    """It is claimed, if it is new."""
    created = store.apply(create(shard), CALL_TIMEOUT_S)
    if isinstance(created, Applied) and created.row:
        store.apply(claim(created.row), CALL_TIMEOUT_S)


@pytest.mark.parametrize("operation", ["Scan", "UpdateItem"])
def test_an_action_that_is_denied_is_named_and_exit_77(operation: str, url: str, proxy: FaultProxy) -> None:
    proxy.fault = Reply(faults.access_denied(operation), Pick(operation))
    done = tenured("pause", SHARD, "--store", url)
    assert (done.returncode, done.stdout) == (exits.NOT_PERMITTED, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"dynamodb:{operation} is not permitted" in done.stderr


def test_a_missing_table_is_exit_69(ministack: Engine, table: str) -> None:
    done = tenured("move", SHARD, "--store", ministack.url(table))
    assert (done.returncode, done.stdout) == (exits.STORE, "")
    assert "the table does not exist" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_store_that_stops_answering_is_exit_69_and_not_a_no(url: str, proxy: FaultProxy) -> None:
    proxy.fault = Reply(faults.throttled(), Pick("UpdateItem"))
    done = tenured("pause", SHARD, "--store", url, "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (exits.STORE, "")
    assert "throttled" in done.stderr


def test_a_dead_owners_shard_is_paused_taken_by_force_and_forgotten(url: str, one_store: DynamoStore) -> None:
    assert member().renewed_at == AT, "long ago"
    done = tenured("pause", SHARD, "--store", url)
    assert done.returncode == exits.OK, done.stderr
    assert f"{SHARD} is paused; host-a:11:00000000000000aa still stands in its row" in done.stdout
    done = tenured("pause", SHARD, "--force", "--store", url)
    assert done.stdout.startswith(f"{SHARD} is paused by force, epoch 8 -> 9, after ")
    row = one_store.read(SHARD, CALL_TIMEOUT_S)
    assert row is not None
    assert (row.owner, row.forced, row.history[-1].split(" ")[3]) == (None, True, "deposed")
    done = tenured("forget", SHARD, "--store", url)
    assert done.returncode == exits.NO
    assert "its owner was removed by force" in done.stderr


@pytest.mark.parametrize("close", [True, False])
def test_what_was_done_is_told_although_its_answer_never_comes(
    url: str, one_store: DynamoStore, proxy: FaultProxy, close: bool
) -> None:
    """The connection is closed, or silent."""
    held, old = f"held/{close}", f"old/{close}"
    one_store.apply(create(old), CALL_TIMEOUT_S)
    own(one_store, held)
    before = writes(proxy)
    proxy.fault = EatAnswers(Pick("DeleteItem"), close)
    done = tenured("forget", old, "--store", url, "--timeout", "8")
    assert (done.returncode, done.stderr) == (exits.OK, "")
    assert done.stdout.startswith(f"{old} is forgotten, epoch ")
    proxy.fault = EatAnswers(Pick("UpdateItem"), close)
    done = tenured("pause", held, "--force", "--store", url, "--timeout", "8")
    assert (done.returncode, done.stderr) == (exits.OK, "")
    assert done.stdout.startswith(f"{held} is paused by force, epoch 8 -> 9, after ")
    assert writes(proxy) == before + 2, "a write was sent again"


def writes(proxy: FaultProxy) -> int:
    return proxy.count("DeleteItem") + proxy.count("UpdateItem")
