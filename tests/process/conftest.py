"""A `Children` on a loop of its own, driven by the test: `house.until(condition)` turns the loop until it holds."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from supervisor.processes.child_events import ChildEvent, Exited, ExitStatus, Started, StartFailed
from supervisor.processes.children import Children
from workers.board import Board
from workers.process.kernel import boottime_ns
from workers.spec import Scope, StreamSpec, Task

ROOT = Path(__file__).parents[2]
E = TypeVar("E", Started, StartFailed, Exited, ExitStatus)
T = TypeVar("T")


def task(shard: str, epoch: int = 1, role: str = "wait", **spec: str | float) -> Task:
    return Task(
        scope=Scope(
            spec=StreamSpec(stream=shard.partition("/")[0], **spec),  # type: ignore[arg-type]
            fleet="test",
            host="here",
            base="/",
        ),
        shard=shard,
        index=shard.partition("/")[2],
        epoch=epoch,
        slot=-1,
        checkpoint=None,
        environment={"ROLE": role, "PATH": os.environ["PATH"]},
    )


class House:
    """Children, their events in order, and a loop that only turns inside `until`."""

    def __init__(self, lock_fd: int, run: str = "tests.process.roles:play", start_budget_s: float = 5.0) -> None:
        self.loop = asyncio.new_event_loop()
        self.board = Board.create()
        self.events: list[ChildEvent] = []
        environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
        self.children = Children(
            self.board,
            lock_fd,
            self.events.append,
            self.loop,
            environment=environment,
            start_budget_s=start_budget_s,
            run=run,
        )
        self.loop.add_signal_handler(signal.SIGCHLD, self.children.reap)

    def start(self, shard: str, epoch: int = 1, role: str = "wait", lease_s: float = 60.0, **spec: str | float) -> None:
        self.children.start(task(shard, epoch, role, **spec), boottime_ns() + int(lease_s * 1e9))

    def until(self, condition: Callable[[], T], timeout_s: float = 10.0) -> T:
        limit = time.monotonic() + timeout_s
        while not (result := condition()):
            if time.monotonic() > limit:
                raise AssertionError(f"not true within {timeout_s:g} s; events so far: {self.events}")
            self.turn()
        return result

    def turn(self, seconds: float = 0.005) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def of(self, kind: type[E], shard: str = "", epoch: int = 0) -> list[E]:
        return [
            event
            for event in self.events
            if isinstance(event, kind) and shard in ("", event.shard) and epoch in (0, event.epoch)
        ]

    @property
    def server_pid(self) -> int:
        """Of the fork server that makes new children; 0: there is none at the moment."""
        return next(iter(self.children.server_pids), 0)

    def started(self, shard: str, epoch: int = 1) -> Started:
        return self.until(lambda: self.of(Started, shard, epoch))[0]

    def exited(self, shard: str, epoch: int = 1) -> Exited:
        return self.until(lambda: self.of(Exited, shard, epoch))[0]

    def close(self) -> None:
        self.loop.remove_signal_handler(signal.SIGCHLD)
        assert self.children.close(), "something did not die"
        self.loop.close()
        os.close(self.board.fd)


@pytest.fixture
def lock_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    yield fd
    os.close(fd)


@pytest.fixture
def house(lock_fd: int) -> Iterator[House]:
    made = House(lock_fd)
    yield made
    made.close()
