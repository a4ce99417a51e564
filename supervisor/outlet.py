"""Whether standard output leads to a log that drops and cuts lines, so that it is no place for events.

journald drops beyond a rate and cuts long lines; a container's log driver may drop, and splits at 16 KiB.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def lossy_log(stdout: os.stat_result, environ: Mapping[str, str], in_container: bool) -> str:
    """What stands behind standard output if that is a lossy log, in words; empty: something else does."""
    if environ.get("JOURNAL_STREAM") == f"{stdout.st_dev}:{stdout.st_ino}":
        return "the systemd journal"
    if in_container and stat.S_ISFIFO(stdout.st_mode):
        return "a container's log driver"
    return ""


def in_container(environ: Mapping[str, str]) -> bool:
    """As far as Docker, Podman and ECS tell."""
    return "ECS_CONTAINER_METADATA_URI_V4" in environ or any(mark.exists() for mark in _CONTAINER_MARKS)
