"""A bound on the memory of a unit, by whoever can set one: systemd where the host has unified control groups. Where it
has the older kind, a container gets no say about memory, and we put the unit's processes into a group from outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.systemd.machine import Machine

LEGACY = Path("/sys/fs/cgroup/memory")


@contextmanager
def memory_bound(machine: Machine, unit: str, bytes_max: int) -> Iterator[Callable[[], int]]:
    """Within the block; what it gives counts the kills by the kernel for want of memory."""
    yield from (_by_us if LEGACY.exists() else _by_systemd)(machine, unit, bytes_max)


def _by_systemd(machine: Machine, unit: str, bytes_max: int) -> Iterator[Callable[[], int]]:
    machine.run(f"systemctl set-property --runtime {unit} MemoryMax={bytes_max}")
    group = machine.shows("ControlGroup", unit)
    yield lambda: _kills(machine.run(f"cat /sys/fs/cgroup{group}/memory.events"))
    machine.run(f"systemctl set-property --runtime {unit} MemoryMax=infinity")


def _by_us(machine: Machine, unit: str, bytes_max: int) -> Iterator[Callable[[], int]]:
    group = LEGACY / f"{machine.name}-{unit}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(bytes_max))
        for pid in machine.pids(unit):
            (group / "cgroup.procs").write_text(str(pid))
        yield lambda: _kills((group / "memory.oom_control").read_text())
    finally:
        for line in (group / "cgroup.procs").read_text().split():
            (LEGACY / "cgroup.procs").write_text(line)
        group.rmdir()


def _kills(text: str) -> int:
    return int(re.findall(r"^oom_kill (\d+)$", text, re.MULTILINE)[0])
