"""Sinks and the way to them: lines that never mix, writers that die, files that move, checkpoints that wait."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import socket
import stat
import struct
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.wait import until
from workers.board import DEADLINE, Board, Slot
from workers.delivery import QUEUE_MAX_BYTES, Direct, Lane
from workers.envelope import Batch, Envelope
from workers.sinks.choice import sink_of
from workers.sinks.discard import Discard
from workers.sinks.interface import BadSink, Sink
from workers.sinks.jsonl import Jsonl
from workers.sinks.stdout import Stdout

AT_NS = 1_767_225_600_000_001_999  # 2026-01-01, a microsecond and some
FORK = multiprocessing.get_context("fork")


def batch(*messages: str | bytes, first_seq: int = 1, connection: int | None = 0) -> Batch:
    return Batch(connection, first_seq, AT_NS, list(messages), sum(map(len, messages)))


def envelope(shard: str = "trades/7") -> Envelope:
    return Envelope(shard, 12)


# --- the envelope -------------------------------------------------------------------------------------------


def test_an_event_is_one_line_of_the_documented_form() -> None:
    line = envelope().lines(batch("..."))
    assert line == (
        b'{"shard":"trades/7","epoch":12,"seq":1,"connection":0,'
        b'"received_at":"2026-01-01T00:00:00.000001Z","data":"..."}\n'
    )


@pytest.mark.parametrize("text", ["", '"\\/\b\n\r\t\x00\x1f', "grüße 🎉 \u2028", "\ud800 alone", "x" * 100_000])
def test_any_text_survives_as_one_line(text: str) -> None:
    line = envelope().lines(batch(text))
    assert line.count(b"\n") == 1
    assert json.loads(line)["data"] == text


def test_bytes_are_base64_and_numbers_go_on() -> None:
    lines = envelope().lines(batch("a", b"\x00\xff", "b", first_seq=41, connection=None)).splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == [41, 42, 43]
    assert events[1]["data_base64"] == "AP8="
    assert "data" not in events[1]
    assert events[0]["connection"] is None


# --- choice -------------------------------------------------------------------------------------------------


def test_the_text_of_the_configuration_chooses_the_sink(tmp_path: Path) -> None:
    assert isinstance(sink_of("stdout", "/", envelope(), 1), Stdout)
    assert isinstance(sink_of("discard", "/", envelope(), 1), Discard)
    assert isinstance(sink_of("jsonl:events", str(tmp_path), envelope(), 1), Jsonl)


@pytest.mark.parametrize("text", ["", "jsonl", "jsonl:", "file:/x", "STDOUT", "discard:x"])
def test_a_sink_that_is_none_is_refused_with_the_possible_ones(text: str) -> None:
    with pytest.raises(BadSink, match="expected stdout, jsonl:PATH or discard"):
        sink_of(text, "/", envelope(), 1)


# --- jsonl --------------------------------------------------------------------------------------------------


def opened(path: str, base: Path, shard: str = "trades/7") -> Sink:
    sink = sink_of(f"jsonl:{path}", str(base), envelope(shard), 1)
    sink.open()
    return sink


@pytest.mark.parametrize("path", ["folder", "folder/"])
def test_a_folder_gets_the_file_events_jsonl(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    sink = opened(path, tmp_path)
    sink.write([batch("a")])
    sink.close()
    assert json.loads((tmp_path / "folder/events.jsonl").read_text())["data"] == "a"


def test_the_file_belongs_to_its_user_alone(tmp_path: Path) -> None:
    opened("events", tmp_path).close()
    assert stat.S_IMODE((tmp_path / "events").stat().st_mode) == 0o600


def test_a_missing_folder_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadSink, match="cannot be opened: No such file or directory"):
        opened("missing/events", tmp_path)


def test_a_torn_line_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b'{"whole":1}\n{"torn":')
    sink = opened("events", tmp_path)
    sink.write([batch("a")])
    sink.write([batch("b", first_seq=2)])
    lines = path.read_bytes().splitlines()
    assert lines[:2] == [b'{"whole":1}', b'{"torn":']
    assert [json.loads(line)["data"] for line in lines[2:]] == ["a", "b"]


def test_a_file_that_was_moved_away_is_left_alone_and_a_new_one_begun(tmp_path: Path) -> None:
    path, moved = tmp_path / "events", tmp_path / "events.1"
    sink = opened("events", tmp_path)
    sink.write([batch("a")])
    path.rename(moved)
    sink.write([batch("b")])
    sink.flush()
    assert json.loads(moved.read_bytes())["data"] == "a"
    assert json.loads(path.read_bytes())["data"] == "b"


def writers(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in so many processes at once."""
    processes = [FORK.Process(target=work, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0


def expect_whole(lines: list[bytes], shards: int, rounds: int) -> None:
    """Every line of every writer is there, whole and in its order."""
    seen: dict[str, list[int]] = {}
    for line in lines:
        event = json.loads(line)
        assert set(event["data"]) == {event["shard"][0]}
        seen.setdefault(event["shard"], []).append(event["seq"])
    assert seen == {shard: list(range(1, rounds + 1)) for shard in "abcdefgh"[:shards]}


def write_rounds(sink: Sink, letter: str, rounds: int) -> None:
    for seq in range(1, rounds + 1):
        sink.write([batch(letter * (seq * 7919 % 200_000 + 1), first_seq=seq)])


def test_lines_of_any_size_never_mix_in_a_file(tmp_path: Path) -> None:
    writers(4, lambda number: write_rounds(opened("events", tmp_path, "abcd"[number]), "abcd"[number], 40))
    expect_whole((tmp_path / "events").read_bytes().splitlines(), 4, 40)


# --- stdout -------------------------------------------------------------------------------------------------


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
    writers(4, lambda number: write_rounds(Stdout(writer, envelope("abcd"[number])), "abcd"[number], 40))
    os.close(writer)
    collecting.join(10)
    expect_whole(b"".join(read).splitlines(), 4, 40)


def collect(fd: int, into: list[bytes]) -> None:
    while data := os.read(fd, 65_536):
        into.append(data)


def test_a_writer_killed_in_mid_write_costs_its_own_last_line_only() -> None:
    reader, writer = os.pipe()
    victim = FORK.Process(target=lambda: Stdout(writer, envelope("v")).write([batch("v" * 1_000_000)]))
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
        Stdout(writer, envelope("s")).write([batch("survivor", first_seq=number + 1)])
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
    Stdout(writer, envelope()).write([batch("x" * 1_000_000)])
    os.close(writer)
    collecting.join(5)
    assert len(json.loads(b"".join(read))["data"]) == 1_000_000


# --- delivery -----------------------------------------------------------------------------------------------


class Recording:
    """A sink that notes its calls, and waits in `write` while `gate` is closed."""

    inline = False

    def __init__(self, fault: Exception | None = None) -> None:
        self.calls: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self._fault = fault

    def open(self) -> None:
        """Nothing to open."""

    def write(self, batches: Sequence[Batch]) -> None:
        self.gate.wait(10)
        if self._fault:
            raise self._fault
        self.calls += [message for item in batches for message in item.messages]

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def slot() -> Slot:
    slot = Board.create().slot(0)
    slot.words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 600 * 10**9
    return slot


def test_a_lane_delivers_in_order_and_finishes_with_flush_and_close(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    lane = Lane(sink, slot, woken.set)
    for number in range(100):
        lane.put(batch(str(number)))
    lane.finish()
    assert woken.wait(5)
    assert lane.finished
    assert sink.calls == [*map(str, range(100)), "flush", "close"]


def test_a_lane_is_full_while_its_sink_waits_and_wakes_the_loop_when_there_is_room(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    sink.gate.clear()
    lane = Lane(sink, slot, woken.set)
    count = 0
    while not lane.full:
        lane.put(batch("x" * 10_000))
        count += 1
    assert QUEUE_MAX_BYTES / 10_100 <= count <= QUEUE_MAX_BYTES / 10_000 + 1
    sink.gate.set()
    assert woken.wait(5)
    until(lambda: not lane.full, 5)
    until(lambda: len(sink.calls) == count, 5)


def test_a_checkpoint_is_committed_only_after_a_flush_behind_the_events_before_it(slot: Slot) -> None:
    sink = Recording()
    sink.gate.clear()
    lane = Lane(sink, slot, lambda: None)
    lane.put(batch("one"))
    lane.commit("after one")
    assert slot.read_checkpoint() is None
    sink.gate.set()
    until(lambda: slot.read_checkpoint() == "after one", 5)
    assert sink.calls == ["one", "flush"]


def test_many_checkpoints_cost_few_flushes_and_the_last_one_counts(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    lane = Lane(sink, slot, woken.set)
    for number in range(1000):
        lane.put(batch(str(number)))
        lane.commit(str(number))
    lane.finish()
    assert woken.wait(5)
    assert slot.read_checkpoint() == "999"
    assert sink.calls.count("flush") <= 5


def test_an_error_of_the_sink_is_told_and_nothing_is_committed(slot: Slot) -> None:
    woken = threading.Event()
    lane = Lane(Recording(OSError(28, "No space left on device")), slot, woken.set)
    lane.put(batch("one"))
    lane.commit("one")
    assert woken.wait(5)
    assert "No space left on device" in lane.failure
    assert lane.finished
    assert slot.read_checkpoint() is None


@pytest.mark.parametrize("kind", ["inline", "lane"])
def test_a_put_at_or_after_the_deadline_ends_the_process_on_the_spot(slot: Slot, kind: str) -> None:
    slot.words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def work() -> None:
        delivery = Direct(Discard(), slot) if kind == "inline" else Lane(Recording(), slot, lambda: None)
        delivery.put(batch("late"))

    process = FORK.Process(target=work)
    process.start()
    process.join(5)
    assert process.exitcode == 3


def test_a_batch_that_waited_past_the_deadline_is_not_written(slot: Slot) -> None:
    reader, writer = os.pipe()

    class Piping(Recording):
        entered = threading.Event()

        def write(self, batches: Sequence[Batch]) -> None:
            self.entered.set()
            super().write(batches)
            os.write(writer, "".join(map(str, self.calls)).encode())

    def work() -> None:
        sink = Piping()
        sink.gate.clear()
        lane = Lane(sink, slot, lambda: None)
        lane.put(batch("in time."))
        sink.entered.wait(5)
        lane.put(batch("late."))
        slot.words[DEADLINE] = 1
        sink.gate.set()
        threading.Event().wait(10)

    process = FORK.Process(target=work)
    process.start()
    process.join(5)
    os.close(writer)
    assert process.exitcode == 3
    assert os.read(reader, 100) == b"in time."
