"""Eight processes want one row."""

from __future__ import annotations

import multiprocessing

from supervisor.records import Lease
from supervisor.stores.interface import Store
from tests.contract import rivals
from tests.contract.rows import TIMEOUT_S

PROCESSES = 8
ROUNDS = 60


def raced(race: rivals.Race, url: str, shard: str) -> dict[str, list[int]]:
    """What each process won, by its name."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    names = [f"host-{number}:1:{number:016x}" for number in range(PROCESSES)]
    pipes = [context.Pipe(duplex=False) for _ in names]
    processes = [
        context.Process(target=rivals.run, args=(race, url, shard, name, ROUNDS, barrier, pipe[1]), daemon=True)
        for name, pipe in zip(names, pipes, strict=True)
    ]
    for process, pipe in zip(processes, pipes, strict=True):
        process.start()
        pipe[1].close()  # so that a process that fails ends its pipe
    won = {name: pipe[0].recv() for name, pipe in zip(names, pipes, strict=True)}
    for process in processes:
        process.join(TIMEOUT_S)
    assert sum(map(bool, won.values())) > 1, "nobody raced"
    return won


def test_of_eight_racing_processes_exactly_one_wins_each_epoch(url: str, store: Store, free: Lease) -> None:
    won = raced(rivals.claims, url, free.shard)
    epochs = sorted(epoch for epochs in won.values() for epoch in epochs)
    assert epochs == list(range(free.epoch + 1, free.epoch + ROUNDS + 1))
    row = store.read(free.shard, TIMEOUT_S)
    assert row is not None
    assert row.epoch in won[str(row.owner)]


def test_of_eight_racing_wishes_exactly_one_is_applied_and_then_taken_back_once(
    url: str, store: Store, owned: Lease
) -> None:
    won = raced(rivals.wishes, url, owned.shard)
    assert sorted(number for numbers in won.values() for number in numbers) == list(range(ROUNDS))
    assert store.read(owned.shard, TIMEOUT_S) == owned
