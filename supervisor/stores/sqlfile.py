"""An SQLite file as a place for leases: how it is made, opened and recognised.

What holds: only `create` makes anything, and gives a file of an older version the columns that this one needs, which an
older supervisor that still has it open does not notice; a connection that `connect` returns has been checked to be one
of ours, and what it commits is on the disk (`synchronous=FULL`). All supervisors of a host use a rollback journal
whatever SQLite they link: write-ahead logs could corrupt a file before 3.51.3, and a mix of modes is no mode.
Errors: `Unfit` for a file that will not do, `Denied` where the rights of this user do not suffice, `sqlite3.Error` and
`OSError` for one that cannot be reached now.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from supervisor.stores.interface import Denied, Unfit
from supervisor.stores.sql import APPLICATION_ID, CREATE_TABLE, add_column
from supervisor.stores.statements import COLUMNS, LATER_COLUMNS

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_REFUSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_MARK = f"PRAGMA application_id = {APPLICATION_ID}"
MADE_BY = "expected a file made by `tenured init`"


def create(path: Path, deadline: float) -> str:
    """Make the file and its table, or the columns of later versions, unless they are there; what was done, as a verb.
    The file is for its owner only, because checkpoints may be sensitive."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.is_symlink():  # somebody else's, perhaps, to have us write into the file that it names
            raise Unfit(f"{path} is a symbolic link, expected the file itself") from None
    except OSError as error:
        kind = Denied if error.errno in _DENIED else Unfit
        sentence = f"{path} cannot be created: {(error.strerror or 'it failed').lower()}"
        raise kind(f"{sentence}; its folder must exist and be writable") from None
    with explained(path), closing(_open(path, deadline)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        done = _make_table(connection)
        connection.execute("COMMIT")
        return done


def _make_table(connection: sqlite3.Connection) -> str:
    """Within a transaction that writes, so that nobody else does the same meanwhile."""
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        connection.execute(CREATE_TABLE)
        connection.execute(_MARK)
        return "was created"
    missing = _missing(connection)
    if not _is_ours(connection) or not LATER_COLUMNS.issuperset(missing):
        return "exists already"  # and is unfit, as whoever opens it is told
    for name in missing:
        connection.execute(add_column(name))
    connection.execute(_MARK)  # changes nothing, and shows here and now whether this user may write
    return f"got what it missed of this version: {', '.join(missing)}" if missing else "exists already"


def _is_ours(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def _missing(connection: sqlite3.Connection) -> list[str]:
    present = {row[1] for row in connection.execute("PRAGMA table_info(leases)")}
    return [name for name in COLUMNS if name not in present]


def connect(path: Path, deadline: float) -> sqlite3.Connection:
    connection = _open(path, deadline)
    try:
        _check(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _open(path: Path, deadline: float) -> sqlite3.Connection:
    """`mode=rw` never creates a file. `isolation_level=None`: transactions begin and end only where we say so."""
    uri = f"file:{quote(str(path))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.text_factory = _text_or_bytes
    set_busy_timeout(connection, deadline)
    return connection


def _text_or_bytes(data: bytes) -> str | bytes:
    """Never raises: SQLite keeps whatever it is given as text, and one such row must not cost us the others."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def set_busy_timeout(connection: sqlite3.Connection, deadline: float) -> None:
    """Wait for other processes' locks until `deadline` (monotonic seconds)."""
    left_ms = max(1, round((deadline - time.monotonic()) * 1000))
    connection.execute(f"PRAGMA busy_timeout = {left_ms}")


def _check(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    if path.stat().st_size == 0:
        raise Unfit(f"{path} is empty, {MADE_BY}")
    if not _is_ours(connection):
        raise Unfit(f"{path} belongs to another program, {MADE_BY}")
    if missing := _missing(connection):
        what = "which `tenured init` adds" if missing[0] in LATER_COLUMNS else MADE_BY
        raise Unfit(f"{path} has no column {missing[0]!r} in its table leases, {what}")
    mode = connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()[0]
    if mode != "truncate":
        raise Unfit(f"{path} is open elsewhere in journal mode {mode}, expected truncate")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Of what SQLite and the system say too little about, the reason is looked for."""
    try:
        yield
    except PermissionError:
        raise Denied(f"this user may not look for {path}") from None
    except sqlite3.Error as error:
        code = primary_code(error)
        if code == sqlite3.SQLITE_NOTADB:
            raise Unfit(f"{path} is no SQLite file, {MADE_BY}") from None
        if code in _REFUSED and path.is_dir():
            raise Unfit(f"{path} is a folder, {MADE_BY}") from None
        if code in _REFUSED and (missing := _missing_right(path)):
            raise Denied(missing) from None
        raise


def _missing_right(path: Path) -> str:
    """A file that may be written in a folder that may not has no place for its journal."""
    for place, right, verb in ((path, os.R_OK, "read"), (path, os.W_OK, "write"), (path.parent, os.W_OK, "write to")):
        if not os.access(place, right, effective_ids=True):
            return f"this user may not {verb} {place}"
    return ""


def primary_code(error: BaseException) -> int:
    """SQLite's primary error code, 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
