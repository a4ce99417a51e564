"""A supervisor reduced to its processes, for tests that kill or stop it:

    python -m tests.process.parent STATE_DIR LEASE_S SHARD=ROLE...

It takes the lock, starts the children, moves their deadlines all the time, and prints a JSON line for each event,
and one `Up` when all children have begun.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

from supervisor.lock import take
from supervisor.processes.child_events import ChildEvent
from supervisor.processes.children import Children
from tests.process.conftest import task
from workers.board import Board
from workers.process.kernel import boottime_ns


def say(event: ChildEvent) -> None:
    print(json.dumps({"event": type(event).__name__, **dataclasses.asdict(event)}), flush=True)


async def main(state_dir: Path, lease_s: float, roles: dict[str, str]) -> None:
    lock = await take(state_dir, 5)
    loop = asyncio.get_running_loop()
    children = Children(Board.create(), lock.fd, say, loop, environment=os.environ, run="tests.process.roles:play")
    loop.add_signal_handler(signal.SIGCHLD, children.reap)
    children.prepare([], [], [])
    for shard, role in roles.items():
        children.start(task(shard, role=role), boottime_ns() + int(lease_s * 1e9))
    up = False
    while True:
        await asyncio.sleep(min(lease_s / 5, 0.05))
        if not up and sum(report.started for report in children.reports().values()) == len(roles):
            up = True
            print(
                json.dumps(
                    {"event": "Up", "pid": os.getpid(), "pids": children.pids(), "server": children.server_pids[0]}
                ),
                flush=True,
            )
        for shard in roles:
            children.extend(shard, 1, boottime_ns() + int(lease_s * 1e9))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), dict(text.split("=", 1) for text in sys.argv[3:])))
