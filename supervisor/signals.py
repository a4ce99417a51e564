"""What signals do to the supervisor, from the first line of `run` to the last.

What holds:

- until there is a child or a lease to give up, a stop is the end of the process, at once and with 0, also where it is
  process 1, whose default would be to ignore it; whatever it made by then, it could as well have made and been killed;
- from then on a signal leaves a mark and wakes the loop, nothing else; however many come, they cost the loop one
  callback a turn for each kind, and none is lost. Two of one kind that come before the loop looks are one, as they are
  in the kernel;
- SIGHUP never ends us; after the last word nothing changes the exit code any more.

asyncio's own signal handlers are no choice: they let the interpreter complain about a full wake-up pipe from within its
C handler, which takes a lock there, and a storm of signals that meets itself in it waits for itself for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from types import FrameType

from supervisor import exits

_STOPS = (signal.SIGINT, signal.SIGTERM)
_READ_MAX_BYTES = 65_536  # what a pipe holds


def end_at_once() -> None:
    """For the start: a stop ends the process there and then, SIGHUP does nothing."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in _STOPS:
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    # Not an exception: it would come up in the middle of an import or of a callback, where it can get lost.
    os._exit(exits.OK)


class Signals:
    """`then[number]` is called on the loop, by the main thread, after a signal of that number came. Ended by `close`,
    from which on signals are ignored."""

    def __init__(self, loop: asyncio.AbstractEventLoop, then: Mapping[signal.Signals, Callable[[], object]]) -> None:
        self._loop = loop
        self._then = then
        self._quiet: dict[int, None] = dict.fromkeys(then)  # those that have not come since the last look
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        loop.add_reader(self._reader, self._look)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in then:
            # A function in C: one in Python could be interrupted by the next signal at its own beginning, and in a
            # storm deeper and deeper until the stack is full.
            signal.signal(number, self._quiet.pop)
            signal.siginterrupt(number, False)

    def close(self) -> None:
        for number in self._then:
            # The interpreter gives whatever has a handler its default back at its end, a stop would kill us then.
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        os.close(self._writer)

    def _look(self) -> None:
        """The marks after the bytes: a mark is there before its byte is written, or found no room."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, _READ_MAX_BYTES)
        for number, act in self._then.items():
            if number not in self._quiet:
                self._quiet[number] = None
                self._loop.call_soon(act)
