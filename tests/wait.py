"""Waiting for a condition in tests: bounded, and the only place that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
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
