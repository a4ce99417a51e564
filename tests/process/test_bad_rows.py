"""Rows that somebody else wrote, and that make no sense: all other shards go on, and whoever looks is told.

One feed serves all tests; each has a store and hosts of its own.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor.demo.feed_process import FeedProcess
from supervisor.names import SHARDS_MAX
from tests.process.hand import SqliteHand
from tests.process.host import Host, streaming, tenured, wait_streaming
from tests.wait import until

pytestmark = pytest.mark.alone

LEASE_S = 2.0
POLL_S = 1.0
TAKEOVER_S = LEASE_S + 2 * POLL_S + 1  # the last second is the machine's
ROW = {"epoch": 1, "beat": 1, "nonce": "n", "duration_ms": 2000}


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path_factory.mktemp("feed") / "feed.jsonl") as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


def host(feed: FeedProcess, path: Path, name: str, shards: int = 2, http: str = "off") -> Host:
    """Its shards stream under the name that the store's folder gives them, apart from those of other tests."""
    url, lines = feed.url(f"{path.parent.name}-{name}"), [f"http = {http}"]
    lease = f"{LEASE_S:g}s"
    return Host(path.parent / name, f"sqlite:///{path}", url, shards=shards, lease_duration=lease, supervisor=lines)


def name_of(made: Host) -> str:
    return f"{made.folder.parent.name}-{made.folder.name}"


def change(path: Path, statement: str, *parameters: Any) -> None:
    connection = sqlite3.connect(path, timeout=10)
    with connection:
        connection.execute(statement, parameters)
    connection.close()


def rejected(made: Host) -> dict[str, str]:
    """The rows that this host refused, with the reason; said once each."""
    lines = made.log("row.rejected")
    assert len({line["shard"] for line in lines}) == len(lines), f"said again: {lines}"
    return {line["shard"]: line["reason"] for line in lines}


def status(path: Path) -> dict[str, Any]:
    """What a program is told; a person is told, too, and no traceback."""
    people = tenured("status", "--store", f"sqlite:///{path}")
    assert "Traceback" not in people.stderr
    assert people.returncode in (0, 1), people.stderr
    found: dict[str, Any] = json.loads(tenured("status", "--json", "--store", f"sqlite:///{path}").stdout)
    return found


def test_a_row_that_is_no_text_stops_no_failover(feed: FeedProcess, path: Path) -> None:
    with host(feed, path, "a", shards=4) as first:
        wait_streaming(feed, first.shards, name_of(first))
        with host(feed, path, "b", shards=4) as second:
            until(lambda: second.log("supervisor.ready"), 10)
            change(
                path,
                "INSERT INTO leases (lease, owner, epoch, beat, nonce, duration_ms) "
                "VALUES (CAST(x'7aff' AS TEXT), CAST(x'ff' AS TEXT), 1, 1, 'n', 2000)",
            )
            key = r"b'z\xff'"
            until(lambda: key in rejected(second), TAKEOVER_S)
            first.kill()
            wait_streaming(feed, second.shards, name_of(second), timeout_s=TAKEOVER_S)
            assert not second.log("store.unreachable")
            assert list(status(path)["bad"]) == [key]
            assert second.stop() == 0


def test_a_flaw_in_what_only_people_read_and_a_checkpoint_that_is_none_leave_no_shard_unowned(
    feed: FeedProcess, path: Path
) -> None:
    made = host(feed, path, "a", shards=4)
    with made:
        wait_streaming(feed, made.shards, name_of(made))
        assert made.stop() == 0
        change(path, "UPDATE leases SET history = '[1]' WHERE lease = 's/0'")
        change(path, "UPDATE leases SET checkpoint = x'ff00' WHERE lease = 's/1'")
        change(path, "UPDATE leases SET checkpoint = ? WHERE lease = 's/2'", "x" * 3000)
        change(path, "UPDATE leases SET quiet_ms = -1, open = 'no number' WHERE lease = 's/3'")
        assert set(status(path)["flaws"]) == set(made.shards)
        made.start()
        wait_streaming(feed, made.shards, name_of(made), timeout_s=10)
        assert status(path)["bad"] == {}
        assert made.stop() == 0


