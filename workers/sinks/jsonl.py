"""`jsonl:PATH`: one file to which all children append lines, those of other supervisors of this host too.

PATH is the file; where it is a folder or ends with a slash, the file is `events.jsonl` in it. The folder must exist.

What holds: lines of any size never mix, since each write happens under an flock on the file (each child opened it by
itself, so each has its own lock). A writer that died in mid-write leaves a piece of a line, and only that: the next
one sees that the file does not end with a line break and begins with one. A file that was moved away is left alone and
a new one is begun; whoever holds the lock moves it away itself when it is too large or too old (see `rotation`), so
that it happens once, between two writes. `flush` waits for the disk, as `sink_fsync` says.

A disk that is full, a folder that went away: the write is tried again until it succeeds, and what a failed one left
behind its last whole line is cut off at once. An error while waiting for the disk is not retried, since the kernel then
forgets what it could not write: the child ends, and starts again from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Sequence

from workers.sinks.envelope import Batch
from workers.sinks.interface import BadSink, SinkContext, SinkFailed
from workers.sinks.rotation import Rotation, name_problem

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)
_WAIT_MIN_S, _WAIT_MAX_S = 0.1, 5.0


class Jsonl:
    inline = False

    def __init__(self, path: str, context: SinkContext) -> None:
        spec = context.task.scope.spec
        self._path = path
        self._envelope, self._report = context.envelope, context.report
        self._fsync = spec.sink_fsync
        self._rotation: Rotation | None = None
        if spec.sink_rotate_size or spec.sink_rotate_every_ms:
            self._rotation = Rotation(spec.sink_rotate_size, spec.sink_rotate_every_ms, spec.sink_keep, self._warn)
        self._fd = -1

    def open(self) -> None:
        if self._path.endswith("/") or os.path.isdir(self._path):
            self._path = os.path.join(self._path, "events.jsonl")
        try:
            self._open()
        except OSError as error:
            if error.errno not in _PASSING:  # else the first write goes on to try
                raise BadSink(f"sink jsonl:{self._path} cannot be opened: {error.strerror}") from None
        if self._rotation and (problem := self._unrotatable()):
            self.close()
            raise BadSink(f"sink jsonl:{self._path} cannot be rotated: {problem}")

    def _unrotatable(self) -> str:
        """Why; empty: nothing is in the way."""
        folder, name = os.path.split(os.path.realpath(self._path))
        if not os.access(folder, os.W_OK):
            return f"{folder} may not be written to"
        return name_problem(name, os.pathconf(folder, "PC_NAME_MAX"))

    def _warn(self, sentence: str) -> None:
        self._report.log("config.warning", "WARNING", reason=sentence)

    def _open(self) -> None:
        try:
            self._fd = os.open(self._path, _FLAGS)
        except FileNotFoundError:
            self._fd = os.open(self._path, _FLAGS | os.O_CREAT, 0o600)
            if self._fsync != "never":
                _sync_folder(self._path)
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):  # also one that was put there later
            self.close()
            raise OSError(errno.EINVAL, "it is no regular file, which this sink needs (see stdout)")
        if self._rotation:
            self._rotation.begun()

    # --- writing --------------------------------------------------------------------------------------------

    def write(self, batches: Sequence[Batch]) -> None:
        left = memoryview(b"".join(map(self._envelope.lines, batches)))
        wait_s = _WAIT_MIN_S
        while left:
            count, error = self._append(left)
            left = left[count:]
            if error is not None:
                self._report.retrying(f"{error.strerror} at {self._path}")
                self._report.pause(wait_s)
                wait_s = min(wait_s * 2, _WAIT_MAX_S)
                self._report.fenced()
        if self._fsync == "always":
            self._sync()

    def _append(self, data: memoryview) -> tuple[int, OSError | None]:
        """How many bytes of it are in the file now, all in whole lines, and why not all are."""
        try:
            self._lock(len(data))
            end = os.fstat(self._fd).st_size
            if end and os.pread(self._fd, 1, end - 1) != b"\n":
                end += os.write(self._fd, b"\n")
            return self._write_lines(data, end)
        except OSError as error:
            return 0, error
        finally:
            if self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _write_lines(self, data: memoryview, end: int) -> tuple[int, OSError | None]:
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError as error:
            whole = bytes(data[:done]).rfind(b"\n") + 1
            if whole < done:
                with contextlib.suppress(OSError):  # then the next write ends the piece, as it would a dead writer's
                    os.ftruncate(self._fd, end + whole)
            return whole, error
        return done, None

    def _lock(self, more: int) -> None:
        """Lock the file that is at our path now, and that `more` bytes may be added to."""
        while True:
            if self._fd < 0:
                self._open()
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if self._is_here() and not (self._rotation and self._rotation.set_aside(self._path, self._fd, more)):
                return
            self.flush()
            self.close()

    def _is_here(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    # --- the disk -------------------------------------------------------------------------------------------

    def flush(self) -> None:
        if self._fsync != "never" and self._fd >= 0:
            self._sync()

    def _sync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise SinkFailed(f"events may be lost that {self._path} had taken: {error.strerror}") from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _sync_folder(path: str) -> None:
    """Most file systems keep a new file's name together with its content; this is for the others."""
    try:
        folder_fd = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # a folder that may be written to and not be read: then it has to go without
        return
    try:
        os.fsync(folder_fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # this file system has no such call
            raise
    finally:
        os.close(folder_fd)
