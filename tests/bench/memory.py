"""What an idle child costs in memory: python -m tests.bench.memory [--children N]

Real supervisors on SQLite hold N connections to a local feed that sends nothing, with the sink `jsonl`: PSS (shared
pages are divided among those who share them) and private dirty memory of each child, which is what one more costs.
Beside it a Python process that connects with websocket-client and waits. Then the same with 25 idle `wss` connections
in each of a few children; beside it a process with a thread and a `WebSocketApp` for each. The exit code is 1 if a goal
is missed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests.arguments import whole
from tests.bench.figures import HEAD, Figure, line, spread
from tests.bench.firehose import CERTIFICATE, serving, stay
from tests.process.host import Host, wait_streaming
from tests.wait import until

GOAL_MB, GOAL_SECURE_MB = 2.5, 8.0
PEERS = 10
SECURE_CHILDREN, SECURE_PEERS, SECURE_CONNECTIONS = 4, 2, 25
PEER = "import sys, websocket; client = websocket.create_connection(sys.argv[1]); client.recv()"
SECURE_PEER = """
import sys, threading, websocket
for _ in range(int(sys.argv[3])):
    app = websocket.WebSocketApp(sys.argv[1], on_open=lambda app: print(flush=True))
    threading.Thread(target=app.run_forever, kwargs={"sslopt": {"ca_certs": sys.argv[2]}}).start()
"""


def rollup_mb(pid: int) -> dict[str, float]:
    """The kernel's sums over all mappings of a process, by their names there."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in lines)}


def ours(folder: Path, children: int) -> Iterator[Figure]:
    store = f"sqlite:///{folder}/leases.db"
    supervisor = ["capacity = 1000"]
    with (
        FeedProcess(folder / "feed.jsonl", rate=0) as feed,
        Host(folder / "a", store, feed.url("a"), shards=children, lease_duration="10s", supervisor=supervisor) as host,
    ):
        wait_streaming(feed, host.shards, timeout_s=60)
        sums = [rollup_mb(pid) for pid in host.child_pids().values()]
        yield figure("PSS", [each["Pss"] for each in sums], f"{children} children", GOAL_MB)
        yield figure("private dirty", [each["Private_Dirty"] for each in sums], f"{children} children")
        host.stop()


def theirs(folder: Path) -> Iterator[Figure]:
    with FeedProcess(folder / "peer.jsonl", rate=0) as feed, ExitStack() as ends:
        pids = []
        for number in range(PEERS):
            url = f"ws://127.0.0.1:{feed.port}/peer/{number}?epoch=1"
            process = ends.enter_context(subprocess.Popen([sys.executable, "-c", PEER, url]))
            ends.callback(process.kill)
            pids.append(process.pid)
        until(lambda: len(feed.connected()) == PEERS, 30, 0.05)
        sums = [rollup_mb(pid) for pid in pids]
    yield figure("PSS", [each["Pss"] for each in sums], "processes with websocket-client")
    yield figure("private dirty", [each["Private_Dirty"] for each in sums], "processes with websocket-client")


def ours_secure(folder: Path) -> Iterator[Figure]:
    store = f"sqlite:///{folder}/secure.db"
    with serving(stay, tls=True) as url:
        urls = "\n    ".join([url] * SECURE_CONNECTIONS)
        stream = [f"tls_ca = {CERTIFICATE}"]
        with Host(folder / "b", store, urls, shards=SECURE_CHILDREN, lease_duration="10s", stream=stream) as host:
            every = SECURE_CHILDREN * SECURE_CONNECTIONS
            until(lambda: len(host.log("connection.opened")) == every, 60, 0.05)
            sums = [rollup_mb(pid) for pid in host.child_pids().values()]
            of = f"{SECURE_CHILDREN} children, {SECURE_CONNECTIONS} wss each"
            yield figure("PSS", [each["Pss"] for each in sums], of, GOAL_SECURE_MB)
            host.stop()


def theirs_secure() -> Iterator[Figure]:
    with serving(stay, tls=True) as url, ExitStack() as ends:
        sums = []
        for _ in range(SECURE_PEERS):
            command = [sys.executable, "-c", SECURE_PEER, url, CERTIFICATE, str(SECURE_CONNECTIONS)]
            process = ends.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            ends.callback(process.kill)
            assert process.stdout is not None
            for _ in range(SECURE_CONNECTIONS):
                process.stdout.readline()
            sums.append(rollup_mb(process.pid))
    yield figure("PSS", [each["Pss"] for each in sums], f"processes, {SECURE_CONNECTIONS} wss WebSocketApp")


def figure(what: str, values_mb: list[float], of: str, goal_mb: float | None = None) -> Figure:
    name = f"{what} of an idle one of {of}"
    return Figure(name, statistics.median(values_mb), "MB", goal_mb, spread(values_mb, "MB"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory")
    parser.add_argument("--children", type=whole, default=100)
    options = parser.parse_args()
    print(HEAD, flush=True)
    met = True
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as folder:
        place = Path(folder)
        for found in chain(ours(place, options.children), theirs(place), ours_secure(place), theirs_secure()):
            print(line(found), flush=True)
            met = met and found.met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
