"""The README's words are checked: its configuration loads, its commands exist, its paths are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from supervisor.cli import commands
from supervisor.configuration.config import load
from supervisor.journal import EVENTS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
FAULTS = (ROOT / "docs" / "faults.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


def test_the_first_configuration_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "tenured.ini"
    file.write_text(blocks("ini")[0])
    (tmp_path / "token").write_text("secret")
    assert list(load(str(file), {}).shards) == [f"trades/{index}" for index in range(16)]


def test_ci_runs_the_test_command_that_the_readme_shows() -> None:
    found = [line for line in TEXT.splitlines() if line.endswith("python -m tests")]
    assert len(found) == 1
    assert "python -m tests$" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("line", [line for block in blocks("sh") for line in block.splitlines() if "tenured " in line])
def test_every_command_shown_exists_with_its_options(line: str) -> None:
    words = shlex.split(line.partition(" # ")[0])
    start = next(index for index, word in enumerate(words) if word.endswith("tenured"))
    command, *options = words[start + 1 :]
    shown = CliRunner().invoke(commands, [command, "--help"])
    assert shown.exit_code == 0, shown.output
    for option in options:
        if option.startswith("-"):
            assert option in shown.output


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"\((docs/[^)#]+|[A-Z]+(?:\.md)?)[#)]|(tests/\w+(?:/\w+)*(?:\.py)?)", TEXT)))
)
def test_every_path_named_is_there(path: tuple[str, str]) -> None:
    assert (ROOT / (path[0] or path[1])).exists()


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m (tests\.[\w.]+)", TEXT))))
def test_every_module_named_is_there(module: str) -> None:
    path = ROOT / module.replace(".", "/")
    assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@pytest.mark.parametrize(("file", "name"), re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", FAULTS))
def test_every_test_that_is_said_to_show_something_is_there(file: str, name: str) -> None:
    assert re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text(), re.M)


def test_every_event_of_the_log_is_documented() -> None:
    text = (ROOT / "docs" / "exit-codes.md").read_text()
    assert EVENTS - set(re.findall(r"`([a-z]+\.[a-z]+)`", text)) == set()
