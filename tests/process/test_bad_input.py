"""What `tenured run` and the commands of the store say to what cannot work: one sentence on stderr, the right exit
code, no traceback, and nothing changed in the store."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from supervisor import exits
from supervisor.demo.feed_process import FeedProcess
from tests.engines import Engine
from tests.process.hand import DynamoHand, Row, SqliteHand
from tests.process.host import COMMAND, Host, tenured, wait_streaming
from tests.wait import until

NOBODY = 65534
STREAM = "[stream:s]\nurl = ws://127.0.0.1:9/\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tenured.ini"


def configured(file: Path, store: str = "sqlite:///leases.db", more: str = "", stream: str = STREAM) -> Path:
    file.write_text(f"[supervisor]\nstore = {store}\nstate_dir = ./state\nrun_dir = ./run\n{more}\n{stream}")
    return file


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One sentence, the code, and what the sentence must name."""
    sentences = [line for line in done.stderr.splitlines() if not line.startswith(("{", "tenured: warning: "))]
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert len(sentences) == 1, done.stderr
    assert sentences[0].startswith("tenured: ")
    assert "Traceback" not in done.stderr
    assert [word for word in words if word not in sentences[0]] == [], sentences[0]


# --- the file ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "init", "status"])
def test_a_file_that_is_not_there_is_named(file: Path, command: str) -> None:
    refused(tenured(command, "-c", str(file)), exits.CONFIG, str(file), "no such file", "tenured example")


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    refused(tenured("run", "-c", str(tmp_path)), exits.CONFIG, str(tmp_path), "is a directory")


def test_a_file_that_this_user_may_not_read_is_not_permitted() -> None:
    # Not below pytest's folder, which is closed to others as a whole.
    with contextlib.ExitStack() as stack:
        file = Path(f"/tmp/unreadable-{os.getpid()}.ini")
        stack.callback(file.unlink, missing_ok=True)
        configured(file).chmod(0o000)
        done = as_nobody("run", "-c", str(file))
    refused(done, exits.NOT_PERMITTED, str(file), "permission denied")


