from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from supervisor.lock import attempt
from tests.process.conftest import ROOT
from tests.wait import until

EIGHT = {f"trades/{number}": "busy" if number < 2 else "wait" for number in range(8)}


def dead(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


class Parent:
    """The process of `tests.process.parent`, and what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self.process = process
        self._said = said

    def said(self, event: str) -> list[dict[str, Any]]:
        lines = self._said.read_text().splitlines(keepends=True)
        return [
            said for said in map(json.loads, (line for line in lines if line.endswith("\n"))) if said["event"] == event
        ]

    def up(self) -> dict[str, Any]:
        return until(lambda: self.said("Up"), 20)[0]

    def pids(self) -> list[int]:
        """The children, in the order of their shards, once all of them are at work."""
        return list(self.up()["pids"].values())


@contextmanager
def parent(
    folder: Path,
    roles: dict[str, str],
    lease_s: float = 60,
    prefix: tuple[str, ...] = (),
    python_path: tuple[str, ...] = (),
) -> Iterator[Parent]:
    said = folder / "said"
    command = [*prefix, sys.executable, "-m", "tests.process.parent", str(folder / "state"), str(lease_s)]
    command += [f"{shard}={role}" for shard, role in roles.items()]
    with open(said, "wb") as out:
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([*python_path, str(ROOT)])}
        process = subprocess.Popen(command, stdout=out, cwd=ROOT, env=environment)
    try:
        yield Parent(process, said)
    finally:
        process.kill()
        process.wait()


def test_everything_is_gone_within_a_second_of_a_kill_of_the_supervisor(tmp_path: Path) -> None:
    with parent(tmp_path, EIGHT) as supervisor:
        everybody = [*supervisor.pids(), supervisor.up()["server"]]
        for pid in everybody[3], everybody[-1]:  # neither a stopped child nor a stopped fork server is spared
            os.kill(pid, signal.SIGSTOP)
        supervisor.process.kill()
        killed = time.monotonic()
        until(lambda: all(dead(pid) for pid in everybody), 5)
        assert time.monotonic() - killed < 1


def test_a_fork_server_that_is_stopped_in_its_first_imports_dies_with_the_supervisor(tmp_path: Path) -> None:
    slow = tmp_path / "setproctitle"  # stands for any module that the fork server imports first
    slow.mkdir()
    (slow / "__init__.py").touch()
    mark = tmp_path / "mark"
    code = f"import os, time\nwith open('{mark}', 'w') as file: file.write(str(os.getpid()))\ntime.sleep(60)\n"
    (slow / "_setproctitle.py").write_text(code)
    with parent(tmp_path, {}, python_path=(str(tmp_path),)) as supervisor:
        server = int(until(lambda: mark.exists() and mark.read_text(), 20))
        os.kill(server, signal.SIGSTOP)
        supervisor.process.kill()
        until(lambda: dead(server), 2)
        lock = until(lambda: attempt(tmp_path / "state"), 2)
        lock.close()


def test_the_lock_is_free_when_the_last_child_is_dead_and_not_before(tmp_path: Path) -> None:
    with parent(tmp_path, EIGHT) as supervisor:
        pids = supervisor.pids()
        assert attempt(tmp_path / "state") is None
        supervisor.process.kill()
        lock = until(lambda: attempt(tmp_path / "state"), 5, interval_s=0.001)
        assert all(dead(pid) for pid in pids)
        lock.close()


def test_children_of_a_stopped_supervisor_are_dead_at_their_deadline(tmp_path: Path) -> None:
    with parent(tmp_path, {"trades/0": "wait", "trades/1": "busy", "trades/2": "gil"}, lease_s=1) as supervisor:
        pids = supervisor.pids()
        supervisor.process.send_signal(signal.SIGSTOP)
        os.kill(pids[0], signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: all(dead(pid) for pid in pids), 5)
        assert time.monotonic() - stopped < 1.3
        assert supervisor.said("Exited") == []
        supervisor.process.send_signal(signal.SIGCONT)
        until(lambda: len(supervisor.said("Exited")) == 3, 5)


def test_children_outlive_their_first_deadline_while_the_supervisor_moves_it(tmp_path: Path) -> None:
    with parent(tmp_path, {"trades/0": "wait", "trades/1": "busy"}, lease_s=0.6) as supervisor:
        pids = supervisor.pids()
        born = time.monotonic()
        until(lambda: time.monotonic() - born > 1.5, 5)
        assert not any(dead(pid) for pid in pids)
        assert supervisor.said("Exited") == []


def test_children_stay_up_under_a_supervisor_that_is_process_1_and_its_orphans_touch_nobody(tmp_path: Path) -> None:
    orphans = tmp_path / "orphans"
    unshare = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if os.geteuid() != 0:
        unshare = (*unshare, "--user", "--map-root-user")
    with parent(tmp_path, {"trades/0": "wait", "trades/1": f"orphans 256 {orphans}"}, prefix=unshare) as supervisor:
        assert supervisor.up()["pid"] == 1
        until(lambda: orphans.exists() and len(orphans.read_text().split()) == 256, 20)
        inside = psutil.Process(supervisor.process.pid).children()[0]
        until(lambda: not [each for each in inside.children() if each.status() == psutil.STATUS_ZOMBIE], 5)
        assert len(inside.children(recursive=True)) == 3  # the fork server and the two children
        assert supervisor.said("Exited") == []
