"""Eight processes want one lease."""

from __future__ import annotations

import multiprocessing

from supervisor.records import Lease
from supervisor.stores.interface import Store
from tests.contract.rivals import race
from tests.contract.rows import TIMEOUT_S

PROCESSES = 8
ROUNDS = 60


def test_of_eight_racing_processes_exactly_one_wins_each_epoch(url: str, store: Store, free: Lease) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    names = [f"host-{number}:1:{number:016x}" for number in range(PROCESSES)]
    pipes = [context.Pipe(duplex=False) for _ in names]
    processes = [
        context.Process(target=race, args=(url, free.shard, name, ROUNDS, barrier, pipe[1]), daemon=True)
        for name, pipe in zip(names, pipes, strict=True)
    ]
    for process, pipe in zip(processes, pipes, strict=True):
        process.start()
        pipe[1].close()  # so that a process that fails ends its pipe
    won = {name: pipe[0].recv() for name, pipe in zip(names, pipes, strict=True)}
    for process in processes:
        process.join(TIMEOUT_S)
    epochs = sorted(epoch for epochs in won.values() for epoch in epochs)
    assert epochs == list(range(free.epoch + 1, free.epoch + ROUNDS + 1))
    assert sum(bool(epochs) for epochs in won.values()) > 1, "nobody raced"
    row = store.read(free.shard, TIMEOUT_S)
    assert row is not None
    assert row.epoch in won[str(row.owner)]
