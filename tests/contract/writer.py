"""A process that writes to an SQLite store, for tests that stop or kill it.

python -m tests.contract.writer hold FILE    begins a transaction, says "ready", and holds the lock
python -m tests.contract.writer renew FILE   renews `trades/0` for ever, and says each beat once it is applied
"""

from __future__ import annotations

import signal
import sqlite3
import sys
from pathlib import Path

from supervisor.stores.location import open_store
from supervisor.writes import Applied
from tests.contract.rows import TIMEOUT_S, renew


def hold(path: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE leases SET checkpoint = 'from the holder'")
    print("ready", flush=True)
    signal.pause()


def renew_for_ever(path: str) -> None:
    store = open_store(f"sqlite:///{path}", Path("/"), TIMEOUT_S)
    row = store.read("trades/0", TIMEOUT_S)
    assert row is not None
    beat = row.beat
    while store.apply(renew(row, beat_high=beat, beat=beat + 1, checkpoint=f"{beat + 1}"), TIMEOUT_S) == Applied():
        beat += 1
        print(beat, flush=True)


if __name__ == "__main__":
    {"hold": hold, "renew": renew_for_ever}[sys.argv[1]](sys.argv[2])
