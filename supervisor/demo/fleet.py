"""The supervisors of the show: real `tenured run` processes, started, watched and ended by the pids we started.

They have sessions of their own, so that a Ctrl-C reaches the show alone, and die with it by the kernel's hand,
also if it is killed. What a supervisor leaves behind when it is killed is watched through pidfds that were opened
before: a pidfd becomes readable at the death of exactly that process.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil

from supervisor.demo.plan import Plan
from workers.process.kernel import boottime_ns, die_with_parent

GONE_TIMEOUT_MS = 5000
MS_NS = 1_000_000


class SupervisorFailed(Exception):
    """A supervisor ended that nobody asked to. `code` is its exit code, the text one sentence."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Aftermath:
    """A SIGKILL and what came of it: the processes that the supervisor had, and when the last of them was dead
    (None: not within `GONE_TIMEOUT_MS`)."""

    name: str
    pid: int
    at_ns: int
    processes: int
    gone_ms: float | None


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "supervisor.cli", *arguments]


def environment() -> dict[str, str]:
    """Ours, without the variables that would override what the show writes into its files."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TENURED_")}


class Fleet:
    """`with Fleet(plan) as fleet:` leaves no process behind, however the block is left."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: set[str] = set()

    def start(self, name: str, url: str) -> None:
        home = self._plan.home(name)
        home.mkdir(mode=0o700)
        self._plan.configuration(name).write_text(self._plan.text(name, url))
        expected = os.getpid()

        def die_with_us() -> None:
            die_with_parent()
            if os.getppid() != expected:
                os._exit(1)

        with self._plan.log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command("run", "-c", str(self._plan.configuration(name))),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
                preexec_fn=die_with_us,  # the show has one thread, so it is safe
            )

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items()}

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(name for name in self._processes if name not in self._ended)

    def check(self) -> None:
        """Raises `SupervisorFailed` if one is gone that should be there."""
        for name in self.running:
            code = self._processes[name].poll()
            if code is not None:
                said = last_words(self._plan.log(name).read_text(errors="replace")) or "it said nothing"
                raise SupervisorFailed(f"supervisor {name} ended with exit code {code}: {said}", code)

    def kill(self, name: str) -> Aftermath:
        """SIGKILL, and wait until all that it had started is dead."""
        process = self._processes[name]
        self._ended.add(name)
        watched = _descendants(process.pid)
        at_ns = boottime_ns()
        process.kill()
        process.wait()
        gone = all(_is_readable(fd, at_ns) for fd in watched)
        gone_ms = (boottime_ns() - at_ns) / MS_NS if gone else None
        for fd in watched:
            os.close(fd)
        return Aftermath(name, process.pid, at_ns, 1 + len(watched), gone_ms)

    def stop(self) -> None:
        """SIGTERM to all that run; `codes` tells when they have ended."""
        for name in self.running:
            self._ended.add(name)
            self._processes[name].terminate()

    def codes(self) -> dict[str, int | None]:
        return {name: process.poll() for name, process in self._processes.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, process in self._processes.items():
            if process.poll() is None:
                self.kill(name)


def last_words(log: str) -> str:
    """What a process said last: the message of its last log line, or the line itself; empty: nothing."""
    last = next((line.strip() for line in reversed(log.split("\n")) if line.strip()), "")
    try:
        entry = json.loads(last)
    except ValueError:
        return last.removeprefix("tenured: ")
    return str(entry.get("message") or entry.get("reason") or last) if isinstance(entry, dict) else last


def _descendants(pid: int) -> list[int]:
    """Pidfds of everything that `pid` has started and that still lives."""
    watched: list[int] = []
    try:
        processes = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return watched  # it is dead already, and with it all that it had
    for process in processes:
        try:
            watched.append(os.pidfd_open(process.pid))
        except ProcessLookupError:
            continue  # it died since it was listed
    return watched


def _is_readable(fd: int, since_ns: int) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    left_ms = GONE_TIMEOUT_MS - (boottime_ns() - since_ns) // MS_NS
    return bool(poller.poll(max(0, left_ms)))
