"""One process of a race for a row: in every round all of them have seen the same row, and write at once.

A race answers with what this process won. Whatever is neither applied nor refused by the row of a rival is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from supervisor.records import Lease
from supervisor.stores.interface import Store
from supervisor.stores.location import open_store
from supervisor.writes import Applied, Refused, Write
from tests.contract.rows import claim, wish

CALL_TIMEOUT_S = 20.0

Race = Callable[[Store, str, str, int, Barrier], list[int]]


def run(race: Race, url: str, shard: str, name: str, rounds: int, barrier: Barrier, result: Connection) -> None:
    store = open_store(url, Path("/"), CALL_TIMEOUT_S)
    won = race(store, shard, name, rounds, barrier)
    store.close()
    result.send(won)


def claims(store: Store, shard: str, name: str, rounds: int, barrier: Barrier) -> list[int]:
    """Claim the lease. Wins epochs."""
    won: list[int] = []
    for _ in range(rounds):
        row = _read(store, shard)
        barrier.wait(CALL_TIMEOUT_S)
        rival = _beaten(store, claim(row, owner=name))
        if rival is None:
            won.append(row.epoch + 1)
        else:
            assert rival.epoch == row.epoch + 1, rival
        barrier.wait(CALL_TIMEOUT_S)
    return won


def wishes(store: Store, shard: str, name: str, rounds: int, barrier: Barrier) -> list[int]:
    """Wish, in turns, that the lease moves here, and that whoever won this does not get it. Wins rounds."""
    won: list[int] = []
    for number in range(rounds):
        row = _read(store, shard)
        barrier.wait(CALL_TIMEOUT_S)
        rival = _beaten(store, wish(row, name if row.move is None else None))
        if rival is None:
            won.append(number)
        else:
            assert (rival.move is None) != (row.move is None), rival
            assert rival.move != name, rival
        barrier.wait(CALL_TIMEOUT_S)
    return won


def _read(store: Store, shard: str) -> Lease:
    row = store.read(shard, CALL_TIMEOUT_S)
    assert row is not None
    return row


def _beaten(store: Store, write: Write) -> Lease | None:
    """The row of the rival who beat us; None: we won."""
    outcome = store.apply(write, CALL_TIMEOUT_S)
    if isinstance(outcome, Applied):
        return None
    assert isinstance(outcome, Refused), outcome
    assert outcome.row is not None, outcome
    return outcome.row
