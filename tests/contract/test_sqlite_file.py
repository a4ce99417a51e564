"""What an SQLite store makes of its file, of foreign files, and of other processes that have it open."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from supervisor.records import Lease
from supervisor.stores import sqlfile
from supervisor.stores.interface import Locked, Store, Unavailable, Unfit
from supervisor.stores.location import open_store
from supervisor.stores.sql import APPLICATION_ID
from supervisor.stores.statements import COLUMNS, FOR_DECISIONS, KEY, LATER_COLUMNS, LEASE_COLUMNS
from supervisor.writes import Applied, Unknown
from tests.contract.rows import OTHER, TIMEOUT_S, claim, create, member, release, renew

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@contextmanager
def writer(task: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.contract.writer", task, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


# --- the file ---------------------------------------------------------------------------------------------


def test_the_file_is_for_its_owner_only(store: Store, path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    store.apply(create("trades/0"), TIMEOUT_S)
    assert {entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()} == {0o600}


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").touch()
    (tmp_path / "leases.db").symlink_to(tmp_path / "victim")
    with pytest.raises(Unfit, match=r"leases\.db is a symbolic link, expected the file itself"):
        sqlfile.create(tmp_path / "leases.db", time.monotonic() + 5)
    assert (tmp_path / "victim").stat().st_size == 0


def test_what_was_answered_is_on_the_disk_in_a_rollback_journal(store: Store, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal"
    inner = store._connection  # type: ignore[attr-defined]
    assert inner.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert inner.execute("PRAGMA journal_mode").fetchone()[0] == "truncate"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[supervisor]\nfleet = default\n" * 40, "is no SQLite file"),
        (b"short", "is no SQLite file"),
        (b"", "is empty"),
    ],
)
def test_a_file_that_is_no_database_is_unfit_and_left_alone(
    content: bytes, sentence: str, url: str, path: Path
) -> None:
    path.write_bytes(content)
    store = open_store(url, path, TIMEOUT_S)
    with pytest.raises(Unfit, match=f"leases.db {sentence}, expected a file made by `tenured init`"):
        store.inspect(TIMEOUT_S)
    if content:
        with pytest.raises(Unfit, match=sentence):
            store.initialize()
    with pytest.raises(Unavailable):
        store.snapshot(TIMEOUT_S)
    assert isinstance(store.apply(create("trades/0"), TIMEOUT_S), Unknown)
    assert path.read_bytes() == content
    store.close()


def test_a_database_of_another_program_is_unfit_and_left_alone(url: str, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE leases (id INTEGER)")
    connection.close()
    before = path.read_bytes()
    store = open_store(url, path, TIMEOUT_S)
    for attempt in (store.initialize, lambda: store.inspect(TIMEOUT_S)):
        with pytest.raises(Unfit, match="belongs to another program"):
            attempt()
    assert path.read_bytes() == before
    store.close()


def test_a_database_of_ours_without_a_column_is_unfit(url: str, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE leases (lease TEXT PRIMARY KEY, owner TEXT)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.close()
    store = open_store(url, path, TIMEOUT_S)
    with pytest.raises(Unfit, match="has no column 'epoch'"):
        store.inspect(TIMEOUT_S)
    store.close()


def test_a_file_of_an_older_version_gets_the_columns_of_this_one_and_keeps_its_rows(
    store: Store, owned: Lease, url: str, path: Path
) -> None:
    with sqlite3.connect(path) as connection:
        for column in LATER_COLUMNS:
            connection.execute(f"ALTER TABLE leases DROP COLUMN {column}")
    connection.close()
    with closing(open_store(url, path, TIMEOUT_S)) as later:
        with pytest.raises(Unfit, match="has no column 'forced' in its table leases, which `tenured init` adds"):
            later.inspect(TIMEOUT_S)
        assert later.initialize() == f"{path} got what it missed of this version: forced, trouble, poll_ms, rejected"
        assert later.read(owned.shard, TIMEOUT_S) == owned
        assert later.initialize() == f"{path} exists already"
    # Who had it open goes on.
    assert store.apply(renew(owned), TIMEOUT_S) == Applied()


def test_a_file_that_lacks_what_every_version_has_is_not_mended(url: str, path: Path, store: Store) -> None:
    """Without owners each row would look free."""
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE leases DROP COLUMN owner")
    connection.close()
    before = path.read_bytes()
    with closing(open_store(url, path, TIMEOUT_S)) as later, pytest.raises(Unfit, match="has no column 'owner'"):
        later.initialize()
    assert path.read_bytes() == before


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    store = open_store("sqlite:///nowhere/leases.db", tmp_path, TIMEOUT_S)
    with pytest.raises(Unfit, match="cannot be created: no such file or directory; its folder must exist"):
        store.initialize()
    assert list(tmp_path.iterdir()) == []


def test_eight_supervisors_that_start_at_once_make_one_file(url: str, path: Path) -> None:
    stores = [open_store(url, path, TIMEOUT_S) for _ in range(8)]
    said: list[str] = []
    threads = [threading.Thread(target=lambda store=store: said.append(store.initialize())) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(text.rpartition(" ")[2] for text in said) == ["already"] * 7 + ["created"]
    for store in stores:
        store.prove(member(), TIMEOUT_S)
        store.close()


def test_a_file_that_was_replaced_under_us_is_opened_anew(store: Store, owned: Lease, url: str, path: Path) -> None:
    path.rename(path.with_suffix(".old"))
    outcome = store.apply(renew(owned), TIMEOUT_S)
    assert isinstance(outcome, Unknown)
    assert outcome.cause == f"{path} does not exist"  # which is told once for each lease, and so without advice
    with pytest.raises(Unavailable, match="does not exist; `tenured init` creates it"):
        store.snapshot(TIMEOUT_S)
    other = open_store(url, path, TIMEOUT_S)
    other.initialize()
    assert store.read(owned.shard, TIMEOUT_S) is None
    other.close()


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        ("DROP TABLE leases", "no such table: leases"),
        ("ALTER TABLE leases DROP COLUMN nonce", "no such column: nonce"),
    ],
)
def test_a_table_that_was_damaged_under_us_answers_nothing_and_says_what_makes_a_right_one(
    store: Store, owned: Lease, path: Path, damage: str, cause: str
) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    expected = f"{cause}, expected a file made by `tenured init` of this version"
    assert store.apply(renew(owned), TIMEOUT_S) == Unknown(expected, unsent=True)
    for look in (store.snapshot, lambda timeout_s: store.read(owned.shard, timeout_s)):
        with pytest.raises(Unavailable) as caught:
            look(TIMEOUT_S)
        assert str(caught.value) == expected


@pytest.mark.parametrize("column", COLUMNS)
def test_text_that_is_no_text_spoils_at_most_its_own_row(store: Store, owned: Lease, path: Path, column: str) -> None:
    row = {"lease": "s/1", "owner": OTHER, "epoch": 1, "beat": 1, "nonce": "n", "duration_ms": 1000}
    key = row[KEY] if column != KEY else r"b's/\xff'"
    with sqlite3.connect(path) as connection:
        names = ", ".join(f"[{name}]" for name in row)
        connection.execute(f"INSERT INTO leases ({names}) VALUES (?, ?, ?, ?, ?, ?)", tuple(row.values()))
        connection.execute(f"UPDATE leases SET [{column}] = CAST(x'732fff' AS TEXT) WHERE lease = 's/1'")
    connection.close()
    spared = column == "move" or column not in FOR_DECISIONS
    for full in (False, True):
        snapshot = store.snapshot(TIMEOUT_S, full)
        assert snapshot.leases[owned.shard].triple == owned.triple
        assert list(snapshot.bad) == ([key] if column in LEASE_COLUMNS and not spared else [])
        assert all(r"b's/\xff'" in reason for reason in snapshot.bad.values())
    assert store.apply(renew(owned), TIMEOUT_S) == Applied()
    if spared and column in LEASE_COLUMNS:
        mended = store.read("s/1", TIMEOUT_S)
        assert mended is not None
        assert [flaw.split(" ")[0] for flaw in mended.flaws] == [column]


def test_a_file_that_may_only_be_read_denies_every_write(store: Store, owned: Lease) -> None:
    inner = store._connection  # type: ignore[attr-defined]
    inner.execute("PRAGMA query_only = ON")
    outcome = store.apply(renew(owned), TIMEOUT_S)
    assert isinstance(outcome, Unknown)
    assert (outcome.unsent, outcome.denied) == (True, True)
    assert store.read(owned.shard, TIMEOUT_S) == owned


def test_a_disk_that_is_full_makes_a_write_unknown(store: Store, owned: Lease) -> None:
    inner = store._connection  # type: ignore[attr-defined]
    pages = inner.execute("PRAGMA page_count").fetchone()[0]
    inner.execute(f"PRAGMA max_page_count = {pages}")
    outcomes = [store.apply(create(f"{number}/{'x' * 2000}"), TIMEOUT_S) for number in range(10)]
    assert isinstance(outcomes[-1], Unknown)
    assert "full" in outcomes[-1].cause
    inner.execute("PRAGMA max_page_count = 1000000")
    assert store.apply(renew(owned), TIMEOUT_S) == Applied()


def test_a_value_that_cannot_be_stored_spoils_no_other_renewal(store: Store, free: Lease, owned: Lease) -> None:
    store.apply(create("trades/1"), TIMEOUT_S)
    other = store.read("trades/1", TIMEOUT_S)
    assert other is not None
    store.apply(claim(other), TIMEOUT_S)
    second = store.read("trades/1", TIMEOUT_S)
    assert second is not None
    bad, good = store.renew([renew(owned, checkpoint="\ud800"), renew(second)], TIMEOUT_S)
    assert isinstance(bad, Unknown)
    assert bad.unsent
    assert good == Applied()


# --- other processes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [True, False])
def test_a_writer_that_holds_the_lock_makes_writes_unknown_in_time_and_no_read_wrong(
    stop: bool, store: Store, owned: Lease, path: Path
) -> None:
    with writer("hold", path) as process:
        if stop:
            process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        outcome = store.apply(renew(owned), 0.3)
        outcomes = store.renew([renew(owned)], 0.3)
        assert time.monotonic() - began < 2
        assert outcome == Unknown("the file stayed locked by another process", unsent=True)
        assert outcomes == [outcome]
        assert store.read(owned.shard, 0.3) == owned
    assert store.apply(renew(owned), TIMEOUT_S) == Applied()
    row = store.read(owned.shard, TIMEOUT_S)
    assert row is not None
    assert (row.beat, row.checkpoint) == (1, None)


def test_a_reader_that_holds_the_file_makes_a_write_unknown_and_certainly_not_applied(
    store: Store, owned: Lease, path: Path
) -> None:
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM leases").fetchall()
    outcome = store.apply(renew(owned), 0.2)
    assert outcome == Unknown("the file stayed locked by another process", unsent=True)
    reader.execute("COMMIT")
    reader.close()
    assert store.read(owned.shard, TIMEOUT_S) == owned
    assert store.apply(release(owned), TIMEOUT_S) == Applied()


def test_a_call_that_waits_does_not_hold_up_the_next_beyond_its_own_timeout(
    store: Store, owned: Lease, path: Path
) -> None:
    with writer("hold", path):
        slow = threading.Thread(target=lambda: store.apply(renew(owned), 2.0))
        slow.start()
        began = time.monotonic()
        outcome = store.apply(renew(owned), 0.1)
        assert time.monotonic() - began < 1
        assert isinstance(outcome, Unknown)
        assert outcome.unsent
        slow.join()


def test_kill_9_of_a_writer_loses_nothing_that_was_applied(store: Store, owned: Lease, path: Path) -> None:
    for _ in range(5):
        with writer("renew", path) as process:
            time_of_death = threading.Timer(0.05, lambda pid=process.pid: os.kill(pid, signal.SIGKILL))
            time_of_death.start()
            assert process.stdout is not None
            said = process.stdout.read().split()
        row = store.read(owned.shard, TIMEOUT_S)
        assert row is not None
        assert row.beat in (int(said[-1]), int(said[-1]) + 1) if said else row.beat >= 1
        assert row.checkpoint == f"{row.beat}"
        assert not store.snapshot(TIMEOUT_S).bad


def test_names_with_special_characters_are_one_path(tmp_path: Path) -> None:
    store = open_store("sqlite:///a b#c%20d.db", tmp_path, TIMEOUT_S)
    store.initialize()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a b#c%20d.db"]
    store.inspect(TIMEOUT_S)
    store.close()


def test_a_file_that_others_keep_locked_is_told_from_one_that_cannot_be_had(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.stores.sqlite._INITIALIZE_TIMEOUT_S", 0.1)
    store = open_store(url, path, TIMEOUT_S)
    store.initialize()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Locked, match="the file stayed locked by another process"):
            store.initialize()
    assert store.initialize().endswith("exists already")
    store.close()
