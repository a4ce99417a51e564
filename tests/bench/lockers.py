"""Other people's ways to hold leases in a table, each in a process of its own, and how to talk to one.

    python -m tests.bench.lockers NAME ENDPOINT_URL TABLE COUNT LEASE_S

Takes the locks 0 to COUNT - 1, waits for those that somebody else holds, and prints for each `NUMBER NANOSECONDS`
(CLOCK_BOOTTIME) when it has it. From then on each is renewed every third of LEASE_S, and each line on stdin is
answered by the number of renewals so far. `update_item` is what one writes with boto3 alone: a loop of conditional
writes; it takes its rows unconditionally. `python-dynamodb-lock` renews from its own thread.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3

from tests.engines import Engine
from workers.process.kernel import boottime_ns

REGION = "us-east-1"
KEYS = {"update_item": ("lease",), "python-dynamodb-lock": ("lock_key", "sort_key")}
ACQUIRE_THREADS = 16
LOOK_S = 1.0  # how often a lock that somebody holds is looked at: as often as we take a snapshot

# Takes all locks, calls the first function with the number of each, the second one at each renewal, and returns.
Holder = Callable[[str, str, int, float, Callable[[int], None], Callable[..., None]], None]


def update_item(
    endpoint_url: str,
    table: str,
    count: int,
    lease_s: float,
    taken: Callable[[int], None],
    renewed: Callable[..., None],
) -> None:
    client: Any = boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint_url)
    for number in range(count):
        item = {"lease": {"S": f"s/{number}"}, "owner": {"S": "me"}, "epoch": {"N": "1"}, "beat": {"N": "0"}}
        client.put_item(TableName=table, Item=item)
        taken(number)

    def renew(number: int, beat: int) -> None:
        client.update_item(
            TableName=table,
            Key={"lease": {"S": f"s/{number}"}},
            UpdateExpression="SET #b = :b, #t = :t",
            ConditionExpression="#o = :o AND #e = :e",
            ExpressionAttributeNames={"#b": "beat", "#t": "renewed_at", "#o": "owner", "#e": "epoch"},
            ExpressionAttributeValues={
                ":b": {"N": str(beat)},
                ":t": {"N": str(time.time_ns() // 1_000_000)},
                ":o": {"S": "me"},
                ":e": {"N": "1"},
            },
        )
        renewed()

    def loop() -> None:
        beat, due_s = 0, time.monotonic()
        while True:
            beat, due_s = beat + 1, due_s + lease_s / 3
            for number in range(count):
                renew(number, beat)
            time.sleep(max(0.0, due_s - time.monotonic()))

    threading.Thread(target=loop, daemon=True).start()


def python_dynamodb_lock(
    endpoint_url: str,
    table: str,
    count: int,
    lease_s: float,
    taken: Callable[[int], None],
    renewed: Callable[..., None],
) -> None:
    from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient

    logging.getLogger("python_dynamodb_lock").setLevel(logging.ERROR)  # it warns of each lock that it takes over
    resource: Any = boto3.resource("dynamodb", region_name=REGION, endpoint_url=endpoint_url)
    resource.meta.client.meta.events.register("after-call.dynamodb.UpdateItem", renewed)
    client = DynamoDBLockClient(
        resource,
        table_name=table,
        heartbeat_period=timedelta(seconds=lease_s / 3),
        safe_period=timedelta(seconds=lease_s * 0.9),
        lease_duration=timedelta(seconds=lease_s),
    )

    def take(number: int) -> None:
        look, patience = timedelta(seconds=LOOK_S), timedelta(days=1)
        client.acquire_lock(f"s/{number}", retry_period=look, retry_timeout=patience)
        taken(number)

    with ThreadPoolExecutor(ACQUIRE_THREADS) as pool:
        list(pool.map(take, range(count)))


HOLDERS: dict[str, Holder] = {"update_item": update_item, "python-dynamodb-lock": python_dynamodb_lock}


class Locker:
    """`with Locker(command, count) as locker:` runs a program that takes so many, and kills it at the end of the block.
    `locking` is the command of one of ours."""

    def __init__(self, command: Sequence[str | Path], count: int) -> None:
        self._command = command
        self._count = count
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def taken_ns(self) -> list[int]:
        """Waits until it holds all locks; when it took each."""
        return [int(self._line().split()[1]) for _ in range(self._count)]

    def renewals(self) -> int:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the peer ended"
        return line


def locking(name: str, engine: Engine, table: str, count: int, lease_s: float) -> list[str]:
    program = [sys.executable, "-m", "tests.bench.lockers"]
    return [*program, name, engine.endpoint_url, table, str(count), str(lease_s)]


def make_table(engine: Engine, holder: str, table: str) -> None:
    client: Any = boto3.client("dynamodb", region_name=REGION, endpoint_url=engine.endpoint_url)
    keys = KEYS[holder]
    client.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        BillingMode="PAY_PER_REQUEST",
    )


def main(name: str, endpoint_url: str, table: str, count: str, lease_s: str) -> None:
    renewals = 0

    def taken(number: int) -> None:
        print(f"{number} {boottime_ns()}\n", end="", flush=True)  # one write: lines of threads do not mix

    def renewed(**_: object) -> None:
        nonlocal renewals
        renewals += 1

    HOLDERS[name](endpoint_url, table, int(count), float(lease_s), taken, renewed)
    for _ in sys.stdin:
        print(renewals, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