def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As a user without rights; root reads whatever its mode says."""
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*drop, *COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False, cwd="/"
    )


@pytest.mark.parametrize(
    ("more", "stream", "words"),
    [
        ("lease_duraton = 3s", STREAM, ("tenured.ini:5", "lease_duraton", "lease_duration")),
        ("lease_duration = 3 parsecs", STREAM, ("tenured.ini:5", "lease_duration", "10s")),
        ("lease_duration = 3s\nrenew_interval = 2s", STREAM, ("renew_interval 2s", "lease_duration 3s", "works")),
        ("", "[stream:s]\nurl = http://x/\n", ("tenured.ini:7", "url", "ws://")),
        ("", STREAM + "[steam:t]\nurl = ws://x/\n", ("tenured.ini:8", "steam:t", "stream:t")),
    ],
    ids=["unknown key", "impossible duration", "impossible relation", "impossible url", "unknown section"],
)
def test_a_mistake_in_the_file_is_named_with_its_line_and_what_would_be_right(
    file: Path, more: str, stream: str, words: tuple[str, ...]
) -> None:
    configured(file, more=more, stream=stream)
    refused(tenured("run", "-c", str(file)), exits.CONFIG, *words)
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("store", ["leases.db", "sqlight:///leases.db", "dynamodb://t", "sqlite://leases.db"])
def test_a_store_that_is_no_url_is_refused_with_an_example(file: Path, store: str) -> None:
    configured(file, store)
    refused(tenured("run", "-c", str(file)), exits.CONFIG, "store")
    refused(tenured("status", "--store", store), exits.USAGE, "store")
    assert os.listdir(file.parent) == [file.name]


# --- the store --------------------------------------------------------------------------------------------


def test_a_table_that_is_missing_is_named_together_with_the_command_that_makes_it(
    file: Path, ministack: Engine, table: str
) -> None:
    configured(file, ministack.url(table))
    refused(tenured("run", "-c", str(file)), exits.STORE, table, "does not exist", "tenured init")
    refused(tenured("status", "-c", str(file)), exits.STORE, table, "does not exist", "tenured init")


def test_a_table_of_another_schema_is_refused_and_left_alone(file: Path, ministack: Engine, table: str) -> None:
    client = boto3.client("dynamodb", region_name="us-east-1", endpoint_url=ministack.endpoint_url)
    client.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.put_item(TableName=table, Item={"id": {"S": "theirs"}})
    configured(file, ministack.url(table))
    for command in ("run", "init"):
        refused(tenured(command, "-c", str(file)), exits.STORE, table, "has the key id", "expected lease")
    assert client.scan(TableName=table)["Items"] == [{"id": {"S": "theirs"}}]


def test_a_file_that_is_no_database_of_ours_is_refused_and_left_alone(file: Path) -> None:
    path = file.parent / "leases.db"
    configured(file)
    path.write_text("a letter to my aunt, which is longer than the header of a database\n" * 20)
    before = path.read_bytes()
    for command in ("run", "init", "status"):
        refused(tenured(command, "-c", str(file)), exits.STORE, str(path), "is no SQLite file")
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(file: Path) -> None:
    path = file.parent / "leases.db"
    configured(file)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE leases (lease TEXT, price INTEGER)")
        connection.commit()
    before = path.read_bytes()
    for command in ("run", "init", "status"):
        refused(tenured(command, "-c", str(file)), exits.STORE, str(path), "belongs to another program")
    assert path.read_bytes() == before


def test_the_store_commands_say_that_it_cannot_be_reached(file: Path, ministack: Engine, table: str) -> None:
    store = f"dynamodb://{table}?region=us-east-1&endpoint_url=http://127.0.0.1:9"
    configured(file, store)
    refused(tenured("init", "-c", str(file)), exits.STORE, store, "cannot connect to the endpoint")
    refused(tenured("status", "--store", store), exits.STORE, store, "cannot connect to the endpoint")


def test_run_stays_up_while_its_store_cannot_be_reached(tmp_path: Path) -> None:
    store = "dynamodb://leases?region=us-east-1&endpoint_url=http://127.0.0.1:9"
    with Host(tmp_path / "a", store, "ws://127.0.0.1:9/") as host:
        lines = until(lambda: host.log("store.unreachable"), 15, 0.05)
        assert "cannot connect to the endpoint" in lines[0]["reason"]
        assert tenured("health", "-c", str(host.config)).returncode == exits.OK
        unready = tenured("health", "--ready", "-c", str(host.config))
        refused(unready, exits.NO, "is not ready", "the store cannot be reached")
        assert host.stop() == exits.OK


# --- another fleet ----------------------------------------------------------------------------------------


def member(beat: int, fleet: str = "others", **more: object) -> Row:
    return {
        "lease": "@there:1:cafe",
        "fleet": fleet,
        "state": "active",
        "beat": beat,
        "nonce": f"n{beat}",
        "duration_ms": 2000,
        "capacity": 8,
        **more,
    }


@pytest.fixture(params=["sqlite", "ministack"])
def made(request: pytest.FixtureRequest, tmp_path: Path, table: str) -> Iterator[tuple[str, SqliteHand | DynamoHand]]:
    """A store as `tenured init` makes it, and a hand in it."""
    if request.param == "sqlite":
        path = tmp_path / "leases.db"
        store, hand = f"sqlite:///{path}", SqliteHand(path)
        assert tenured("init", "--store", store).returncode == exits.OK
        yield store, hand
    else:
        engine: Engine = request.getfixturevalue("ministack")
        assert tenured("init", "--store", engine.url(table)).returncode == exits.OK
        yield engine.url(table), DynamoHand(engine, table)


def test_another_fleet_that_lives_in_the_store_is_named_before_anything_is_written(
    tmp_path: Path, made: tuple[str, SqliteHand | DynamoHand]
) -> None:
    store, hand = made
    shards = {"shards": "[]"} if isinstance(hand, SqliteHand) else {"shards": []}
    beats = iter(range(1, 1000))
    hand.put(member(0, **shards))
    host = Host(tmp_path / "a", store, "ws://127.0.0.1:9/", shards=2)

    def over() -> bool:
        hand.put(member(next(beats), **shards))
        return host.process is not None and host.process.poll() is not None

    with host:
        until(over, 20, 0.2)
        assert host.wait() == exits.STORE
    sentences = [line for line in (host.folder / "log").read_text().splitlines() if line.startswith("tenured: ")]
    assert len(sentences) == 1
    assert "the store belongs to another fleet: supervisor there:1:cafe of fleet 'others' lives in it" in sentences[0]
    assert set(hand.rows()) == {"@there:1:cafe"}, "something was written"


def test_dead_members_of_another_fleet_only_cost_the_time_to_see_that_they_are_dead(
    tmp_path: Path, made: tuple[str, SqliteHand | DynamoHand]
) -> None:
    store, hand = made
    hand.put(member(7, shards="[]" if isinstance(hand, SqliteHand) else []))
    with FeedProcess(tmp_path / "feed.jsonl") as feed, Host(tmp_path / "a", store, feed.url("a"), shards=2) as host:
        began = time.monotonic()
        waiting = until(lambda: host.log("lease.conflict"), 15, 0.05)
        assert "waiting to see whether they live" in waiting[0]["reason"]
        wait_streaming(feed, host.shards)
        assert time.monotonic() - began > 1.5
        assert hand.rows()["@there:1:cafe"]["beat"] == 7
        assert host.stop() == exits.OK


# --- its folders ------------------------------------------------------------------------------------------


def test_a_second_supervisor_on_the_same_folders_is_turned_away_and_the_first_goes_on(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    with FeedProcess(tmp_path / "feed.jsonl") as feed, Host(tmp_path / "a", store, feed.url("a"), shards=2) as first:
        wait_streaming(feed, first.shards)
        before = {each.shard: each.number for each in feed.connected()}
        same = tenured("run", "-c", str(first.config))
        refused(same, exits.OCCUPIED, str(first.folder / "state"), "is in use", f"process {first.pid} ")

        other = configured(tmp_path / "other.ini", store)
        other.write_text(other.read_text().replace("./run", str(first.folder / "run")))
        busy = tenured("run", "-c", str(other))
        refused(busy, exits.OCCUPIED, "another supervisor uses run_dir", str(first.folder / "run"))
        assert {each.shard: each.number for each in feed.connected()} == before
        assert tenured("health", "-c", str(first.config)).returncode == exits.OK
        assert first.stop() == exits.OK


@pytest.mark.parametrize("folder", ["state", "run"])
def test_a_file_in_place_of_a_folder_is_named(file: Path, folder: str) -> None:
    configured(file)
    (file.parent / folder).write_text("")
    refused(tenured("run", "-c", str(file)), exits.CONFIG, f"{folder}_dir: {file.parent / folder} is no folder")
