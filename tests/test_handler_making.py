"""Whatever keeps a handler from being made or started is one sentence in the log that names file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.child import Child, task
from workers.stream.loop import FAILED
from workers.stream.shard import BAD_CONFIGURATION

HEAD = "from tenured import Handler\n"
MAKING = HEAD + "class Trades(Handler):\n  def __init__"


def failed(folder: Path, source: str, name: str = "Trades", code: int = BAD_CONFIGURATION) -> str:
    """The reason that the child gives before it ends."""
    (folder / "trades.py").write_text(source)
    with Child(task("ws://127.0.0.1:1", handler=f"{folder}/trades.py:{name}")) as child:
        assert child.wait() == code
        (line,) = child.log("child.failed")
        assert "Traceback" not in child.log_text()
    reason = str(line["reason"])
    assert "\n" not in reason
    return reason.replace(str(folder), "")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module' at /trades.py:1"),
        (HEAD + "this is no Python", r"SyntaxError: invalid syntax \(trades.py, line 2\)"),
        (HEAD + "raise ValueError('one\\ntwo')", "ValueError: one two at /trades.py:2"),
        (
            MAKING + "(self): raise ValueError('no')",
            "ValueError: no at /trades.py:3",
        ),
        (
            MAKING + "(self): self.every(1, print)",
            r"AttributeError: emit, checkpoint, every .* from start on, not in __init__ at /trades.py:3",
        ),
        (
            MAKING + "(self, file): pass",
            "TypeError: .* missing 1 required .*'file'",
        ),
    ],
)
def test_a_module_or_constructor_that_raises_is_told_with_file_and_line(tmp_path: Path, source: str, said: str) -> None:
    assert re.fullmatch(f"handler /trades.py:Trades cannot be made: {said}", failed(tmp_path, source))


@pytest.mark.parametrize(
    "method",
    ["async def message(self, c, m): self.emit(m)", "def messages(self, c, b): yield", "async def stop(self): pass"],
)
def test_a_method_that_would_do_nothing_when_it_is_called_is_refused(tmp_path: Path, method: str) -> None:
    reason = failed(tmp_path, HEAD + f"class Trades(Handler):\n  {method}\n")
    name = method.split("def ")[1].partition("(")[0]
    assert reason.endswith(f"Trades.{name} is async or a generator, expected a plain method")


def test_methods_of_a_users_own_may_be_what_they_like(tmp_path: Path) -> None:
    source = HEAD + "class Trades(Handler):\n  def parts(self, text): yield text\n  async def ask(self): pass\n"
    (tmp_path / "trades.py").write_text(source)
    with Child(task("ws://127.0.0.1:1", handler=f"{tmp_path}/trades.py:Trades")) as child:
        assert child.stop() == 0


@pytest.mark.parametrize("ending", ["raise SystemExit(3)", "raise KeyboardInterrupt"])
def test_a_module_that_ends_the_process_is_named(tmp_path: Path, ending: str) -> None:
    assert ending.split()[1].partition("(")[0] in failed(tmp_path, HEAD + ending)


def test_a_start_that_raises_is_told_with_file_and_line(tmp_path: Path) -> None:
    source = HEAD + "import json\nclass Trades(Handler):\n  def start(self, shard):\n    json.loads('no JSON')"
    reason = failed(tmp_path, source, code=FAILED)
    assert reason.startswith("the handler's start raised JSONDecodeError: Expecting value")
    assert reason.endswith(" at /trades.py:5")


def test_a_class_that_is_none_or_no_handler_is_told(tmp_path: Path) -> None:
    source = HEAD + "class Other: pass\nclass Orders(Handler): pass"
    lacking = failed(tmp_path, source, "Trades")
    assert lacking.endswith("there is no class Trades in /trades.py, it has Orders")
    wrong = failed(tmp_path, source, "Other")
    assert wrong.endswith("Other is no class derived from tenured.Handler in /trades.py, it has Orders")


def test_modules_beside_the_file_are_found_only_where_the_python_path_names_their_folder(tmp_path: Path) -> None:
    (tmp_path / "prices_of_ours.py").write_text("")
    source = HEAD + "import prices_of_ours\nclass Trades(Handler): pass"
    assert "No module named 'prices_of_ours' at /trades.py:2" in failed(tmp_path, source)
