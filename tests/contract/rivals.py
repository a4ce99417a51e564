"""One process of a race for a lease: in every round all of them have seen the same row, and claim it at once."""

from __future__ import annotations

from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from supervisor.stores.location import open_store
from supervisor.writes import Applied, Refused
from tests.contract.rows import claim

CALL_TIMEOUT_S = 20.0


def race(url: str, shard: str, name: str, rounds: int, barrier: Barrier, result: Connection) -> None:
    """Sends the epochs that this process won. Whatever is neither applied nor refused by a newer row is an error."""
    store = open_store(url, Path("/"), CALL_TIMEOUT_S)
    won: list[int] = []
    for _ in range(rounds):
        row = store.read(shard, CALL_TIMEOUT_S)
        assert row is not None
        barrier.wait(CALL_TIMEOUT_S)
        outcome = store.apply(claim(row, owner=name), CALL_TIMEOUT_S)
        if isinstance(outcome, Applied):
            won.append(row.epoch + 1)
        else:
            assert isinstance(outcome, Refused), outcome
            assert outcome.row is not None, outcome
            assert outcome.row.epoch == row.epoch + 1, outcome
        barrier.wait(CALL_TIMEOUT_S)
    store.close()
    result.send(won)
