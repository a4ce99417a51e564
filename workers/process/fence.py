"""The fence: the kernel kills this child at the deadline on the board, unless the parent moved it first.

What holds: from `arm` on there is always a timer set, to a deadline that the parent once wrote; when it fires
the process is gone, whatever it was doing, also if it is stopped. A small thread moves the timer as the parent
moves the deadline, and only ever forward. Neither `signal.alarm` nor any other timer of a handler touches it.

What it does not promise: a child that keeps the interpreter lock, or is stopped, for longer than its deadline is
away dies although the parent has renewed meanwhile, because the thread could not look at the board. Such a child
delivers nothing, and is started again.
"""

from __future__ import annotations

import _thread
import time

from workers.board import DEADLINE, Slot
from workers.process.kernel import KillTimer, boottime_ns

_LOOKS_PER_DEADLINE = 10
_LOOK_MIN_S = 0.1
_LOOK_MAX_S = 1.0


def look_interval_s(remaining_ns: int) -> float:
    """How long the thread may sleep with so much time left: often enough not to miss a renewal, rarely enough to cost
    nothing; the remaining time stands in for the lease duration, which a child does not know."""
    return min(max(remaining_ns / 1e9 / _LOOKS_PER_DEADLINE, _LOOK_MIN_S), _LOOK_MAX_S)


def arm(slot: Slot) -> None:
    """Set the timer to the slot's deadline, then follow the board. A passed deadline kills within this call."""
    timer = KillTimer()
    armed_ns = slot.words[DEADLINE]
    timer.set(armed_ns)
    # not `threading`: what its Thread does besides would cost each child a quarter of a megabyte of touched memory
    _thread.start_new_thread(_follow, (slot, timer, armed_ns))


def _follow(slot: Slot, timer: KillTimer, armed_ns: int) -> None:
    while True:
        deadline_ns = slot.words[DEADLINE]
        if deadline_ns > armed_ns:
            timer.set(deadline_ns)
            armed_ns = deadline_ns
        time.sleep(look_interval_s(armed_ns - boottime_ns()))
