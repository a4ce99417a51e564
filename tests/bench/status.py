"""How long an operator waits for the whole picture: python -m tests.bench.status [--json FILE] [--rounds N]

1,000 shards of 10 supervisors stand in a table of ministack, written by our store as supervisors write them, with
eight changes of history each. `tenured status` and its variants run as processes, from their start to their end. The
peer in the same run is a script that does what people do without us: scan the table with boto3, consistently, and print
its rows as JSON. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from supervisor.changes import history_after
from supervisor.clock import unix_ms
from supervisor.records import Lease, Member
from supervisor.stores.interface import Store
from supervisor.stores.location import open_store
from supervisor.writes import Applied, Claim, Create, PutMember, Renew
from tests import engines
from tests.arguments import whole
from tests.bench.figures import Figure, in_folders, report, spread
from tests.bench.fleet import AWS
from tests.process.host import COMMAND

SHARDS = 1000
SUPERVISORS = 10
GOAL_S = 3.0
CALL_TIMEOUT_S = 10.0
LEASE_MS = 3_600_000  # longer than the benchmark takes: nobody renews
PEER = """\
import json, sys, boto3
table, endpoint_url = sys.argv[1:]
client = boto3.client("dynamodb", region_name="us-east-1", endpoint_url=endpoint_url)
pages = client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
print(json.dumps([item for page in pages for item in page["Items"]], indent=4))
"""
TABLE = "bench-status"


def supervisor_id(number: int) -> str:
    return f"ip-172-31-255-{number}.ap-southeast-2.compute.internal:41943:{number:016x}"


def member(number: int) -> Member:
    me, now = supervisor_id(number), unix_ms()
    return Member(
        id=me,
        fleet="bench",
        state="active",
        beat=1,
        nonce="n",
        duration_ms=LEASE_MS,
        capacity=200,
        shards=(f"trades/0-{SHARDS - 1}",),
        version="1",
        digest="0123abcd",
        host=me.split(":")[0],
        zone="ap-southeast-2a",
        since=now,
        renewed_at=now,
        poll_ms=1000,
    )


def write_shard(store: Store, shard: str, owner: str) -> None:
    """A row that was created, has changed its owner often, and is renewed."""
    now = unix_ms()
    row = _row(store.apply(Create(shard, now // 1000, "c" * 16, LEASE_MS, now), CALL_TIMEOUT_S))
    history: tuple[str, ...] = ()
    for number in range(8):
        history = history_after(history, row.epoch + number, supervisor_id(number), now, "expired")
    claim = Claim(
        shard=shard,
        seen_owner=None,
        seen_epoch=row.epoch,
        beat_low=0,
        beat_high=0,
        owner=owner,
        epoch=row.epoch + 9,
        nonce="d" * 16,
        duration_ms=LEASE_MS,
        policy="fence",
        want=1,
        history=history,
        at=now,
        checkpoint="t" * 64,
    )
    _row(store.apply(claim, CALL_TIMEOUT_S))
    renewal = Renew(shard, owner, claim.epoch, 0, 0, 1, "e" * 16, 1, 1, 40, "fence", None, now)
    assert isinstance(store.apply(renewal, CALL_TIMEOUT_S), Applied)


def _row(outcome: object) -> Lease:
    assert isinstance(outcome, Applied), outcome
    assert outcome.row is not None
    return outcome.row


def fill(store: Store) -> None:
    dice = random.Random(1)
    store.initialize()
    for number in range(SUPERVISORS):
        assert isinstance(store.apply(PutMember(member(number)), CALL_TIMEOUT_S), Applied)
    for index in range(SHARDS):
        write_shard(store, f"trades/{index}", supervisor_id(dice.randrange(SUPERVISORS)))


def took_s(command: Sequence[str], rounds: int, needle: str) -> list[float]:
    """Each run from start to end; every one has to show what was asked for."""
    times = []
    for _ in range(rounds):
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        times.append(time.monotonic() - began)
        assert done.returncode == 0, done.stderr
        assert needle in done.stdout
    return times


def looks(folder: Path, rounds: int) -> Iterator[Figure]:
    with engines.ministack() as engine:
        url = engine.url(TABLE)
        store = open_store(url, folder, CALL_TIMEOUT_S)
        fill(store)
        store.close()
        last = f"trades/{SHARDS - 1}"
        looked = {
            "status": (["status"], f"{SHARDS} shards, all held"),
            "status --all": (["status", "--all"], last),
            "status --json": (["status", "--json"], f'"{last}"'),
            "history SHARD": (["history", last], "took it over"),
        }
        for name, (arguments, needle) in looked.items():
            times = took_s([*COMMAND, *arguments, "--store", url], rounds, needle)
            what = f"{name}, {SHARDS} shards, {SUPERVISORS} supervisors"
            yield Figure(what, statistics.median(times), "s", GOAL_S, spread(times, "s"))
        times = took_s([sys.executable, "-c", PEER, TABLE, engine.endpoint_url], rounds, last)
        yield Figure("peer: a scan by boto3, printed as JSON", statistics.median(times), "s", None, spread(times, "s"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.status")
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    engines.install("ministack")
    os.environ.update(AWS)
    return report(in_folders([("status", lambda folder: looks(folder, options.rounds))]), options.json)


if __name__ == "__main__":
    sys.exit(main())
