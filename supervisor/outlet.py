"""Whether standard output leads to a log that drops and cuts lines, so that it is no place for events.

journald drops beyond a rate and cuts long lines; a container's log driver may drop, and splits at 16 KiB. The driver
reads the pipe that process 1 of the container writes to; a pipe of our own, to a program beside us, is as good as any.
Where nobody can tell (the process 1 of another user, which hides its files) nothing is said.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_FIRST_STDOUT = "/proc/1/fd/1"


def lossy_log(stdout: os.stat_result, environ: Mapping[str, str], containers: os.stat_result | None) -> str:
    """What stands behind standard output if that is a lossy log, in words; empty: something else does, or nobody knows.
    `containers`: where the container that we are in writes its output to."""
    if environ.get("JOURNAL_STREAM") == f"{stdout.st_dev}:{stdout.st_ino}":
        return "the systemd journal"
    if containers is not None and stat.S_ISFIFO(stdout.st_mode) and os.path.samestat(stdout, containers):
        return "a container's log driver"
    return ""


def containers_stdout(environ: Mapping[str, str], path: str = _FIRST_STDOUT) -> os.stat_result | None:
    """None: we are in no container, as far as Docker, Podman and ECS tell, or it does not show its files."""
    if "ECS_CONTAINER_METADATA_URI_V4" not in environ and not any(mark.exists() for mark in _CONTAINER_MARKS):
        return None
    try:
        return os.stat(path)
    except OSError:
        return None
