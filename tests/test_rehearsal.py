"""What the fork server does for the memory of its children, before it has any; in a process of its own, as there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from workers.board import Slot
from workers.process.means import Means
from workers.process.rehearsal import rehearse
from workers.spec import Scope, Task
from workers.stream.shard import prepare


def refuse(means: Means, _scope: Scope) -> Callable[[Task, Slot, int], int]:
    """A shard whose connection fails."""

    def run(_task: Task, _slot: Slot, _wakeup_fd: int) -> int:
        means.write_log(b'{"event": "connection.closed", "reason": "refused"}\n')
        return 0

    return run


def after_a_rehearsal(of: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.test_rehearsal", of]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize(("of", "fault"), [("shard", ""), ("refusal", "refused")])
def test_a_rehearsal_leaves_no_thread_and_no_file_behind_and_gives_up_at_its_first_fault(of: str, fault: str) -> None:
    said = after_a_rehearsal(of)
    assert said["threads"] == 1
    assert said["files"] == 0
    assert fault in said["fault"]
    assert bool(fault) == bool(said["fault"])


def test_nothing_that_a_child_needs_registers_a_function_that_each_fork_would_call() -> None:
    program = "import json, sys, workers.process.forkserver, workers.stream.shard; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=True)
    assert not {"threading", "logging", "random"} & set(json.loads(done.stdout))


def _main() -> None:
    before, fault = len(os.listdir("/proc/self/fd")), ""
    try:
        rehearse({"shard": prepare, "refusal": refuse}[sys.argv[1]])
    except OSError as error:
        fault = str(error)
    files, threads = len(os.listdir("/proc/self/fd")) - before, len(os.listdir("/proc/self/task"))
    print(json.dumps({"files": files, "threads": threads, "fault": fault}))


if __name__ == "__main__":
    _main()
