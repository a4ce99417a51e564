"""The clocks that calls of a handler go by, as values, so that a test can let time pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class Clock:
    boottime_ns: Callable[[], int]
    unix_ns: Callable[[], int]


def real_clock() -> Clock:
    """Without a detour, since it is asked for each message."""
    asked = time.clock_gettime_ns
    return Clock(partial(asked, time.CLOCK_BOOTTIME), partial(asked, time.CLOCK_REALTIME))
