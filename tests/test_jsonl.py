"""The file of events that many children append to: lines that never mix, torn ones, files that move, full disks."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sinks import Noted, batch, expect_whole, opened, write_rounds, writers
from workers.sinks import jsonl as jsonl_module
from workers.sinks import rotation
from workers.sinks.interface import BadSink, Sink, SinkFailed
from workers.sinks.rotation import earlier


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


# --- setting files aside ------------------------------------------------------------------------------------


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def aside(folder: Path) -> list[Path]:
    """What was set aside from `events`, the oldest first."""
    return [Path(name) for name in earlier(str(folder / "events"))]


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def test_many_writers_set_a_large_file_aside_again_and_again_and_no_line_is_lost_or_cut(tmp_path: Path) -> None:
    limit = 300_000
    writers(
        4,
        lambda number: write_rounds(jsonl(tmp_path, shard="abcd"[number], sink_rotate_size=limit), "abcd"[number], 40),
    )
    files = [*aside(tmp_path), tmp_path / "events"]
    assert len(files) > 20
    assert all(0 < path.stat().st_size <= limit for path in files)
    expect_whole([line for path in files for line in path.read_bytes().splitlines()], 4, 40)


def test_a_file_is_set_aside_under_its_name_and_the_time_and_never_over_another_one(tmp_path: Path) -> None:
    sink = jsonl(tmp_path, sink_rotate_size=1)
    for seq in range(1, 13):
        sink.write([batch("x", first_seq=seq)])
    names = [path.name for path in aside(tmp_path)]
    assert len(names) == len(set(names)) == 11
    assert all(re.fullmatch(r"events\.\d{8}T\d{6}Z(-\d+)?", name) for name in names)
    assert [events(path)[0]["seq"] for path in aside(tmp_path)] == list(range(1, 12))
    assert [event["seq"] for event in events(tmp_path / "events")] == [12]


def test_the_age_of_a_file_is_that_of_its_first_event_whoever_writes_to_it_and_when_it_started(tmp_path: Path) -> None:
    hour_ms, minute_ns = 3_600_000, 60 * 10**9
    jsonl(tmp_path).write([batch("first", at_ns=now_ns() - 59 * minute_ns)])
    young = jsonl(tmp_path, sink_rotate_every_ms=hour_ms)
    young.write([batch("second", at_ns=now_ns(), first_seq=2)])
    assert aside(tmp_path) == []
    old = jsonl(tmp_path, sink_rotate_every_ms=59 * 60_000)
    old.write([batch("third", at_ns=now_ns(), first_seq=3)])
    young.write([batch("fourth", at_ns=now_ns(), first_seq=4)])
    assert [[event["data"] for event in events(path)] for path in aside(tmp_path)] == [["first", "second"]]
    assert [event["data"] for event in events(tmp_path / "events")] == ["third", "fourth"]


def test_a_file_whose_beginning_is_torn_has_the_age_of_the_first_event_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b'{"shard":"a","epoch":1,"se')
    jsonl(tmp_path).write([batch("x", at_ns=now_ns() - 10**12)])
    jsonl(tmp_path, sink_rotate_every_ms=999_000).write([batch("y")])
    assert len(aside(tmp_path)) == 1


def test_an_empty_file_is_not_set_aside(tmp_path: Path) -> None:
    sink = jsonl(tmp_path, sink_rotate_size=1, sink_rotate_every_ms=1)
    sink.write([batch("larger than the limit", at_ns=now_ns())])
    assert aside(tmp_path) == []


def test_only_the_oldest_files_of_that_form_are_removed(tmp_path: Path) -> None:
    ours = ["events.20250101T000000Z", "events.20250101T000000Z-2", "events.20250101T000000Z-10"]
    others = ["events.20240101T000000Z.gz", "events.bak", "other.20240101T000000Z", "events.2024"]
    for name in ours + others:
        (tmp_path / name).write_text("{}\n")
    sink = jsonl(tmp_path, sink_rotate_size=1, sink_keep=3)
    sink.write([batch("a")])
    sink.write([batch("b", first_seq=2)])
    kept = [path.name for path in aside(tmp_path)]
    assert kept[:2] == ours[1:]
    assert len(kept) == 3
    assert all((tmp_path / name).exists() for name in others)


def test_a_file_that_cannot_be_removed_stays_holds_up_nothing_and_is_told_once_for_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, next_one = (tmp_path / f"events.2025010{day}T000000Z" for day in (1, 2))
    oldest.write_text("{}\n")
    next_one.write_text("{}\n")
    stuck, unlink = {str(oldest)}, os.unlink

    def remove(path: str) -> None:
        if path in stuck:
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        unlink(path)

    monkeypatch.setattr(rotation.os, "unlink", remove)
    report = Noted()
    sink = jsonl(tmp_path, report=report, sink_rotate_size=1, sink_keep=1)
    for seq in range(1, 5):
        sink.write([batch("x", first_seq=seq)])
    assert [path.name for path in aside(tmp_path)][:-1] == [oldest.name]
    assert report.retries == []
    assert report.lines == [f"sink_keep: {oldest} cannot be removed, and stays: Operation not permitted"]
    stuck.clear()
    sink.write([batch("x", first_seq=5)])
    assert not oldest.exists()
    oldest.write_text("{}\n")
    stuck.add(str(oldest))
    sink.write([batch("x", first_seq=6)])
    assert len(report.lines) == 2


@pytest.mark.parametrize("length", [231, 232])
def test_a_name_that_leaves_no_room_for_the_time_is_refused_at_the_start(tmp_path: Path, length: int) -> None:
    name = "ü" * 100 + "x" * (length - 200)
    if length == 232:
        with pytest.raises(BadSink, match="cannot be rotated: its name has 232 bytes, and only up to 231 leave room"):
            jsonl(tmp_path, name, sink_rotate_size=1)
        return
    sink = jsonl(tmp_path, name, sink_rotate_size=1)
    for seq in range(1, 4):
        sink.write([batch("x", first_seq=seq)])
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_that_was_just_set_aside_stays_whatever_times_the_others_name(tmp_path: Path) -> None:
    for name in ("events.20990101T000000Z", "events.20990101T000000Z-7"):
        (tmp_path / name).write_text("{}\n")
    sink = jsonl(tmp_path, sink_rotate_size=1, sink_keep=2)
    for seq in (1, 2, 3):
        sink.write([batch("x", first_seq=seq)])
    assert [events(path)[0]["seq"] for path in aside(tmp_path)] == [1, 2]


def test_the_newest_files_stay_also_when_many_are_set_aside_in_one_second(tmp_path: Path) -> None:
    sink = jsonl(tmp_path, sink_rotate_size=1, sink_keep=2)
    for seq in range(1, 21):
        sink.write([batch("x", first_seq=seq)])
    assert [events(path)[0]["seq"] for path in aside(tmp_path)] == [18, 19]


def test_a_folder_with_the_name_of_a_file_set_aside_stops_no_removal(tmp_path: Path) -> None:
    (tmp_path / "events.20200101T000000Z").mkdir()
    sink = jsonl(tmp_path, sink_rotate_size=1, sink_keep=1)
    for seq in range(1, 5):
        sink.write([batch("x", first_seq=seq)])
    assert [events(path)[0]["seq"] for path in aside(tmp_path) if path.is_file()] == [3]


def test_a_line_with_a_time_that_is_none_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "events").write_text('{"a":1,"received_at":"2026-99-99T00:00:00.000000Z"}\n')
    jsonl(tmp_path, sink_rotate_every_ms=1000).write([batch("x")])
    assert "x" in (tmp_path / "events").read_text()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/null"), os.mkfifo], ids=["null", "fifo"])
def test_nothing_is_taken_for_safe_that_went_to_what_is_no_file(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "events"
    report = Noted(on_retry=path.unlink)
    sink = jsonl(tmp_path, report=report, sink_fsync="never")
    sink.write([batch("a")])
    path.rename(tmp_path / "moved")
    make(path)
    sink.write([batch("b", first_seq=2)])
    assert [event["seq"] for event in events(path)] == [2]
    assert report.retries == [f"it is no regular file, which this sink needs (see stdout) at {path}"]


def test_a_link_is_followed_and_stays_a_link_when_its_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real/events")
    sink = jsonl(tmp_path, "link", sink_rotate_size=1)
    sink.write([batch("a")])
    sink.write([batch("b", first_seq=2)])
    assert link.is_symlink()
    assert [events(path)[0]["data"] for path in aside(tmp_path / "real")] == ["a"]
    assert events(link)[0]["data"] == "b"


def test_a_folder_in_which_nothing_can_be_set_aside_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(BadSink, match=r"cannot be rotated: .* may not be written to"):
        jsonl(tmp_path, sink_rotate_size=1)


# --- the disk -----------------------------------------------------------------------------------------------


class Faulty:
    """`os`, in which the call number `fault_at` of those that may fail does, once: a write after its first half."""

    FALLIBLE = ("open", "write", "fstat", "stat", "pread", "rename", "ftruncate", "unlink", "listdir")

    def __init__(self, fault_at: int, code: int) -> None:
        self._fault_at, self._code = fault_at, code
        self._cut = False
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        return partial(self._call, name, function) if name in self.FALLIBLE else function

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._cut:
            self._cut = False
            raise OSError(self._code, os.strerror(self._code))
        self.calls += 1
        if self.calls == self._fault_at:
            if name != "write" or len(arguments[1]) < 2:
                raise OSError(self._code, os.strerror(self._code))
            self._cut = True
            return function(arguments[0], arguments[1][: len(arguments[1]) // 2])
        return function(*arguments)


def run_with_fault(folder: Path, monkeypatch: pytest.MonkeyPatch, fault_at: int, code: int) -> tuple[int, Noted]:
    """Twelve events in four writes to files that hold a few lines; returns how many calls there were."""
    report = Noted()
    sink = jsonl(folder, report=report, sink_rotate_size=500, sink_keep=50)
    faulty = Faulty(fault_at, code)
    for module in (jsonl_module, rotation):
        monkeypatch.setattr(module, "os", faulty)
    for first_seq in (1, 4, 7, 10):
        sink.write([batch("a", "b", "c", first_seq=first_seq)])
    monkeypatch.undo()
    return faulty.calls, report


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_whatever_fails_once_is_tried_again_and_each_event_is_there_once_in_a_line_that_parses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "without").mkdir()
    calls, _ = run_with_fault(tmp_path / "without", monkeypatch, 0, code)
    assert calls > 30
    for fault_at in range(1, calls + 1):
        folder = tmp_path / str(fault_at)
        folder.mkdir()
        _, report = run_with_fault(folder, monkeypatch, fault_at, code)
        files = [*aside(folder), folder / "events"]
        assert [event["seq"] for path in files for event in events(path)] == list(range(1, 13)), fault_at
        assert report.retries == [f"{os.strerror(code)} at {folder}/events"], fault_at
        assert report.looks == 1, "the deadline was not looked at before another try"


def test_a_folder_that_went_away_is_waited_for(tmp_path: Path) -> None:
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    report = Noted(on_retry=lambda: folder.mkdir() if len(report.retries) == 3 else None)
    sink = jsonl(folder, report=report)
    sink.write([batch("a")])
    folder.rename(away)
    sink.write([batch("b", first_seq=2)])
    assert report.retries == [f"No such file or directory at {folder}/events"] * 3
    assert [event["data"] for event in events(folder / "events")] == ["b"]


def test_a_full_disk_does_not_keep_a_child_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_module, "os", Faulty(2, errno.ENOSPC))  # the second call of open creates the file
    sink = jsonl(tmp_path)
    sink.write([batch("a")])
    assert events(tmp_path / "events")[0]["data"] == "a"


@pytest.mark.parametrize(
    ("policy", "expected"), [("always", [1, 2, 3]), ("checkpoint", [0, 0, 1]), ("never", [0, 0, 0])]
)
def test_the_disk_is_waited_for_as_the_policy_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, expected: list[int]
) -> None:
    synced: list[int] = []
    sink = jsonl(tmp_path, sink_fsync=policy)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    found = []
    for letter in "ab":
        sink.write([batch(letter)])
        found.append(len(synced))
    sink.flush()
    found.append(len(synced))
    assert found == expected


def test_a_file_is_safe_before_it_is_left_for_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sink = jsonl(tmp_path, sink_rotate_size=1)
    sink.write([batch("a")])
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    sink.write([batch("b")])
    assert synced == [str(path) for path in aside(tmp_path)]


def test_what_the_disk_had_taken_and_then_refuses_is_not_taken_for_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    sink = jsonl(tmp_path)
    sink.write([batch("a")])
    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(SinkFailed, match=r"events may be lost that .*/events had taken: Input/output error"):
        sink.flush()
