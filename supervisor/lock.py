"""The lock of the state folder: whoever holds it knows that the last incarnation is dead, children included.

An flock belongs to the open file, not to a process. The fork server and every child inherit that open file (as their
file 0), so the lock is free only when the last of them is gone, and not before.

What holds: one `Lock` at a time for one folder, as long as nobody deletes the file under it; a file that was replaced
while we waited is not mistaken for the one that others hold. Not promised: who comes next, when several wait.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from supervisor.private import make_folder

_LOOK_S = 0.05
_NAMED_MAX = 3


class Held(Exception):
    """Somebody else has the lock: exit 73. One sentence that names the holders."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock, held until the last process that inherited `fd` is gone. `device` and `inode` name its file."""

    fd: int
    device: int
    inode: int

    def close(self) -> None:
        """Let go of our part."""
        os.close(self.fd)


async def take(state_dir: Path, wait_s: float) -> Lock:
    """The lock of `state_dir`, which is made if it is missing. Raises `Held` after `wait_s`, or OSError with a sentence
    when the folder or the file cannot be made."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    while True:
        lock = attempt(state_dir)
        if lock is not None:
            return lock
        if loop.time() >= until_s:
            raise Held(_held(state_dir))
        await asyncio.sleep(_LOOK_S)


def attempt(state_dir: Path) -> Lock | None:
    """One try that does not wait; None: somebody has it."""
    path = state_dir / "lock"
    fd = _opened(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours, theirs = os.fstat(fd), os.lstat(path)
    except (BlockingIOError, FileNotFoundError):
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino):
        os.close(fd)
        return None
    return Lock(fd, ours.st_dev, ours.st_ino)


def _opened(path: Path) -> int:
    try:
        make_folder(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        what = (
            f"state_dir {path.parent} cannot be used: {error.strerror}; it must be a folder that this user may write to"
        )
        raise OSError(error.errno, what) from error


def _held(state_dir: Path) -> str:
    pids = holders(state_dir / "lock")
    named = ", ".join(f"{pid} ({_title(pid)})" for pid in pids[:_NAMED_MAX])
    more = f" and {len(pids) - _NAMED_MAX} more" if len(pids) > _NAMED_MAX else ""
    who = f"held by process {named}{more}" if pids else "held by a process that we may not see"
    return (
        f"state_dir {state_dir} is in use, its lock is {who}; stop that supervisor or give this one a folder of its own"
    )


def holders(path: Path) -> list[int]:
    """The processes that have the lock of this file, as far as we may look into them: the one that took it may be
    dead while others still hold what they inherited, so a list of lockers would name the wrong one."""
    try:
        wanted = os.stat(path)
    except FileNotFoundError:
        return []
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and any(_locks(entry, fd, wanted) for fd in _descriptors(entry)):
            pids.append(int(entry.name))
    return sorted(pids)


def _descriptors(process: Path) -> Iterator[str]:
    try:
        yield from os.listdir(process / "fd")
    except OSError:  # gone, or not ours to look into
        return


def _locks(process: Path, fd: str, wanted: os.stat_result) -> bool:
    try:
        found = os.stat(process / "fd" / fd)
        if (found.st_dev, found.st_ino) != (wanted.st_dev, wanted.st_ino):
            return False
        return "FLOCK" in (process / "fdinfo" / fd).read_text()
    except OSError:  # gone, or not ours to look into
        return False


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone by now"
