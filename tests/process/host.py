"""A real `tenured run` in a folder of its own: started, read, signalled and ended by the pid that we started."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import psutil

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import Delivery, delivery
from tests.wait import until
from workers.process.kernel import boottime_ns

COMMAND = [sys.executable, "-P", "-m", "supervisor.cli"]


def tenured(*arguments: str, timeout_s: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Any command, to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=os.environ | environment,
        check=False,
    )


class Host:
    """`with Host(folder, store, url, shards=16) as host:` runs one supervisor until the block is left."""

    def __init__(
        self,
        folder: Path,
        store: str,
        url: str,
        *,
        shards: int = 4,
        indices: Sequence[str] = (),
        lease_duration: str = "3s",
        supervisor: Sequence[str] = (),
        stream: Sequence[str] = (),
        within: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`within`: a command that runs the supervisor's; `environment` comes on top of ours."""
        folder.mkdir(exist_ok=True)
        self.within = within
        self._environment = environment
        self.folder = folder
        self.config = folder / "tenured.ini"
        self.events = folder / "events.jsonl"
        indices = indices or [str(index) for index in range(shards)]
        self.shards = [f"s/{index}" for index in indices]
        lines = [
            "[supervisor]",
            f"store = {store}",
            "state_dir = ./state",
            "run_dir = ./run",
            f"lease_duration = {lease_duration}",
            *supervisor,
            "[stream:s]",
            f"shards = {', '.join(indices)}",
            *([f"url = {url}"] if url else []),
            *([] if any(line.startswith("sink") for line in stream) else [f"sink = jsonl:{self.events}"]),
            *stream,
        ]
        self.config.write_text("\n".join(lines) + "\n")
        self.process: subprocess.Popen[bytes] | None = None

    # --- the process --------------------------------------------------------------------------------------

    def start(self) -> Self:
        command = [*self.within, *COMMAND, "run", "-c", str(self.config)]
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, **self._environment}
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=environment)
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = 30) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def ended_by_another_signal(self) -> bool:
        """To be asked again and again: a signal that comes with the first one to stop does not hurry."""
        assert self.process is not None
        self.signal(signal.SIGTERM)
        return self.process.poll() is not None

    def stop(self, timeout_s: float = 30) -> int:
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            for process in self.tree():
                process.resume()
            self.process.kill()
            self.process.wait()
        if kind is not None:
            print(f"--- log of {self.folder.name}", (self.folder / "log").read_text()[-6000:], sep="\n")

    # --- what can be seen ---------------------------------------------------------------------------------

    def tree(self) -> list[psutil.Process]:
        """Every process below the supervisor."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def log(self, event: str = "", **fields: Any) -> list[dict[str, Any]]:
        """The log lines of one event, of our own and of our children."""
        return [
            line
            for line in self._lines()
            if event in ("", line.get("event")) and all(line.get(name) == value for name, value in fields.items())
        ]

    def _lines(self) -> Iterator[dict[str, Any]]:
        for text in (self.folder / "log").read_text().splitlines():
            if text.startswith("{"):
                yield json.loads(text)

    def child_pid(self, shard: str) -> int:
        """The pid of the newest child of a shard."""
        return int(self.log("child.started", shard=shard)[-1]["pid"])

    def child_pids(self) -> dict[str, int]:
        return {line["shard"]: line["pid"] for line in self.log("child.started")}

    def deliveries(self) -> list[Delivery]:
        if not self.events.exists():
            return []
        return [found for line in self.events.read_bytes().split(b"\n")[:-1] if (found := delivery(line))]


def alive(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that still run. A zombie is dead: whoever is pid 1 here may take its time to reap."""
    return [each for each in processes if each.is_running() and _status(each) != psutil.STATUS_ZOMBIE]


def _status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


class Deaths:
    """Watches processes through pidfds of our own: `at_ns[pid]` is when the kernel said that one was gone."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.at_ns: dict[int, int] = {}
        self._pids = {os.pidfd_open(pid): pid for pid in pids}
        threading.Thread(target=self._watch, daemon=True).start()

    def wait(self, pid: int, timeout_s: float) -> int:
        """When it died; AssertionError if it does not within the time."""
        until(lambda: pid in self.at_ns, timeout_s)
        return self.at_ns[pid]

    def _watch(self) -> None:
        poll = select.poll()
        for pidfd in self._pids:
            poll.register(pidfd, select.POLLIN)
        while len(self.at_ns) < len(self._pids):
            for pidfd, _ in poll.poll():
                self.at_ns[self._pids[pidfd]] = boottime_ns()
                poll.unregister(pidfd)
                os.close(pidfd)


def streaming(feed: FeedProcess, shards: Sequence[str], supervisor: str | None = None) -> bool:
    """Whether every one of these shards has an open connection (of this supervisor's name in the URL)."""
    connected = {each.shard for each in feed.connected() if supervisor in (None, each.supervisor)}
    return connected >= set(shards)


def wait_streaming(
    feed: FeedProcess, shards: Sequence[str], supervisor: str | None = None, timeout_s: float = 15
) -> None:
    until(lambda: streaming(feed, shards, supervisor), timeout_s, 0.02)


def overlaps(feed: FeedProcess, tolerance_ns: int = 0) -> list[tuple[Any, Any]]:
    """Pairs of connections of one shard, of different epochs, that were open at the same instant."""
    found = []
    connections = feed.connections()
    for index, one in enumerate(connections):
        for other in connections[index + 1 :]:
            if one.shard != other.shard or one.epoch == other.epoch:
                continue
            start = max(one.opened_ns, other.opened_ns)
            ends = [each.closed_ns for each in (one, other) if each.closed_ns is not None]
            if not ends or start + tolerance_ns < min(ends):
                found.append((one, other))
    return found
