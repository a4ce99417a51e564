"""A shard that runs in a thread of the test: the real loop, the real board, a log and a sink that can be read.

The loop ends the whole process at its deadline, so tests of that run it in a process of their own (`process`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.wait import until
from workers.board import DEADLINE, Board
from workers.handler import Handler
from workers.log import writer
from workers.process.means import Means
from workers.process.wire import in_memory
from workers.spec import Scope, StreamSpec, Task, read_scope, read_task
from workers.stream.shard import prepare

FAST = {"reconnect_min_ms": 1, "reconnect_max_ms": 5}  # for tests that are not about the backoff


def task(
    *urls: str,
    epoch: int = 1,
    checkpoint: str | None = None,
    pointer: str = "",
    environment: dict[str, str] | None = None,
    base: str = "/",
    **spec: Any,
) -> Task:
    """A task of shard `trades/7`. `pointer`: to tokens in messages; other keywords are of its `StreamSpec`."""
    return Task(
        scope=Scope(
            spec=StreamSpec(stream="trades", url=urls, checkpoint=pointer, **{"sink": "discard", **FAST, **spec}),
            fleet="test",
            host="testhost",
            base=base,
            supervisor="testhost:1:abc",
        ),
        shard="trades/7",
        index="7",
        epoch=epoch,
        slot=0,
        checkpoint=checkpoint,
        environment=environment or {},
    )


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a child in this process holds: depth of the loop's stack, threads, resident memory."""

    frames: int
    threads: int
    resident_bytes: int


class Child:
    """`with Child(task(feed.url)) as child:` starts it; the end of the `with` stops it as a SIGTERM does. A feed whose
    behaviour looks at the child needs `child` bound before the `with`: the child may be connected when it begins."""

    def __init__(
        self,
        task_: Task,
        handler: type[Handler] | None = None,
        contexts: dict[str, Any] | None = None,
        stdout_fd: int = 1,
    ) -> None:
        self._stdout_fd = stdout_fd
        self.task = task_
        self.exit_code: int | None = None
        self._error: BaseException | None = None
        board = Board.create()
        self.slot = board.slot(0)
        os.close(board.fd)  # it is mapped
        self.words = self.slot.words
        self.words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 600 * 10**9
        self._handlers = {task_.scope.spec.handler: handler} if handler else {}
        self._contexts = contexts or {}
        self._wakeup_fd, self._wakeup_end_fd = os.pipe2(os.O_NONBLOCK)
        self._log_fd = os.memfd_create("log")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        means = Means(self._handlers, self._contexts, self._stdout_fd, writer(self._log_fd))
        try:
            self.exit_code = prepare(means, self.task.scope)(self.task, self.slot, self._wakeup_fd)
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Child:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            for fd in (self._wakeup_fd, self._wakeup_end_fd):
                os.close(fd)

    def stop(self, timeout_s: float = 10) -> int:
        """Send a SIGTERM, wait for the end; the exit code."""
        os.write(self._wakeup_end_fd, bytes([signal.SIGTERM]))
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 10) -> int:
        self._thread.join(timeout_s)
        self._must_not_have_raised()
        assert self.exit_code is not None, f"the child still runs after {timeout_s} s"
        return self.exit_code

    def log(self, event: str = "") -> list[dict[str, Any]]:
        """All records so far, or those of one event."""
        data = self.log_text()
        records = [json.loads(line) for line in data.splitlines(keepends=True) if line.endswith("\n")]
        return [record for record in records if not event or record["event"] == event]

    def log_text(self) -> str:
        return os.pread(self._log_fd, os.fstat(self._log_fd).st_size, 0).decode()

    def footprint(self) -> Footprint:
        frame = sys._current_frames()[self._thread.ident or 0]
        frames = sum(1 for _ in traceback.walk_stack(frame))
        return Footprint(frames, threading.active_count(), psutil.Process().memory_info().rss)

    def cpu_ns(self) -> int:
        """What its thread has spent so far: unlike the time that passed, it does not grow while others are busy."""
        return int(Path(f"/proc/self/task/{self._thread.native_id}/schedstat").read_text().split()[0])

    def word(self, word: int, at_least: int, timeout_s: float = 20) -> int:
        """Wait until a word of the board has reached a value."""

        def reached() -> int:
            self._must_not_have_raised()
            return self.words[word] if self.words[word] >= at_least else 0

        return until(reached, timeout_s)

    def _must_not_have_raised(self) -> None:
        if self._error:
            raise AssertionError("the loop raised an error") from self._error


def lines(path: Path) -> list[dict[str, Any]]:
    """The events of a jsonl file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def process(
    task_: Task, board: Board, stdout: int | None = None, stderr: int | None = None, launcher: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """The same in a process of its own, without fork server and fence; SIGTERM stops it. `launcher`: what execs it."""
    task_fd = in_memory(task_.packed(), "task")
    command = [*launcher, sys.executable, "-m", "tests.child", str(board.fd), str(task_fd)]
    try:
        return subprocess.Popen(command, stdout=stdout, stderr=stderr, pass_fds=[board.fd, task_fd])
    finally:
        os.close(task_fd)


def _main() -> int:
    board_fd, task_fd = map(int, sys.argv[1:])
    scope = Scope.from_json(read_scope(task_fd))
    task_ = read_task(task_fd, scope)
    wakeup_fd, wakeup_end_fd = os.pipe2(os.O_NONBLOCK)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(wakeup_end_fd)
    return prepare(Means({}, {}, 1, writer(2)), scope)(task_, Board.attach(board_fd).slot(task_.slot), wakeup_fd)


if __name__ == "__main__":
    sys.exit(_main())