def test_absurd_numbers_cost_their_own_shards_only_and_only_until_the_rows_are_deleted(
    feed: FeedProcess, path: Path
) -> None:
    absurd = {"s/0": ("epoch", 2**63 - 1), "s/1": ("beat", 2**63 - 1), "s/2": ("duration_ms", 2**62)}
    member = {"lease": "@x:1:y", "fleet": "default", "state": "active", "capacity": 9, "shards": '["s/0-3"]'}
    with host(feed, path, "a", shards=4) as made:
        wait_streaming(feed, made.shards, name_of(made))
        before = SqliteHand(path).rows()
        kept = [each.number for each in feed.connected("s/3")]
        SqliteHand(path).put({**ROW, **member, "duration_ms": 2**62})
        for shard, (column, number) in absurd.items():
            change(path, f"UPDATE leases SET [{column}] = ?, owner = 'x:1:y' WHERE lease = ?", number, shard)
        until(lambda: set(rejected(made)) == {*absurd, "@x:1:y"}, TAKEOVER_S)
        until(lambda: not any(streaming(feed, [shard], name_of(made)) for shard in absurd), TAKEOVER_S)
        ready = tenured("health", "--ready", "-c", str(made.config))
        assert ready.returncode == 1
        assert "the rows of 3 shards do not parse, that of s/0 among them" in ready.stdout + ready.stderr
        told = status(path)["bad"]
        assert all(told[shard].startswith(f"{column} is {number}") for shard, (column, number) in absurd.items())
        for shard in absurd:
            SqliteHand(path).delete(shard)
        wait_streaming(feed, made.shards, name_of(made), timeout_s=2 * TAKEOVER_S)
        after = SqliteHand(path).rows()
        assert all(after[shard]["epoch"] > before[shard]["epoch"] for shard in absurd)
        assert [each.number for each in feed.connected("s/3")] == kept
        assert made.stop() == 0


def test_a_shard_with_an_endless_number_in_its_name_hinders_nobody(feed: FeedProcess, path: Path) -> None:
    endless = "s/" + "9" * 5000
    with host(feed, path, "a") as made:
        wait_streaming(feed, made.shards, name_of(made))
        SqliteHand(path).put({**ROW, "lease": endless})
        assert [shard["shard"] for shard in status(path)["shards"]] == [*made.shards, endless]
        assert streaming(feed, made.shards, name_of(made))
        assert made.stop() == 0


def test_a_file_that_vanished_is_named_without_advice_and_can_be_made_again(feed: FeedProcess, path: Path) -> None:
    with host(feed, path, "a") as made:
        wait_streaming(feed, made.shards, name_of(made))
        SqliteHand(path).drop()
        reason = f"{path} does not exist"
        for event in ("store.unreachable", "lease.fenced"):
            until(lambda event=event: [line for line in made.log(event) if reason in line["reason"]], TAKEOVER_S)
        assert not [line for line in made.log("lease.fenced") if "tenured init" in line["reason"]]
        assert tenured("init", "-c", str(made.config)).returncode == 0
        until(lambda: all(SqliteHand(path).rows().get(shard, {}).get("owner") for shard in made.shards), 2 * TAKEOVER_S)
        wait_streaming(feed, made.shards, name_of(made), timeout_s=TAKEOVER_S)
        assert made.stop() == 0


def test_rows_that_name_endless_shards_cost_no_renewal_and_no_memory_also_with_viewers(
    feed: FeedProcess, path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with host(feed, path, "a", shards=4, http=address) as made:
        wait_streaming(feed, made.shards, name_of(made))
        kept = [each.number for each in feed.connected("s/3")]
        rss_bytes = psutil.Process(made.pid).memory_info().rss
        own = next(row for key, row in SqliteHand(path).rows().items() if key.startswith("@"))
        endless = {f"@evil:{number}:{number:08x}": f"x{number}/0-99999" for number in range(10)}
        many = {f"@many:{number}:{number:08x}": f"y{number}/0-{SHARDS_MAX - 1}" for number in range(50)}
        for key, shards in (endless | many).items():
            SqliteHand(path).put({**own, "lease": key, "shards": json.dumps([shards]), "renewed_at": 2**61})
        until(lambda: set(rejected(made)) == set(endless), TAKEOVER_S)
        looks: dict[int, dict[str, Any]] = {}

        def looked() -> int:
            with urllib.request.urlopen(f"http://{address}/api/leases", timeout=10) as answer:
                look = json.loads(answer.read())
            looks[look["at"]] = look
            return len(looks)

        until(lambda: looked() >= 4, 30, 0.2)
        found = looks[max(looks)]
        assert len(found["shards"]) == len(made.shards) + SHARDS_MAX
        assert set(endless) <= set(found["bad"]) <= set(endless) | set(many)
        assert len(found["bad"]) == len(endless) + len(many) - 1
        assert psutil.Process(made.pid).memory_info().rss < rss_bytes + 100 * 2**20
        assert [made.log(event) for event in ("lease.fenced", "lease.lost")] == [[], []]
        assert [each.number for each in feed.connected("s/3")] == kept
        assert made.stop() == 0
