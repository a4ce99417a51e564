"""The one place that reads clocks and random bytes for the supervisor.

CLOCK_BOOTTIME counts also while the machine sleeps, so that a lease does not outlive a suspended host."""

from __future__ import annotations

import os
import time

from supervisor.core.model import MS, Moment
from workers.process.kernel import boottime_ns


def unix_ms() -> int:
    """For people, and for the epoch of a created row."""
    return time.time_ns() // MS


def moment() -> Moment:
    return Moment(boottime_ns(), unix_ms(), os.urandom(8))
