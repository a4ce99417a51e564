"""Opening a file that a configuration names, without waiting for anybody.

To open a pipe waits until somebody writes to it, and to read one until he is done: for good, if nobody is there. So
only regular files are taken, which those behind `/dev/stdin` and `/proc` may be as well.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: str | Path, more_flags: int = 0) -> BinaryIO:
    """The file, to be read. Raises OSError, also for what is no regular file, and ValueError for what is no path."""
    return open(path, "rb", opener=lambda path, flags: _at_once(path, flags | more_flags))


def _at_once(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # of a folder `open` says so itself
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is a pipe or a device, expected a regular file")
