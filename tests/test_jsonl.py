"""The file of events that many children append to: lines that never mix, torn ones, files that move, full disks."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.sinks import batch, expect_whole, opened, write_rounds, writers
from workers.sinks.interface import BadSink, Sink


def jsonl(folder: Path, name: str = "events", **given: Any) -> Sink:
    return opened(f"jsonl:{name}", base=str(folder), **given)


@pytest.mark.parametrize("path", ["folder", "folder/"])
def test_a_folder_gets_the_file_events_jsonl(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    sink = jsonl(tmp_path, path)
    sink.write([batch("a")])
    sink.close()
    assert json.loads((tmp_path / "folder/events.jsonl").read_text())["data"] == "a"


def test_the_file_belongs_to_its_user_alone(tmp_path: Path) -> None:
    jsonl(tmp_path).close()
    assert stat.S_IMODE((tmp_path / "events").stat().st_mode) == 0o600


def test_a_missing_folder_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadSink, match="cannot be opened: No such file or directory"):
        jsonl(tmp_path, "missing/events")


def test_a_torn_line_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b'{"whole":1}\n{"torn":')
    sink = jsonl(tmp_path)
    sink.write([batch("a")])
    sink.write([batch("b", first_seq=2)])
    lines = path.read_bytes().splitlines()
    assert lines[:2] == [b'{"whole":1}', b'{"torn":']
    assert [json.loads(line)["data"] for line in lines[2:]] == ["a", "b"]


def test_a_file_that_was_moved_away_is_left_alone_and_a_new_one_begun(tmp_path: Path) -> None:
    path, moved = tmp_path / "events", tmp_path / "events.1"
    sink = jsonl(tmp_path)
    sink.write([batch("a")])
    path.rename(moved)
    sink.write([batch("b")])
    sink.flush()
    assert json.loads(moved.read_bytes())["data"] == "a"
    assert json.loads(path.read_bytes())["data"] == "b"


def test_lines_of_any_size_never_mix_in_a_file(tmp_path: Path) -> None:
    writers(4, lambda number: write_rounds(jsonl(tmp_path, shard="abcd"[number]), "abcd"[number], 40))
    expect_whole((tmp_path / "events").read_bytes().splitlines(), 4, 40)
