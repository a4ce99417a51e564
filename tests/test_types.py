"""What a type checker knows of a handler where the package is installed, not merely next to its source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tenured
from tests.examples.application import NAMES, copied
from tests.wheel import ROOT, environment

HANDLER = """
import json
from collections.abc import Mapping, Sequence

from tenured import Connection, Event, Handler, Message, Retry, Shard, Sink, Timer
from workers.testing import Rig, SinkRig


class Trades(Handler):
    timer: Timer | None = None

    def start(self, shard: Shard) -> None:
        self.name = shard.name
        self.timer = self.every(5, self.beat)

    def beat(self) -> None:
        self.emit(json.dumps({"name": self.name}))

    def target(self, connection: Connection) -> tuple[str, Mapping[str, str]]:
        url, headers = super().target(connection)
        return url + "?ticket=1", headers

    def message(self, connection: Connection, message: Message) -> None:
        if connection.send("ack"):
            self.checkpoint(str(len(message)))

    def messages(self, connection: Connection, batch: list[Message]) -> None:
        for message in batch:
            self.message(connection, message)

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        if self.timer is not None:
            self.timer.cancel()


class Table(Sink):
    def open(self, shard: Shard) -> None:
        self.taken: list[Message] = []

    def write(self, events: Sequence[Event]) -> None:
        if not events:
            raise Retry("nothing", after_s=1)
        self.taken += [event.data for event in events]


def test_it() -> None:
    rig = Rig(Trades, shard="trades/7")
    rig.opened()
    rig.receive("x")
    assert rig.handler.name == "trades/7"
    assert rig.events == ["x"]
    kit = SinkRig(Table, shard="trades/7", on_retry=lambda: None)
    kit.write("x", ids=["7"])
    kit.stop()
    assert kit.sink.taken == ["x"]
"""
WRONG = """
from tenured import Connection, Handler


class Trades(Handler):
    def message(self, connection: Connection, message: int) -> None:
        self.emit(5)
        connection.send({"a": 1})
"""


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("types") / "venv", wheel)


def mypy(python: Path, folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "trades.py").write_text(source)
    return checked(python, folder, "trades.py")


def checked(python: Path, folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, *names]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_a_handler_a_sink_and_their_test_pass_a_strict_type_checker(python: Path, tmp_path: Path) -> None:
    done = mypy(python, tmp_path, HANDLER)
    assert done.returncode == 0, done.stdout


def test_the_typed_handler_that_the_page_shows_and_its_test_pass(python: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "handlers.md").read_text()
    shown = dict(re.findall(r"^```python\n# ((?:test_)?typed\.py)\n(.*?)^```", page, re.S | re.M))
    assert sorted(shown) == ["test_typed.py", "typed.py"]
    for name, text in shown.items():
        (tmp_path / name).write_text(text)
    done = checked(python, tmp_path, *shown)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_pass_where_the_package_is_installed_as_their_page_says(
    name: str, python: Path, tmp_path: Path
) -> None:
    folder = copied(name, tmp_path)
    done = checked(python, folder, *(path.name for path in folder.glob("*.py")))
    assert done.returncode == 0, done.stdout


def test_a_type_checker_finds_what_a_handler_must_not_do(python: Path, tmp_path: Path) -> None:
    done = mypy(python, tmp_path, WRONG)
    assert {line.rpartition("[")[2] for line in done.stdout.splitlines() if ": error: " in line} == {
        "override]",
        "arg-type]",
    }
    assert done.stdout.count("[arg-type]") == 2


def test_the_types_name_all_that_the_package_offers() -> None:
    tree = ast.parse((ROOT / "tenured-stubs" / "__init__.pyi").read_text())
    imported = [alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    (offered,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    assert sorted(tenured.__all__) == sorted(offered) == sorted(filter(None, imported))
