"""Waiting for a condition in tests: bounded, and the only place that sleeps."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from socket import socket
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], timeout_s: float, interval_s: float = 0.01) -> T:
    """The first true result of `condition`; AssertionError when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not true within {timeout_s:g} s: {condition}")
        time.sleep(interval_s)
    return result


def ready(files: Iterable[socket | int], events: int = select.POLLIN, timeout_s: float | None = None) -> set[int]:
    """Which of these files are readable (or what `events` says) in time, by number. Not `select.select`: a test process
    may have more than 1,024 files open."""
    poll = select.poll()
    for file in files:
        poll.register(file, events)
    return {number for number, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
