"""Leases in an SQLite file, for the supervisors of one host.

What holds:
- a write is one transaction that begins as a write (`BEGIN IMMEDIATE`): one that began as a read would fail at once
  when it met another writer, whatever the busy timeout; when it is answered, it is on the disk;
- the batch of `renew` is one transaction, but each renewal is decided on its own;
- another process that holds the lock longer than `timeout_s` makes a write unknown and a read unavailable;
- only `initialize` creates anything. A file that was replaced under us is noticed and opened anew.

It does not promise anything on network file systems, whose locks are not to be trusted.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from supervisor.records import Lease, Member, Snapshot, lease_from, snapshot_from
from supervisor.stores import sqlfile
from supervisor.stores.interface import Denied, Locked, Unavailable, Unfit
from supervisor.stores.location import SqliteLocation
from supervisor.stores.outcomes import applied_with, refused_by
from supervisor.stores.sql import item_of, select, sql_of
from supervisor.stores.statements import COLUMNS, FOR_DECISIONS, check_batch, statement_of
from supervisor.writes import Applied, Claim, Create, DeleteMember, Outcome, PutMember, Refused, Renew, Unknown, Write

_INITIALIZE_TIMEOUT_S = 5.0
_BATCH = 100
_READ_ROW = select(COLUMNS, key=True)
_FAILURES = (sqlite3.Error, OSError, Unavailable, Unfit)


class SqliteStore:
    """One connection, opened at first use and used by one thread at a time."""

    def __init__(self, location: SqliteLocation) -> None:
        self.url = location.url
        self.lanes = 1
        self.batch = _BATCH
        self._path = location.path
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)  # device and inode of the file that the connection has open

    def initialize(self) -> str:
        try:
            done = sqlfile.create(self._path, time.monotonic() + _INITIALIZE_TIMEOUT_S)
            with self._connected(_INITIALIZE_TIMEOUT_S):
                return f"{self._path} {done}"
        except (sqlite3.Error, OSError) as error:
            raise _unavailable(error) from None

    def inspect(self, timeout_s: float) -> None:
        try:
            with self._connected(timeout_s):
                pass
        except (sqlite3.Error, OSError) as error:
            raise _unavailable(error) from None

    def prove(self, member: Member, timeout_s: float) -> None:
        put = self.apply(PutMember(member), timeout_s)
        refused = self.apply(DeleteMember(member.id, member.beat, f"not {member.nonce}"), timeout_s)
        for outcome in (put, refused):
            if isinstance(outcome, Unknown):
                raise Unavailable(outcome.cause)
        if not isinstance(refused, Refused):
            raise Unfit(f"{self._path} applied a write whose condition is false, expected an SQLite that refuses it")

    def apply(self, write: Write, timeout_s: float) -> Outcome:
        return self._write((write,), timeout_s)[0]

    def renew(self, writes: Sequence[Renew], timeout_s: float) -> list[Outcome]:
        check_batch(writes, self.batch)
        return self._write(writes, timeout_s)

    def read(self, shard: str, timeout_s: float) -> Lease | None:
        try:
            with self._connected(timeout_s) as connection:
                item = _item(connection, shard)
        except _FAILURES as error:
            raise _unavailable(error) from None
        return None if item is None else lease_from(item)

    def snapshot(self, timeout_s: float, full: bool = False) -> Snapshot:
        names = COLUMNS if full else FOR_DECISIONS
        try:
            with self._connected(timeout_s) as connection:
                rows = connection.execute(select(names, key=False)).fetchall()
        except _FAILURES as error:
            raise _unavailable(error) from None
        return snapshot_from([item_of(names, row) for row in rows])

    def close(self) -> None:
        with self._turn:
            self._drop()

    def _write(self, writes: Sequence[Write], timeout_s: float) -> list[Outcome]:
        committing = False
        try:
            with self._connected(timeout_s) as connection:
                connection.execute("BEGIN IMMEDIATE")
                outcomes = [_decide(connection, write) for write in writes]
                committing = True
                connection.execute("COMMIT")
        except _FAILURES as error:
            # Until the commit began nothing can have been applied, and a commit that found the file busy did nothing.
            unsent = not committing or sqlfile.primary_code(error) == sqlite3.SQLITE_BUSY
            denied = isinstance(error, Denied) or sqlfile.primary_code(error) == sqlite3.SQLITE_READONLY
            cause = error.fact if isinstance(error, Unfit) else _cause(error)
            return [Unknown(cause, unsent, denied) for _ in writes]
        return outcomes

    @contextmanager
    def _connected(self, timeout_s: float) -> Iterator[sqlite3.Connection]:
        """Our turn on a connection to the file that is there now; a transaction left open is rolled back."""
        deadline = time.monotonic() + timeout_s
        if not self._turn.acquire(timeout=max(timeout_s, 0)):
            raise Unavailable("another call of this supervisor still waits for the file")
        try:
            with sqlfile.explained(self._path):
                yield self._connect(deadline)
        finally:
            try:
                self._settle()
            finally:
                self._turn.release()

    def _connect(self, deadline: float) -> sqlite3.Connection:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._drop()
            remedy = "`tenured init` creates it, and so does `tenured run` at its start"
            raise Unfit(f"{self._path} does not exist", remedy) from None
        if self._connection is None or self._file != (status.st_dev, status.st_ino):
            self._drop()
            self._connection = sqlfile.connect(self._path, deadline)
            self._file = (status.st_dev, status.st_ino)
        sqlfile.set_busy_timeout(self._connection, deadline)
        return self._connection

    def _settle(self) -> None:
        if self._connection is None or not self._connection.in_transaction:
            return
        try:
            self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()  # closing rolls back

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _item(connection: sqlite3.Connection, shard: str) -> dict[str, Any] | None:
    row = connection.execute(_READ_ROW, (shard,)).fetchone()
    return None if row is None else item_of(COLUMNS, row)


def _decide(connection: sqlite3.Connection, write: Write) -> Outcome:
    """Runs inside a transaction, so the row read after the statement is the row that it met or left."""
    try:
        changed = connection.execute(*sql_of(statement_of(write))).rowcount == 1
    except (UnicodeError, OverflowError) as error:  # a value that SQLite cannot hold: this write alone
        return Unknown(_cause(error), unsent=True)
    if isinstance(write, PutMember | DeleteMember):
        return Applied() if changed else Refused(None)
    if not changed:
        return refused_by(_item(connection, write.shard))
    if isinstance(write, Create | Claim):
        item = _item(connection, write.shard)
        return Unknown("the row vanished within its own transaction") if item is None else applied_with(item)
    return Applied()


def _unavailable(error: Exception) -> Unavailable:
    if isinstance(error, Unavailable):
        return error
    kind = {sqlite3.SQLITE_BUSY: Locked, sqlite3.SQLITE_READONLY: Denied}.get(sqlfile.primary_code(error), Unavailable)
    return kind(_cause(error))


def _cause(error: BaseException) -> str:
    if sqlfile.primary_code(error) == sqlite3.SQLITE_BUSY:
        return "the file stayed locked by another process"
    if sqlfile.primary_code(error) == sqlite3.SQLITE_ERROR:  # our statements are right for a file of ours
        return f"{error}, {sqlfile.MADE_BY} of this version"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, UnicodeError | OverflowError):
        return f"a value cannot be stored ({type(error).__name__})"
    return str(error)
