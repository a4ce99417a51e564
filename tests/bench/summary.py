"""The headlines of docs/benchmarks.md: which figures stand at its top, and what a peer needs for the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.figures import Figure

POPEN, FORKSERVER, SUPERVISORD = "subprocess.Popen", "multiprocessing, forkserver", "supervisord"
LOCK, KINESIS, APP = "python-dynamodb-lock", "async-kinesis", "a process with websocket-client"
HOST, HOLDER = "host dies, T = 10 s: ", "holder dies, T = 10 s: "
TO_LOCK = ", to the lock elsewhere, p99"
LEFT, START, CHILD = "kill -9, processes left 2 s later: ", "start to connection, each: ", "ws, 1 connection: "
RENEWAL, MESSAGE = "200 leases, a snapshot in T, CPU of a renewal: ", "plain, 100 B: "
TIMES = ", times ours"


@dataclass(frozen=True, slots=True)
class Headline:
    """`name` is that of a figure of the part, `beside` are peers and the names of theirs in the same part."""

    what: str
    part: str
    name: str
    beside: tuple[tuple[str, str], ...] = ()


HEADLINES = (
    Headline(
        "a host dies, T = 10 s: to the stream elsewhere, p99",
        "failover",
        f"{HOST}to the stream elsewhere, p99",
        tuple((name, f"{HOLDER}{name}{TO_LOCK}") for name in (LOCK, KINESIS)),
    ),
    Headline("shards connected twice meanwhile", "failover", f"{HOST}shards connected twice at once"),
    Headline(
        "a planned stop: gap of a shard, p99", "failover", "planned stop: child dead to the stream elsewhere, p99"
    ),
    Headline(
        "kill -9 and restart on one host, 16 shards: all stream again, p99",
        "failover",
        "kill -9 and restart on one host, T = 10 s: all 16 shards again, p99",
    ),
    Headline("refused renewal to the dead child, p99", "kills", "ministack: refused renewal to child dead, all, p99"),
    Headline(
        "children killed by outages of 4 s, T = 10 s, all calls hanging",
        "outage",
        "hang, T = 10 s: kills in outages of 4.0 s",
    ),
    Headline(
        "kill -9 of the parent: processes left 2 s later",
        "children",
        f"{LEFT}tenured",
        tuple((name, f"{LEFT}{name}") for name in (FORKSERVER, POPEN, SUPERVISORD)),
    ),
    Headline(
        "restart, each child: to its connection",
        "children",
        f"{START}tenured, again after a kill -9",
        tuple((name, f"{START}{name}{TIMES}") for name in (FORKSERVER, POPEN, SUPERVISORD)),
    ),
    Headline("memory of an idle child", "memory", f"{CHILD}a child of 100", ((APP, f"{CHILD}{APP}{TIMES}"),)),
    Headline("CPU of a supervisor of 500 idle children", "growth", "500 children: CPU of the parent at rest"),
    Headline(
        "CPU of a renewal, 200 leases",
        "renewals",
        f"{RENEWAL}tenured, in batches",
        tuple((name, f"{RENEWAL}{name}{TIMES}") for name in ("update_item", LOCK)),
    ),
    Headline(
        "CPU of a received message of 100 bytes",
        "receive",
        f"{MESSAGE}tenured",
        tuple((name, f"{MESSAGE}{name}{TIMES}") for name in ("websocket-client", "websockets", "aiohttp", "picows")),
    ),
)


def table(figures: Mapping[str, Sequence[Figure]]) -> str:
    """Raises KeyError for a headline that was never measured."""
    return "\n".join(["| what | measured | goal | beside |", "| --- | --- | --- | --- |", *_rows(figures)]) + "\n"


def _rows(figures: Mapping[str, Sequence[Figure]]) -> Iterator[str]:
    for headline in HEADLINES:
        named = {figure.name: figure for figure in figures[headline.part]}
        ours = named[headline.name]
        beside = ", ".join(f"{peer} {_beside(named[name])}" for peer, name in headline.beside)
        yield f"| {headline.what} | {ours.measured} | {ours.judged} | {beside} |"


def _beside(figure: Figure) -> str:
    return figure.measured.replace(" x", " times as much") if figure.name.endswith(TIMES) else figure.measured
