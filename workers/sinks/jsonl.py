"""`jsonl:PATH`: one file to which all children append lines.

PATH is the file; where it is a folder or ends with a slash, the file is `events.jsonl` in it. The folder must exist.

What holds: lines of any size never mix, since each write happens under an flock on the file (each child opened it by
itself, so each has its own lock). A writer that died in mid-write leaves a piece of a line, and only that: the next
one sees that the file does not end with a line break and begins with one. A file that was moved away (log rotation) is
left alone and a new one is begun. `flush` waits for the disk.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Sequence

from workers.envelope import Batch, Envelope
from workers.sinks.interface import BadSink

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class Jsonl:
    inline = False

    def __init__(self, path: str, envelope: Envelope) -> None:
        self._path = path
        self._envelope = envelope
        self._fd = -1

    def open(self) -> None:
        if self._path.endswith("/") or os.path.isdir(self._path):
            self._path = os.path.join(self._path, "events.jsonl")
        try:
            self._fd = os.open(self._path, _FLAGS, 0o600)
        except OSError as error:
            raise BadSink(f"sink jsonl:{self._path} cannot be opened: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            raise BadSink(f"sink jsonl:{self._path} is no regular file, which this sink needs; see stdout")

    def write(self, batches: Sequence[Batch]) -> None:
        data = b"".join(map(self._envelope.lines, batches))
        self._lock()
        try:
            end = os.fstat(self._fd).st_size
            if end and os.pread(self._fd, 1, end - 1) != b"\n":
                data = b"\n" + data
            write_all(self._fd, data)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _lock(self) -> None:
        """Lock the file that is at our path now."""
        while True:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                here = os.stat(self._path)
            except FileNotFoundError:
                here = None
            if here is not None and os.path.samestat(here, os.fstat(self._fd)):
                return
            self.flush()
            self.close()
            self.open()

    def flush(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def write_all(fd: int, data: bytes) -> None:
    """All of it, however many writes that takes."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
