"""What an idle child costs in memory: python -m tests.bench.memory [--children N] [--json FILE]

Real supervisors on SQLite hold children whose feed sends nothing, with the sink `jsonl`: N of them with one `ws` or
`wss` connection each, a few with 25. What counts is PSS, in which a page that several share counts for each of them in
parts. Beside them Python processes with websocket-client: `create_connection` and a `recv()` for one connection, a
thread and a `WebSocketApp` for each of 25. All trust the authorities that botocore brings, as everybody trusts some
hundred of them, and that of the feed. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import botocore

from tests.bench.figures import Figure, asked, in_folders, median, pss_mib, report, times
from tests.bench.firehose import CERTIFICATE, serving, stay
from tests.process.host import Host
from tests.wait import until

TIMES_MIN = 5.0
MANY = 25
BUNDLE = Path(botocore.__file__).with_name("cacert.pem")
FEW_CHILDREN, PEERS, FEW_PEERS = 4, 10, 4
ONE = """
import sys, websocket
client = websocket.create_connection(sys.argv[1], sslopt={"ca_certs": sys.argv[2]})
print(flush=True)
client.recv()
"""
APPS = """
import sys, threading, websocket
for _ in range(int(sys.argv[3])):
    app = websocket.WebSocketApp(sys.argv[1], on_open=lambda app: print(flush=True))
    threading.Thread(target=app.run_forever, kwargs={"sslopt": {"ca_certs": sys.argv[2]}}).start()
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Children with as many connections each, over TLS or not. A peer needs at least `times_min` as much."""

    scheme: str
    connections: int
    goal_max_mib: float | None
    times_min: float | None = None

    @property
    def name(self) -> str:
        return f"{self.scheme}, {self.connections} connection{'s' if self.connections > 1 else ''}"


KINDS = (
    Kind("ws", 1, 2.5, TIMES_MIN),
    Kind("wss", 1, 4.0, TIMES_MIN),
    Kind("ws", MANY, None),
    Kind("wss", MANY, 8.0),
)


def figures(folder: Path, kind: Kind, children: int) -> Iterator[Figure]:
    count = children if kind.connections == 1 else FEW_CHILDREN
    trusted = folder / "trusted.pem"
    trusted.write_text(BUNDLE.read_text() + Path(CERTIFICATE).read_text())
    with serving(stay, tls=kind.scheme == "wss") as url:
        ours = children_mib(folder, url, count, kind.connections, trusted)
        theirs = peers_mib(url, kind.connections, trusted)
    yield median(f"{kind.name}: a child of {count}", ours, "MiB", kind.goal_max_mib)
    our_own = [statistics.median(ours)] * len(theirs)
    yield times(f"{kind.name}: a process with websocket-client", theirs, our_own, "MiB", kind.times_min)


def children_mib(folder: Path, url: str, children: int, connections: int, trusted: Path) -> list[float]:
    urls = "\n    ".join([url] * connections)
    room, stream = [f"capacity = {children}"], [f"tls_ca = {trusted}"] if url.startswith("wss") else []
    store = f"sqlite:///{folder}/leases.db"
    with Host(folder, store, urls, shards=children, lease_duration="10s", supervisor=room, stream=stream) as host:
        until(lambda: len(host.log("connection.opened")) == children * connections, 120, 0.1)
        sizes_mib = [pss_mib(pid) for pid in host.child_pids().values()]
        host.stop()
    return sizes_mib


def peers_mib(url: str, connections: int, trusted: Path) -> list[float]:
    """Read when all are there, since they share their libraries."""
    script, count = (ONE, PEERS) if connections == 1 else (APPS, FEW_PEERS)
    command = [sys.executable, "-c", script, url, str(trusted), str(connections)]
    with ExitStack() as ends:
        processes = [ends.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)) for _ in range(count)]
        for process in processes:
            ends.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            for _ in range(connections):
                process.stdout.readline()
        return [pss_mib(process.pid) for process in processes]


if __name__ == "__main__":
    options = asked("memory", children=100)
    parts = ((kind.scheme, partial(figures, kind=kind, children=options.children)) for kind in KINDS)
    sys.exit(report(in_folders(parts), options.json))
