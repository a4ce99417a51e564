"""`stdout`: lines to the supervisor's standard output, which all children share.

What holds: lines of any size never mix. The children share one open file, so an flock on it would shut none of
them out, and a pipe or socket cannot always be opened anew; a POSIX record lock belongs to the process instead, and
works on everything that stdout can be. (It would be lost if this process closed another number of the same file;
only the sink has one.)

A writer that died in mid-write costs its own last line only: a mark stands while a write is under way, and whoever
finds it begins with a line break. The mark has to be where all children see it and a killed one leaves it, also
children of another fork server, and that is the open file itself: the number of the signal that it would send
(F_SETSIG) is an integer that the kernel keeps for it and that means nothing without O_ASYNC, which nobody sets.

A stdout that nobody reads makes the sink wait, and so does a file on a disk that is full: the write goes on in the
middle of the line once there is room. One that is closed ends the child.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
from collections.abc import Sequence

from workers.sinks.envelope import Batch
from workers.sinks.interface import SinkContext

_FULL = (errno.ENOSPC, errno.EDQUOT)
_WAIT_S = 1.0
_NO_MARK, _MARK = 0, int(signal.SIGIO)


class Stdout:
    inline = False

    def __init__(self, context: SinkContext) -> None:
        self._fd = context.stdout_fd
        self._envelope, self._report = context.envelope, context.report

    def open(self) -> None:
        """It was open before we were."""

    def write(self, batches: Sequence[Batch]) -> None:
        data = b"".join(map(self._envelope.lines, batches))
        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        try:
            if fcntl.fcntl(self._fd, fcntl.F_GETSIG) == _MARK:
                data = b"\n" + data
            fcntl.fcntl(self._fd, fcntl.F_SETSIG, _MARK)
            self._write_all(data)
            fcntl.fcntl(self._fd, fcntl.F_SETSIG, _NO_MARK)
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def _write_all(self, data: bytes) -> None:
        """All of it, also where somebody made the shared file non-blocking."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll()
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                self._report.retrying(f"{error.strerror} at stdout")
                self._report.pause(_WAIT_S)
                self._report.fenced()

    def flush(self) -> None:
        """A pipe has no disk behind it: what was written is as safe as it gets."""

    def close(self) -> None:
        """Others go on writing to it."""
