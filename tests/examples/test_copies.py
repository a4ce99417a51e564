"""The examples as a user has them: copied, tested, checked, and run as their page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.examples.application import EXAMPLES, NAMES, copied
from tests.process.host import COMMAND, tenured
from tests.wait import until

ROOT = EXAMPLES.parent
HANDLER_LINES_MAX = 150
PAGE = (EXAMPLES / "README.md").read_text()
COMMANDS = re.findall(r"^\| `(.*?)` \| `(.*?)` \|$", PAGE, re.M)  # of a far end, and of its example
PUBLISHING = re.findall(r"`(python3 -m tests\.examples\.publisher .*?)`", PAGE)[0]


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize("name", NAMES)
def test_its_own_tests_pass_where_it_is_copied_to(name: str, tmp_path: Path) -> None:
    done = run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", folder=copied(name, tmp_path))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_its_types_are_strict(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    cache = f"--cache-dir={ROOT}/.mypy_cache/examples"
    done = run("mypy", "--strict", cache, *(path.name for path in folder.glob("*.py")), folder=folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_its_configuration_is_valid_and_no_secret_stands_in_it(name: str) -> None:
    done = tenured("check", "-c", str(EXAMPLES / name / "tenured.ini"))
    assert done.returncode == 0, done.stderr
    assert not re.search("token *=|secret|Bearer", (EXAMPLES / name / "tenured.ini").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_each_module_says_what_it_is_and_is_short(name: str) -> None:
    for path in (EXAMPLES / name).glob("*.py"):
        text = path.read_text()
        assert text.startswith('"""')
        assert path.name.startswith("test_") or len(text.splitlines()) <= HANDLER_LINES_MAX
    assert f"[{name}]({name}/" in PAGE


@contextmanager
def started(command: str, log: Path) -> Iterator[None]:
    """A command of the page, with a copy instead of the folder of the examples, until the block is left."""
    words = shlex.split(command)
    given = dict(word.split("=", 1) for word in words if re.match("[A-Z_]+=", word))
    words = [word.replace("examples/", f"{log.parent}/", 1) for word in words[len(given) :]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{os.environ['PATH']}:/usr/sbin", **given}
    with log.open("ab") as output:
        process = subprocess.Popen(resolved(words), cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)


def resolved(words: Sequence[str]) -> list[str]:
    """With the interpreter that runs the tests."""
    return [*{"python3": [sys.executable], "tenured": COMMAND}.get(words[0], [words[0]]), *words[1:]]


@pytest.mark.parametrize(("far_end", "example"), COMMANDS)
def test_the_commands_of_the_page_bring_events(far_end: str, example: str, tmp_path: Path) -> None:
    (name,) = re.findall(r"examples/(\w+)/tenured\.ini", example)
    events = copied(name, tmp_path) / "events.jsonl"

    def brought() -> bool:
        if name == "mqtt":
            run(*shlex.split(PUBLISHING)[2:], folder=ROOT)
        return events.exists() and events.stat().st_size > 0

    with started(far_end, tmp_path / "far-end.log"), started(example, tmp_path / "example.log"):
        until(brought, 30, 0.1)


def test_the_page_names_each_example_and_how_to_run_it() -> None:
    assert sorted(re.findall(r"examples/(\w+)/tenured\.ini", PAGE)) == NAMES
    assert len(COMMANDS) == len(NAMES)
