"""When a file of events is set aside, under which name, and which of those set aside before are removed.

    events.jsonl  ->  events.jsonl.20260101T000000Z, a second one in that second: events.jsonl.20260101T000000Z-1

The names tell the order in which files were set aside also when the clock was set back, or another host's runs ahead: a
new name is always behind all that are there.

What holds, as long as each writer holds the lock of the file at that path: a file is set aside once, between two
writes, and never over another one. An empty file stays. A file's age counts from the arrival of its first event, which
stands in its first line: so it is the same for all its writers and survives their restarts. (Where the first 64 KiB
tell no time, a writer counts from when it first looked.)

An old file that cannot be removed stays, is tried again each time, and holds up nothing; it is told once.

Not promised: that a file is set aside on time when nothing is written. It happens before the next event.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

NAME_MAX_BYTES = 255  # of nearly all file systems
_ADDED_MAX_BYTES = len(".20260101T000000Z-999999")
_HEAD_BYTES = 65_536
_FIRST = re.compile(rb',"received_at":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"')


def name_problem(name: str, name_max_bytes: int = NAME_MAX_BYTES) -> str:
    """Why a file of that name cannot be set aside; empty: it can."""
    size, most = len(os.fsencode(name)), name_max_bytes - _ADDED_MAX_BYTES
    return f"its name has {size} bytes, and only up to {most} leave room for the time behind it" if size > most else ""


class Rotation:
    """For one open file at a time; `begun` when that is another one. 0 means: no such limit."""

    __slots__ = ("_age_max_s", "_first_s", "_keep", "_size_max_bytes", "_unremoved", "_warn")

    def __init__(self, size_max_bytes: int, age_max_ms: int, keep: int, warn: Callable[[str], None]) -> None:
        self._size_max_bytes = size_max_bytes
        self._age_max_s = age_max_ms / 1000
        self._keep = keep
        self._warn, self._unremoved = warn, ""  # the latter as it was told
        self._first_s: float | None = None

    def begun(self) -> None:
        self._first_s = None

    def set_aside(self, path: str, fd: int, more: int) -> bool:
        """If it is due before `more` bytes are added. True: it was, and there is no file at `path` now."""
        now_s = time.clock_gettime(time.CLOCK_REALTIME)
        if not self._due(fd, more, now_s):
            return False
        path = os.path.realpath(path)  # a link stays what it is
        os.rename(path, _next_name(path, now_s))
        if self._keep:
            self._remove(list(filter(os.path.isfile, earlier(path)))[: -self._keep])
        return True

    def _remove(self, files: list[str]) -> None:
        problem = ""
        for file in files:
            try:
                os.unlink(file)
            except OSError as error:
                problem = problem or f"sink_keep: {file} cannot be removed, and stays: {error.strerror}"
        if problem and problem != self._unremoved:
            self._warn(problem)
        self._unremoved = problem

    def _due(self, fd: int, more: int, now_s: float) -> bool:
        size = os.fstat(fd).st_size
        if not size:
            return False
        if self._size_max_bytes and size + more > self._size_max_bytes:
            return True
        if not self._age_max_s:
            return False
        if self._first_s is None:
            self._first_s = _first_s(os.pread(fd, _HEAD_BYTES, 0), now_s)
        return now_s - self._first_s >= self._age_max_s


def _first_s(head: bytes, now_s: float) -> float:
    found = _FIRST.search(head)
    try:
        return datetime.fromisoformat(found[1].decode()).timestamp() if found else now_s
    except ValueError:  # somebody else's line
        return now_s


def _next_name(path: str, now_s: float) -> str:
    stamp = f"{datetime.fromtimestamp(now_s, UTC):%Y%m%dT%H%M%SZ}"
    newest, number = max(_set_aside(path), default=("", 0))
    return f"{path}.{stamp}" if newest < stamp else f"{path}.{newest}-{number + 1}"


def earlier(path: str) -> list[str]:
    """What was set aside from `path`, the oldest first: all with names of this form, and nothing else."""
    return [f"{path}.{stamp}-{number}" if number else f"{path}.{stamp}" for stamp, number in sorted(_set_aside(path))]


def _set_aside(path: str) -> Iterator[tuple[str, int]]:
    """The time and the number in each of these names."""
    folder, base = os.path.split(path)
    form = re.compile(re.escape(base) + r"\.(\d{8}T\d{6}Z)(?:-([1-9]\d*))?")
    for match in map(form.fullmatch, os.listdir(folder)):
        if match:
            yield match[1], int(match[2] or 0)
