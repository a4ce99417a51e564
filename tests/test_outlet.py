"""Where events may not go: a log that drops and cuts lines is recognised, a pipe or a file is not."""

from __future__ import annotations

import os
from pathlib import Path

from supervisor.outlet import in_container, lossy_log


def pipe() -> os.stat_result:
    reader, writer = os.pipe()
    try:
        return os.fstat(writer)
    finally:
        os.close(reader)
        os.close(writer)


def test_the_stream_that_systemd_names_is_the_journal() -> None:
    found = pipe()
    assert lossy_log(found, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}, False) == "the systemd journal"
    assert lossy_log(found, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"}, False) == ""


def test_a_pipe_is_a_log_driver_only_in_a_container() -> None:
    assert lossy_log(pipe(), {}, True) == "a container's log driver"
    assert lossy_log(pipe(), {}, False) == ""


def test_a_file_is_no_log(tmp_path: Path) -> None:
    assert lossy_log(tmp_path.stat(), {}, True) == ""


def test_ecs_says_that_it_is_a_container() -> None:
    assert in_container({"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/x"})
