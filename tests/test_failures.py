"""What the exceptions of a handler lead to: lines, a count, a trouble on the board; and where they came from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from workers import blame
from workers.board import HANDLER_ERRORS, Board
from workers.handling.failures import LINES_MAX, WINDOW_NS, Failure, Failures
from workers.log import Log
from workers.spec import Scope, StreamSpec, Task
from workers.troubles import Troubles

HERE = Path(__file__).name
SECOND_NS = 10**9


class Scene:
    def __init__(self) -> None:
        self.slot = Board.create().slot(0)
        self.lines: list[dict[str, Any]] = []
        task = Task(Scope(StreamSpec("s"), "", "", "/"), "s/0", "0", 1, 0, None, {})
        log = Log(lambda line: self.lines.append(json.loads(line)), task)
        self.failures = Failures(log, self.slot.words, Troubles(self.slot), __file__)
        self.now_ns = 5 * SECOND_NS

    def fail(self, number: int, error: Exception | None = None, in_a_row: int = 1) -> None:
        self.failures.failed(Failure(error or raised("oops"), 0, number, number, in_a_row), self.now_ns)

    def wait(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        self.failures.turned(self.now_ns)


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_each_exception_is_counted_and_the_first_ones_are_logged_one_by_one() -> None:
    scene = Scene()
    for number in range(1, 1001):
        scene.fail(number)
    assert scene.slot.words[HANDLER_ERRORS] == 1000
    assert [line["message_number"] for line in scene.lines] == list(range(1, LINES_MAX + 1))
    assert all(HERE in line["where"] for line in scene.lines)


def test_of_those_that_were_not_logged_one_line_says_how_many_they_were() -> None:
    scene = Scene()
    for number in range(1, 1001):
        scene.fail(number)
    scene.wait(WINDOW_NS)
    assert len(scene.lines) == LINES_MAX + 1
    assert scene.lines[-1]["message_number"] == 1000
    assert scene.lines[-1]["reason"].startswith(f"{1000 - LINES_MAX} more of late, the last one ValueError: oops at ")
    scene.wait(WINDOW_NS)
    assert len(scene.lines) == LINES_MAX + 1
    scene.fail(1001)
    assert scene.lines[-1]["message_number"] == 1001


def test_the_trouble_says_what_and_where_and_lasts_until_all_went_well_for_a_while() -> None:
    scene = Scene()
    scene.fail(1)
    line = blame.place(raised("")).rpartition(":")[2]
    assert scene.slot.read_trouble() == f"handler: an error: ValueError at {HERE}:{line}"
    scene.fail(2, in_a_row=7)
    assert scene.slot.read_trouble() == f"handler: 7 errors in a row, the last one: ValueError at {HERE}:{line}"
    scene.wait(WINDOW_NS - 1)
    assert scene.slot.read_trouble()
    scene.wait(1)
    assert not scene.slot.read_trouble()


def test_the_trouble_shows_neither_text_of_the_exception_nor_the_folder() -> None:
    scene = Scene()
    scene.fail(1, raised("secret"))
    trouble = scene.slot.read_trouble() or ""
    assert "secret" not in trouble
    assert os.path.dirname(__file__) not in trouble


def test_the_place_of_an_exception_is_the_innermost_line_of_the_handlers_own_file() -> None:
    with pytest.raises(ValueError) as raising:
        json.loads("no JSON")
    assert HERE in blame.place(raising.value, __file__)
    assert "decoder.py" in blame.place(raising.value)
    assert blame.in_words(raising.value, __file__).startswith("JSONDecodeError: Expecting value")


def test_the_place_of_an_exception_is_never_ours_or_that_of_the_import_machinery() -> None:
    with pytest.raises(ValueError) as raising:
        Board.create().slot(0).write_checkpoint("x" * 3000)
    assert HERE in blame.place(raising.value)
    assert blame.place(ValueError()) == ""
