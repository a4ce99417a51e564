"""The log of a child: whole lines, never a wait, and a count of what did not fit."""

from __future__ import annotations

import json
import os
import pty
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.child import task
from workers.log import LINE_MAX_BYTES, Log, writer
from workers.terminal import fit


def log(fd: int) -> Log:
    return Log(writer(fd), task(epoch=12))


def records(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_a_record_is_one_line_with_the_fields_of_the_supervisors_log() -> None:
    reader, writer = os.pipe()
    log(writer)("connection.closed", "WARNING", connection=0, reason="a\nb", code=None)
    record = records(os.read(reader, 10_000))[0]
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "WARNING",
        "event": "connection.closed",
        "supervisor": "testhost:1:abc",
        "shard": "trades/7",
        "epoch": 12,
        "connection": 0,
        "reason": "a\nb",
    }


def test_no_line_moves_the_cursor_of_who_looks_at_the_log_and_none_loses_its_meaning() -> None:
    reader, writer = os.pipe()
    reason = "bye \x1b[2J \x9b2J \u202e \ud800 \U000e0001 ä"
    log(writer)("connection.closed", reason=reason)
    line = os.read(reader, 10_000)
    assert line.decode().removesuffix("\n").isprintable()
    assert "ä" in line.decode()
    assert records(line)[0]["reason"] == reason


def test_a_terminal_gets_text() -> None:
    control, terminal = pty.openpty()
    Log(fit(terminal, writer(terminal)), task(epoch=12))("connection.closed", "WARNING", connection=0, reason="\x9b2J")
    text = os.read(control, 4096).decode()
    os.close(control)
    os.close(terminal)
    assert text[8:] == " WARNING connection.closed trades/7 epoch=12 connection=0 reason=\\x9b2J\r\n"


def test_a_line_never_exceeds_what_a_pipe_takes_in_one_piece() -> None:
    reader, writer = os.pipe()
    for field in ("x" * 10_000, "🎉" * 10_000, '"' * 10_000):
        log(writer)("connection.closed", reason=field, url=field, where=field)
        line = os.read(reader, 100_000)
        assert len(line) <= LINE_MAX_BYTES
        assert records(line)[0]["shard"] == "trades/7"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_stderr_that_nobody_reads_costs_lines_and_no_time(kind: str) -> None:
    if kind == "pipe":
        reader, writer = os.pipe()
    else:
        reader, writer = (end.detach() for end in socket.socketpair())
    write = log(writer)
    begun = time.monotonic()
    for number in range(5000):
        write("connection.closed", connection=number)
    assert time.monotonic() - begun < 5
    first = records(os.read(reader, 10_000_000))
    write("connection.opened")
    last = records(os.read(reader, 10_000_000))[-1]
    assert last["event"] == "connection.opened"
    assert len(first) + last["dropped"] <= 5000
    assert last["dropped"] > 100


def test_a_closed_stderr_is_survived() -> None:
    reader, writer = os.pipe()
    write = log(writer)
    os.close(reader)
    write("connection.opened")


def test_lines_in_a_file_that_others_write_to_overwrite_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    with path.open("wb", buffering=0) as file:
        write = log(file.fileno())
        for _ in range(3):
            write("connection.opened")
            file.write(b'{"event":"other"}\n')
    assert [record["event"] for record in records(path.read_bytes())] == ["connection.opened", "other"] * 3
