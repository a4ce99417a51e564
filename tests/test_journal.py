"""The log: what a line looks like, and that nothing about it can hold up or bring down who writes."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest

from supervisor.journal import TEXT_MAX_CHARS, Journal
from tests.wait import ready, until

ME = "host:17:abcd"


@contextmanager
def pipe() -> Iterator[tuple[int, TextIO]]:
    reader, writer = os.pipe()
    try:
        with os.fdopen(writer, "w") as stream:
            yield reader, stream
    finally:
        os.close(reader)


def available(fd: int) -> bytes:
    """What can be read now; the file is non-blocking."""
    found = b""
    try:
        while more := os.read(fd, 65_536):
            found += more
    except BlockingIOError:
        return found
    return found


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def written(level: str = "debug", *calls: tuple[str, str, dict[str, Any]]) -> list[dict[str, Any]]:
    with pipe() as (reader, stream):
        journal = Journal(ME, level, stream)
        for at, event, fields in calls:
            journal.write(at, event, **fields)
        journal.close()
        return lines(os.read(reader, 65_536))


def test_a_line_is_one_json_object_with_the_known_fields_first() -> None:
    fields = {
        "message": "it was free",
        "count": 2,
        "latency_ms": 1.5,
        "epoch": 12,
        "shard": "trades/7",
        "reason": "free",
    }
    (line,) = written("info", ("info", "lease.claimed", fields))
    first = ["time", "level", "event", "supervisor", "shard", "epoch", "reason", "latency_ms"]
    assert list(line) == [*first, "count", "message"]
    assert (line["level"], line["event"], line["supervisor"]) == ("INFO", "lease.claimed", ME)
    assert line["time"].endswith("Z")


def test_fields_that_are_none_or_empty_messages_are_left_out() -> None:
    (line,) = written("info", ("info", "lease.lost", {"shard": "a", "reason": None}))
    assert set(line) == {"time", "level", "event", "supervisor", "shard"}


def test_lines_below_the_level_are_not_written() -> None:
    calls = [(level, "config.warning", {}) for level in ("debug", "info", "warning", "error")]
    assert [line["level"] for line in written("warning", *calls)] == ["WARNING", "ERROR"]


def test_fields_may_have_any_name_and_any_value() -> None:
    fields = {"name": "n", "args": [1], "msg": "m", "exc_info": "e", "path": os, "levelname": "l"}
    (line,) = written("info", ("info", "lease.lost", fields))
    assert {name: line[name] for name in ("name", "args", "msg", "exc_info", "levelname")} == {
        name: value for name, value in fields.items() if name != "path"
    }


def test_a_text_cannot_begin_a_line_of_its_own_and_a_long_one_is_cut() -> None:
    (line,) = written("info", ("info", "lease.lost", {"reason": "x\n{}\r\x1b[2J\ud800", "message": "m" * 10_000}))
    assert line["reason"].startswith("x\n{}\r\x1b[2J")
    assert len(line["message"]) == TEXT_MAX_CHARS + 3


def test_a_new_id_stands_in_the_lines_after_it() -> None:
    with pipe() as (reader, stream):
        journal = Journal(ME, "info", stream)
        journal.write("info", "lease.conflict")
        journal.supervisor = "host:17:beef"
        journal.write("info", "supervisor.started")
        journal.close()
        assert [line["supervisor"] for line in lines(os.read(reader, 65_536))] == [ME, "host:17:beef"]


def test_warnings_of_libraries_become_lines_too() -> None:
    with pipe() as (reader, stream):
        journal = Journal(ME, "info", stream)
        journal.capture()
        logging.getLogger("some.library").warning("%d retries", 3)
        logging.getLogger("some.library").info("not this")
        journal.close()
        logging.getLogger("some.library").warning("not after the end")
        (line,) = lines(os.read(reader, 65_536))
        assert (line["event"], line["library"], line["message"]) == ("library.warning", "some.library", "3 retries")


def test_a_terminal_gets_one_line_of_text_without_control_characters() -> None:
    control, terminal = pty.openpty()
    try:
        with os.fdopen(terminal, "w") as stream:
            journal = Journal(ME, "info", stream)
            journal.write(
                "warning", "child.killed", "by \x1b[2Jus\n \x9b2J \u202e", shard="trades/7", epoch=3, latency_ms=1.5
            )
            journal.close()
            text = os.read(control, 4096).decode()
    finally:
        os.close(control)
    assert text[8:] == " WARNING child.killed trades/7 epoch=3 latency_ms=1.5 by \\x1b[2Jus\\n \\x9b2J \\u202e\r\n"


def test_a_reader_that_stands_still_costs_lines_and_never_a_wait() -> None:
    with pipe() as (reader, stream):
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        journal = Journal(ME, "info", stream, queue_max=20)
        writers = [threading.Thread(target=_write_many, args=(journal, 500)) for _ in range(2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(10)
        assert not any(writer.is_alive() for writer in writers)

        os.set_blocking(reader, False)
        received, attempts = b"", 1000

        def caught_up() -> bool:
            nonlocal received, attempts
            more = available(reader)
            received += more
            if not more:
                attempts += 1
                journal.write("info", "lease.lost", last=True)
            return b'"last": true' in received

        until(caught_up, 10)
        journal.close()
        received += available(reader)
        found = lines(received)
        dropped = sum(line["count"] for line in found if line["event"] == "journal.dropped")
        kept = sum(1 for line in found if line["event"] != "journal.dropped")
        assert dropped + kept == attempts
        assert journal.dropped == dropped
        assert dropped > 900


def _write_many(journal: Journal, count: int) -> None:
    for number in range(count):
        journal.write("info", "lease.claimed", "x" * 200, number=number)


def test_a_pipe_that_somebody_made_non_blocking_loses_nothing() -> None:
    with pipe() as (reader, stream):
        os.set_blocking(stream.fileno(), False)
        journal = Journal(ME, "info", stream)
        _write_many(journal, 1000)
        received: list[dict[str, Any]] = []
        rest = b""

        def all_there() -> bool:
            nonlocal rest
            if not ready([reader], timeout_s=0.1):
                return False
            whole, _, rest = (rest + os.read(reader, 65_536)).rpartition(b"\n")
            received.extend(lines(whole))
            return len(received) >= 1000

        until(all_there, 20)
        journal.close()
        assert [line.get("number") for line in received] == list(range(1000))


def test_a_reader_that_went_away_does_not_end_the_writer() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        journal = Journal(ME, "info", stream)
        os.close(reader)
        _write_many(journal, 10)
        until(journal._queue.empty, 5)
        assert journal._thread.is_alive()
        journal.close()
        assert not journal._thread.is_alive()


@pytest.mark.parametrize("closed", ["journal.close()", "pass"])
def test_a_process_ends_although_nobody_reads_its_log(closed: str) -> None:
    script = (
        "import sys\nfrom supervisor.journal import Journal\n"
        "journal = Journal('h:1:a', 'info', sys.stderr)\n"
        "for number in range(2000): journal.write('info', 'lease.lost', 'x' * 500)\n"
        f"{closed}\nsys.exit(3)\n"
    )
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen([sys.executable, "-c", script], stderr=writer)
        os.close(writer)
        assert process.wait(20) == 3
    finally:
        os.close(reader)
