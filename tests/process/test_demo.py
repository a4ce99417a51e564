"""`tenured demo` from end to end, with real supervisors: what it shows, what it leaves behind, when it says no."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import engines
from tests.wait import until

CLI = [sys.executable, "-P", "-m", "supervisor.cli"]
SHOW = ["demo", "--plain", "--seconds", "1", "--shards", "6"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, because the supervisors' sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="d-") as path:
        yield Path(path)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder)}


def perform(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, *SHOW, *arguments], capture_output=True, text=True, timeout=60, env=environment(folder)
    )


def processes_in(folder: Path) -> list[int]:
    """Everything that has a file of the folder open: supervisors, their fork servers, children, the feed."""
    return [process.pid for process in psutil.process_iter() if _has_open(process.pid, folder)]


def _has_open(pid: int, folder: Path) -> bool:
    try:
        return any(os.readlink(fd).startswith(str(folder)) for fd in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False  # it ended while we looked


def assert_nothing_is_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    assert processes_in(folder) == []


def assert_all_kept(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything is as promised" in done.stdout
    assert len(re.findall(r"^kept ", done.stdout, re.MULTILINE)) == 9
    assert "BROKEN" not in done.stdout
    assert re.search(r"no event is lost: 0 lost of [1-9]\d* events, [1-9]\d* delivered", done.stdout)
    assert re.search(r"streams elsewhere within 4\.5 s: [1-6] shards, gap [0-4]\.\d\d to [0-4]\.\d\d s", done.stdout)


def test_a_killed_supervisor_is_succeeded_as_promised_and_nothing_is_left(folder: Path) -> None:
    assert_all_kept(perform(folder))
    assert_nothing_is_left(folder)


def test_three_supervisors_give_the_same_show_on_dynamodb_and_leave_no_member(
    folder: Path, ministack: engines.Engine, table: str
) -> None:
    store = ministack.url(table)
    done = perform(folder, "--store", store, "--supervisors", "3")
    assert_all_kept(done)
    assert_nothing_is_left(folder)
    status = subprocess.run([*CLI, "status", "--json", "--store", store], capture_output=True, text=True, timeout=20)
    seen = json.loads(status.stdout)
    assert seen["supervisors"] == []
    assert len(seen["shards"]) == 6


def test_a_takeover_that_is_slower_than_promised_exits_1(folder: Path) -> None:
    code = "from supervisor.demo import show, verdict; verdict.TAKEOVER_ALLOWANCE_MS = -2900; "
    code += "raise SystemExit(show.run(None, 2, 2, 1, True))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, env=environment(folder)
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(re.findall(r"^BROKEN ", done.stdout, re.MULTILINE)) == 1
    assert "1 of 9 promises were broken" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_show_ends_all_that_it_started(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*CLI, *SHOW], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(folder)
    ) as show:
        assert show.stdout is not None
        assert any("all 6 shards stream" in line for line in show.stdout)
        assert len(processes_in(folder)) > 8
        show.send_signal(number)
        code = show.wait(timeout=15)
    until(lambda: not processes_in(folder), 2)
    if number == signal.SIGKILL:
        return  # nobody was left who could remove the folder
    assert code == 128 + number
    assert_nothing_is_left(folder)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--store", "sqlit:///x.db"], 2, "unknown scheme sqlit://"),
        (["--store", "dynamodb://absent-table?region=us-east-1&endpoint_url=http://127.0.0.1:1"], 69, "absent-table"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_sentence(
    folder: Path, arguments: list[str], code: int, sentence: str
) -> None:
    began = time.monotonic()
    done = perform(folder, *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - began < 30
    assert_nothing_is_left(folder)
