"""Events as lines, the choice of a sink, and lines that never mix on a stdout that all children share."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import termios
import threading
from collections.abc import Callable

import pytest

import tenured
from tests.sinks import FORK, Noted, batch, context, expect_whole, write_rounds, writers
from tests.wait import until
from workers.sinks.choice import sink_of
from workers.sinks.discard import Discard
from workers.sinks.envelope import Envelope
from workers.sinks.interface import BadSink
from workers.sinks.jsonl import Jsonl
from workers.sinks.own import Own
from workers.sinks.stdout import Stdout

# --- the envelope -------------------------------------------------------------------------------------------


def test_an_event_is_one_line_of_the_documented_form() -> None:
    line = Envelope("trades/7", 12).lines(batch("..."))
    assert line == (
        b'{"shard":"trades/7","epoch":12,"seq":1,"connection":0,'
        b'"received_at":"2026-01-01T00:00:00.000001Z","data":"..."}\n'
    )


@pytest.mark.parametrize("text", ["", '"\\/\b\n\r\t\x00\x1f', "grüße 🎉 \u2028", "\ud800 alone", "x" * 100_000])
def test_any_text_survives_as_one_line(text: str) -> None:
    line = Envelope("trades/7", 12).lines(batch(text))
    assert line.count(b"\n") == 1
    assert json.loads(line)["data"] == text


def test_bytes_are_base64_and_numbers_go_on() -> None:
    lines = Envelope("trades/7", 12).lines(batch("a", b"\x00\xff", "b", first_seq=41, connection=None)).splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == [41, 42, 43]
    assert events[1]["data_base64"] == "AP8="
    assert "data" not in events[1]
    assert events[0]["connection"] is None


# --- choice -------------------------------------------------------------------------------------------------


class Mine(tenured.Sink):
    """A sink of a user's own."""


@pytest.mark.parametrize(
    ("text", "kind"), [("stdout", Stdout), ("discard", Discard), ("jsonl:events", Jsonl), ("./x.py:Mine", Own)]
)
def test_the_text_of_the_configuration_chooses_the_sink(text: str, kind: type) -> None:
    assert isinstance(sink_of(text, context(), lambda _: Mine), kind)


@pytest.mark.parametrize("text", ["", "jsonl", "jsonl:", "file:/x", "STDOUT", "discard:x", "kinesis:", "x.py:"])
def test_a_sink_that_is_none_is_refused_with_the_possible_ones(text: str) -> None:
    with pytest.raises(BadSink, match="expected stdout, jsonl:PATH, http"):
        sink_of(text, context(), lambda _: Mine)


# --- stdout -------------------------------------------------------------------------------------------------


def stdout(fd: int, shard: str = "trades/7") -> Stdout:
    return Stdout(context(shard, stdout_fd=fd))


def pipe() -> tuple[int, int]:
    return os.pipe()


def socketpair() -> tuple[int, int]:
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


@pytest.mark.parametrize("make", [pipe, socketpair])
def test_lines_of_any_size_never_mix_on_a_shared_stdout(make: Callable[[], tuple[int, int]]) -> None:
    reader, writer = make()
    read: list[bytes] = []
    collecting = threading.Thread(target=lambda: collect(reader, read))
    collecting.start()
    writers(4, lambda number: write_rounds(stdout(writer, "abcd"[number]), "abcd"[number], 40))
    os.close(writer)
    collecting.join(10)
    expect_whole(b"".join(read).splitlines(), 4, 40)


def collect(fd: int, into: list[bytes]) -> None:
    while data := os.read(fd, 65_536):
        into.append(data)


def test_a_writer_killed_in_mid_write_costs_its_own_last_line_only() -> None:
    reader, writer = os.pipe()
    victim = FORK.Process(target=lambda: stdout(writer, "v").write([batch("v" * 1_000_000)]))
    victim.start()
    capacity = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    until(lambda: unread(reader) == capacity, 5)
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join(5)
    read: list[bytes] = []
    collecting = threading.Thread(target=lambda: collect(reader, read))
    collecting.start()
    for number in range(2):
        stdout(writer, "s").write([batch("survivor", first_seq=number + 1)])
    os.close(writer)
    collecting.join(5)
    torn, *whole = b"".join(read).splitlines()
    assert torn.startswith(b'{"shard":"v"')
    assert [json.loads(line)["data"] for line in whole] == ["survivor", "survivor"]


def unread(fd: int) -> int:
    held: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
    return held


def test_a_stdout_that_somebody_made_non_blocking_loses_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    read: list[bytes] = []
    collecting = threading.Thread(target=lambda: collect(reader, read))
    collecting.start()
    stdout(writer).write([batch("x" * 1_000_000)])
    os.close(writer)
    collecting.join(5)
    assert len(json.loads(b"".join(read))["data"]) == 1_000_000


def test_a_stdout_on_a_full_disk_is_waited_for_and_no_line_is_cut() -> None:
    reader, writer = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    report = Noted(on_retry=lambda: os.dup2(writer, full) if len(report.retries) == 3 else None)
    Stdout(context(stdout_fd=full, report=report)).write([batch("a", "b")])
    for fd in (writer, full):
        os.close(fd)
    assert [json.loads(line)["data"] for line in os.read(reader, 10_000).splitlines()] == ["a", "b"]
    assert report.retries == ["No space left on device at stdout"] * 3
    assert report.looks == 3
