"""The Linux calls that Python does not offer: death signals, adoption of orphans, and a timer that kills.

The timer is what a child is fenced with: CLOCK_BOOTTIME goes on while the machine is suspended, an absolute time
does not depend on when it was set, and SIGKILL needs neither the interpreter lock nor a running thread, so that it
ends busy loops, blocked calls and stopped processes alike. Timers are not inherited by a fork.

Every failure is an OSError whose text says what the kernel refused.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
import time
from collections.abc import Callable
from typing import Any, cast

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PRCTL = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
_M_ARENA_MAX = -8
_SIGKILL = int(signal.SIGKILL)  # an enum would touch more memory
_SIGEV_SIGNAL = 0
_TIMER_ABSTIME = 1
_SECOND_NS = 1_000_000_000


# A struct sigevent has 64 bytes on every Linux; the kernel looks at the head alone for SIGEV_SIGNAL.
_KILL = struct.pack("Pii48x", 0, signal.SIGKILL, _SIGEV_SIGNAL)
_TIMER_SPEC = struct.Struct("llll")  # a struct itimerspec: interval and value, each in seconds and nanoseconds


@functools.cache  # what the fork server has loaded costs its children nothing
def _function(name: str, *arguments: type[Any]) -> Callable[..., int]:
    """Of the library that has it: before glibc 2.34 the timers lived in librt. `arguments`: their types; an int without
    one is a C int."""
    libc = ctypes.CDLL(None, use_errno=True)
    library = libc if hasattr(libc, name) else ctypes.CDLL("librt.so.1", use_errno=True)
    function = getattr(library, name)
    if arguments:
        function.argtypes = arguments
    return cast("Callable[..., int]", function)


def _refused(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"the kernel refused {what}: {os.strerror(number)}; tenured needs Linux 5.10 or newer")


def _prctl(option: int, value: int, what: str) -> None:
    if _function("prctl", *_PRCTL)(option, value, 0, 0, 0) != 0:
        raise _refused(what)


def die_with_parent() -> None:
    """SIGKILL to us when the *thread* that made us ends. It may be gone already: compare `getppid` afterwards."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL, "a signal at the parent's death (PR_SET_PDEATHSIG)")


def share_one_heap() -> None:
    """All threads of this process and of its forks allocate in one place, where the C library can be told so. Else each
    of the threads that connect leaves a heap of its own behind, with a few objects in it that live on: a megabyte in a
    child with 25 TLS connections."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


def adopt_orphans() -> None:
    """Descendants whose parent dies become ours, not those of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "to adopt orphans (PR_SET_CHILD_SUBREAPER)")


def boottime_ns() -> int:
    """The clock of all deadlines: it never steps, and counts time spent suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class KillTimer:
    """SIGKILL to this process at an absolute CLOCK_BOOTTIME instant. `set` moves it; a passed instant kills now."""

    __slots__ = ("_settime", "_timer")

    def __init__(self) -> None:
        self._timer = ctypes.c_void_p()
        self._settime = _function("timer_settime")
        if _function("timer_create")(time.CLOCK_BOOTTIME, _KILL, ctypes.byref(self._timer)) != 0:
            raise _refused("a timer on CLOCK_BOOTTIME (timer_create)")

    def delete(self) -> None:
        """It will not fire any more; not to be used afterwards."""
        _function("timer_delete")(self._timer)

    def set(self, at_ns: int) -> None:
        # zero would switch the timer off instead of firing it
        seconds, nanoseconds = divmod(max(at_ns, 1), _SECOND_NS)
        spec = _TIMER_SPEC.pack(0, 0, seconds, nanoseconds)
        if self._settime(self._timer, _TIMER_ABSTIME, spec, None) != 0:
            raise _refused(f"to set the timer to {at_ns} ns (timer_settime)")
