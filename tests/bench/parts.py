"""The benchmarks, in the order in which they are measured and shown: what each measures, and beside whom.

Each is a program of its own, `python -m tests.bench.NAME`, which installs what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    what: str
    beside: str = ""


ALL = (
    Part(
        "failover",
        "a host dies, is stopped, or is restarted: until its shards stream again",
        "python-dynamodb-lock, async-kinesis",
    ),
    Part("kills", "from a refused renewal to the dead child: idle, busy, stopped, deaf to SIGTERM"),
    Part("outage", "the store hangs, refuses, fails or throttles, for less and for longer than a lease lasts"),
    Part("sharing", "supervisors start, die, join and are restarted: refused claims, moves, shares"),
    Part("wishes", "an operator moves and pauses shards"),
    Part("fleet", "a first start, until all shards stream"),
    Part("renewals", "CPU of a renewal at 50, 200 and 1,000 leases", "boto3's `update_item`, python-dynamodb-lock"),
    Part("idle", "CPU and wakeups of a supervisor and of children that have nothing to do"),
    Part(
        "children",
        "many children: start, memory, what a kill -9 of the parent leaves behind, the time to end all",
        "supervisord, multiprocessing's fork server, `subprocess.Popen`",
    ),
    Part(
        "memory", "PSS of a child with 1 and 25 connections, `ws` and `wss`", "a Python process with websocket-client"
    ),
    Part("growth", "each cost as children are added on one host"),
    Part(
        "receive",
        "CPU of a message, plain and over TLS, and what each feature adds",
        "websocket-client, websockets, aiohttp, picows",
    ),
    Part("many", "25 connections in one child", "threads with `WebSocketApp`, websockets on asyncio"),
    Part("large", "messages of 8 and 64 MiB", "websocket-client"),
    Part("slow", "a feed that is fifty times as fast as its consumer"),
    Part("status", "the commands that look at 1,000 shards", "a scan by boto3"),
    Part("page", "the status page with 1,000 shards in a Chromium"),
    Part("metrics", "what a scrape costs the loop", "prometheus_client's own gauges and counters"),
    Part("scale", "a simulated fleet of 100 supervisors and 10,000 shards"),
)
NAMES = tuple(part.name for part in ALL)
