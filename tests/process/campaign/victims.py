"""Finding, killing and stopping processes of a supervisor; one that is gone by then is no victim."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import psutil


def living(pid: int) -> list[psutil.Process]:
    """The process of a pid, or none."""
    try:
        return [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return []


def titled(processes: Iterable[psutil.Process], title: str) -> list[psutil.Process]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.cmdline()[:1] == [title]:  # what follows is blank
                found.append(process)
    return found


def killed(processes: Iterable[psutil.Process]) -> bool:
    """Whether there was one to kill."""
    found = False
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            found = True
    return found


def frozen(processes: Iterable[psutil.Process]) -> tuple[Callable[[], None], list[psutil.Process]] | None:
    """Stops them; what lets them go on, and those that were stopped."""
    stopped = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
            stopped.append(process)

    def end() -> None:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    return (end, stopped) if stopped else None
