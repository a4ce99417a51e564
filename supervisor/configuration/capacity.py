"""How many shards a host may hold when nobody says so: `capacity = auto`.

The rule: the memory that this process may use, less 128 MiB for the supervisor and the fork server, divided by
16 MiB for each child (an idle one takes 1 to 2.5 MB, TLS, buffers and a handler the rest); at least 1, at most the
slots of the board. The memory is the smallest of the machine's and of the limits of our cgroup and its parents.
"""

from __future__ import annotations

import os
from pathlib import Path

from workers.board import SLOTS

SUPERVISOR_BYTES = 128 * 1024 * 1024
CHILD_BYTES = 16 * 1024 * 1024


def capacity_of(memory_bytes: int) -> int:
    return max(1, min(SLOTS, (memory_bytes - SUPERVISOR_BYTES) // CHILD_BYTES))


def memory_bytes(root: Path = Path("/")) -> int:
    """What the machine and the cgroups (version 2, or 1) leave us. `root` is where /proc and /sys are found."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        groups = []
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers == "":
            limits += _limits(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return min(limits)


def _limits(mount: Path, path: str, name: str) -> list[int]:
    """The limits from our group up to the mount point. Inside a container the path may be one of the host's that
    does not exist here; the mount point is then our own group."""
    folder = mount / path.lstrip("/")
    found: list[int] = []
    for group in (folder, *folder.parents):
        if not group.is_relative_to(mount):
            break
        try:
            text = (group / name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return found
