"""Signals in the fork server and in its children, so that neither end loses one.

A terminal or a service manager sends SIGTERM, SIGINT and SIGHUP to everybody. The fork server must not end by them: the
parent decides. A child must end by them, also by one that comes before it is ready for it. Therefore the fork server
blocks these signals and sets up at once what its children do about them; a child only has to let them through. One
that came between the fork and that moment is kept by the kernel and arrives then.
"""

from __future__ import annotations

import signal

# not the module's own: it makes enums of its results, which would cost each child a dozen pages of touched memory
from _signal import pthread_sigmask  # type: ignore[import-not-found]
from types import FrameType

_HELD = tuple(int(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
_UNBLOCK = int(signal.SIG_UNBLOCK)


def hold(wakeup_fd: int) -> None:
    """In the fork server: nothing that is sent to everybody gets through; a byte on it says that a child died."""
    pthread_sigmask(signal.SIG_BLOCK, _HELD)
    signal.signal(signal.SIGTERM, _noted)
    signal.signal(signal.SIGCHLD, _noted)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)


def release(wakeup_fd: int) -> None:
    """In a child: from now on, and for what came since the fork, SIGTERM is a byte of its number on it."""
    signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
    pthread_sigmask(_UNBLOCK, _HELD)


def _noted(number: int, frame: FrameType | None) -> None:
    """The byte that the interpreter has written to the wake-up pipe says it all."""
