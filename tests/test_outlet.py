"""Where events may not go: a log that drops and cuts lines is recognised, a pipe or a file is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor import outlet
from supervisor.outlet import containers_stdout, lossy_log


@contextmanager
def pipe() -> Iterator[os.stat_result]:
    reader, writer = os.pipe()
    try:
        yield os.fstat(writer)
    finally:
        os.close(reader)
        os.close(writer)


def test_the_stream_that_systemd_names_is_the_journal() -> None:
    with pipe() as found:
        assert lossy_log(found, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}, None) == "the systemd journal"
        assert lossy_log(found, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"}, None) == ""


def test_of_all_pipes_in_a_container_only_the_one_of_its_first_process_leads_to_a_log_driver() -> None:
    with pipe() as ours, pipe() as containers:
        assert lossy_log(containers, {}, containers) == "a container's log driver"
        assert lossy_log(ours, {}, containers) == ""
        assert lossy_log(ours, {}, None) == ""


def test_a_file_is_no_log_even_if_all_of_the_container_goes_there(tmp_path: Path) -> None:
    assert lossy_log(tmp_path.stat(), {}, tmp_path.stat()) == ""


def test_only_in_a_container_its_first_process_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = tmp_path / "1"
    shown.touch()
    monkeypatch.setattr(outlet, "_CONTAINER_MARKS", (tmp_path / "mark",))
    ecs = {"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/x"}
    assert containers_stdout({}, str(shown)) is None
    found = containers_stdout(ecs, str(shown))
    assert found is not None
    assert os.path.samestat(found, shown.stat())
    assert containers_stdout(ecs, str(tmp_path / "hidden")) is None
    (tmp_path / "mark").touch()
    assert containers_stdout({}, str(shown)) is not None
