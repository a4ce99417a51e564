"""What a child costs: python -m tests.bench.children [COUNT]

Prints the time to have COUNT children up, the memory of one that idles (PSS: shared pages are divided among those who
share them), and the time from the call of `kill` to the observed death; beside it the same for a Python process started
by `subprocess.Popen` that imports the same library.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import psutil
import websocket

from supervisor.processes.child_events import ChildEvent, Exited, Started, StartFailed
from supervisor.processes.children import Children
from tests.process.conftest import ROOT, task
from workers.board import STARTED, Board, Slot
from workers.child import Run
from workers.kernel import boottime_ns
from workers.means import Means
from workers.spec import Scope, Task

PEERS = 20
PEER = f"import {websocket.__name__}, signal; print(flush=True); signal.pause()"


def idle(_means: Means, _scope: Scope) -> Run:
    def run(_task: Task, slot: Slot, wakeup_fd: int) -> int:
        slot.words[STARTED] = boottime_ns()
        select.select([wakeup_fd], [], [])
        return 0

    return run


def pss_mb(pid: int) -> float:
    return psutil.Process(pid).memory_full_info().pss / 2**20


def line(what: str, ours: str, peer: str) -> None:
    print(f"{what:<36}{ours:>26}{peer:>26}", flush=True)


def spread(values_ms: list[float]) -> str:
    values_ms = sorted(values_ms)
    return f"p50 {statistics.median(values_ms):.2f}, p99 {values_ms[int(len(values_ms) * 0.99)]:.2f} ms"


class Bench:
    def __init__(self, loop: asyncio.AbstractEventLoop, lock_fd: int) -> None:
        self.events: asyncio.Queue[ChildEvent] = asyncio.Queue()
        environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
        self.children = Children(
            Board.create(),
            lock_fd,
            self.events.put_nowait,
            loop,
            environment=environment,
            start_budget_s=30,
            run="tests.bench.children:idle",
        )
        self.children.prepare([], [""], [])

    async def next(self, kind: type[Started] | type[Exited]) -> ChildEvent:
        while not isinstance(event := await self.events.get(), kind):
            assert not isinstance(event, StartFailed), event
        return event

    async def up(self, first: int, count: int) -> float:
        began = time.perf_counter()
        for number in range(first, first + count):
            self.children.start(task(f"bench/{number}"), boottime_ns() + 10**12)
        for _ in range(count):
            await self.next(Started)
        while not all(report.started for report in self.children.reports().values()):
            await asyncio.sleep(0.001)
        return time.perf_counter() - began

    async def kill(self, number: int) -> float:
        began = time.perf_counter()
        self.children.kill(f"bench/{number}", 1)
        await self.next(Exited)
        return (time.perf_counter() - began) * 1000


def peer() -> tuple[float, float, list[float]]:
    """Milliseconds to start one, megabytes of one, milliseconds to kill each."""
    began = time.perf_counter()
    processes = [subprocess.Popen([sys.executable, "-c", PEER], stdout=subprocess.PIPE) for _ in range(PEERS)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.read(1)
    each_ms = (time.perf_counter() - began) * 1000 / PEERS
    memory_mb = statistics.mean(pss_mb(process.pid) for process in processes)
    kills_ms = []
    for process in processes:
        pidfd = os.pidfd_open(process.pid)
        began = time.perf_counter()
        process.send_signal(signal.SIGKILL)
        select.select([pidfd], [], [])
        kills_ms.append((time.perf_counter() - began) * 1000)
        process.wait()
        os.close(pidfd)
    return each_ms, memory_mb, kills_ms


async def main(count: int) -> None:
    with tempfile.TemporaryFile() as lock:
        bench = Bench(asyncio.get_running_loop(), lock.fileno())
        first_s = await bench.up(count, 1)
        all_s = await bench.up(0, count)
        pids = bench.children.pids()
        memory_mb = statistics.mean(pss_mb(pid) for pid in pids.values())
        server_mb = pss_mb(bench.children.server_pids[0])
        reading = time.perf_counter()
        for _ in range(100):
            bench.children.reports()
        report_us = (time.perf_counter() - reading) * 1e6 / 100 / len(pids)
        kills_ms = [await bench.kill(number) for number in range(count)]
        bench.children.close()
    peer_ms, peer_mb, peer_kills_ms = peer()
    line("", "child of the fork server", "subprocess.Popen")
    line("fork server and first child up", f"{first_s * 1000:.0f} ms", "")
    line(f"{count} children up", f"{all_s * 1000:.0f} ms", "")
    line("per child", f"{all_s * 1000 / count:.2f} ms", f"{peer_ms:.2f} ms")
    line("PSS of an idle child", f"{memory_mb:.2f} MB", f"{peer_mb:.2f} MB")
    line("PSS of the fork server", f"{server_mb:.2f} MB", "")
    line("kill to seen dead", spread(kills_ms), spread(peer_kills_ms))
    line("reading a child's report", f"{report_us:.1f} us", "")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
