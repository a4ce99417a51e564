"""The store of a campaign: where the supervisors reach it, how it fails them, and how the campaign itself looks at it.

On ministack each supervisor has a proxy of its own, so that a fault can hit one alone; the campaign looks past them. On
SQLite a fault is a lock that another process (this one) holds on the file, and it hits everybody.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError

from tests import engines, faults
from tests.faults import Fault, Pick
from tests.process.campaign.schedule import LOCKS, NETWORK, Planned
from tests.process.hand import DynamoHand, Hand, Row, SqliteHand
from tests.process.host import tenured
from tests.proxy import FaultProxy

TABLE = "campaign"
PATIENCE_S = 0.25
RENEWAL = ("UpdateItem", "BatchExecuteStatement")


class Busy(Exception):
    """The store was not to be had within `PATIENCE_S`."""


class Ground(Protocol):
    """`urls`: the store as each supervisor reaches it."""

    hand: Hand
    urls: list[str]

    def look(self) -> dict[str, Row]:
        """All rows, past every fault but that of a writer that holds the file. Raises `Busy`."""

    def strike(self, planned: Planned) -> Callable[[], None] | None:
        """Begin a fault of the store, and how to end it. None: it cannot be struck now."""

    def hits_all(self, kind: str) -> bool:
        """Whether such a fault of the store hits the whole fleet."""


# --- SQLite -----------------------------------------------------------------------------------------------


class SqliteGround:
    def __init__(self, path: Path, supervisors: int) -> None:
        self.hand: Hand = SqliteHand(path, PATIENCE_S)
        self.urls = [f"sqlite:///{path}"] * supervisors
        self._path = path
        self._locks: set[str] = set()

    def look(self) -> dict[str, Row]:
        """As a writer, since a stopped writer lets readers in."""
        try:
            connection = self._connect()
            try:
                connection.row_factory = sqlite3.Row
                connection.execute("BEGIN IMMEDIATE")
                rows = [dict(row) for row in connection.execute("SELECT * FROM leases")]
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            raise Busy(str(error)) from error
        return {row["lease"]: row for row in rows}

    def strike(self, planned: Planned) -> Callable[[], None] | None:
        if planned.kind not in LOCKS or self._locks:
            return None
        connection = self._connect()
        try:
            self._lock(connection, planned.kind)
        except sqlite3.OperationalError:
            connection.close()
            return None
        self._locks.add(planned.kind)

        def end() -> None:
            connection.close()
            self._locks.clear()

        return end

    def hits_all(self, kind: str) -> bool:
        return kind in LOCKS

    def _connect(self) -> sqlite3.Connection:
        uri = f"file:{self._path}?mode=rw"
        return sqlite3.connect(uri, uri=True, timeout=PATIENCE_S, isolation_level=None)

    @staticmethod
    def _lock(connection: sqlite3.Connection, kind: str) -> None:
        if kind == "lock-by-reader":  # lets writers begin and does not let them commit
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM leases").fetchone()
        else:
            connection.execute("BEGIN EXCLUSIVE" if kind == "lock-all" else "BEGIN IMMEDIATE")


@contextmanager
def sqlite(folder: Path, supervisors: int) -> Iterator[Ground]:
    ground = SqliteGround(folder / "leases.db", supervisors)
    _initialize(ground.urls[0])
    yield ground


# --- DynamoDB ---------------------------------------------------------------------------------------------


class NetworkGround:
    def __init__(self, engine: engines.Engine, proxies: list[FaultProxy]) -> None:
        self.hand: Hand = DynamoHand(engine, TABLE)
        self.urls = [proxy.url(TABLE) for proxy in proxies]
        self._proxies = proxies
        self._on: set[tuple[str, int]] = set()

    def look(self) -> dict[str, Row]:
        try:
            return self.hand.rows()
        except (BotoCoreError, ClientError) as error:
            raise Busy(str(error)) from error

    def strike(self, planned: Planned) -> Callable[[], None] | None:
        mark = (planned.kind, planned.supervisor)
        if planned.kind not in NETWORK or mark in self._on:
            return None
        self._on.add(mark)
        undo = self._refuse(planned) if planned.kind == "refuse" else self._misbehave(planned)

        def end() -> None:
            self._on.discard(mark)
            undo()

        return end

    def hits_all(self, kind: str) -> bool:
        return False

    def _refuse(self, planned: Planned) -> Callable[[], None]:
        proxy = self._proxies[planned.supervisor]
        proxy.stop_listening()
        return proxy.listen

    def _misbehave(self, planned: Planned) -> Callable[[], None]:
        proxy, fault = self._proxies[planned.supervisor], fault_of(planned)
        proxy.faults = (*proxy.faults, fault)

        def end() -> None:
            proxy.faults = tuple(each for each in proxy.faults if each is not fault)
            if planned.kind == "trickle" and ("refuse", planned.supervisor) not in self._on:
                proxy.stop_listening()  # cuts what would trickle on for minutes
                proxy.listen()

        return end


def fault_of(planned: Planned) -> Fault:
    """What the proxy does: to all requests, to the writes alone, or to every other one."""
    dice, chance = random.Random(planned.number), planned.chance
    half = Pick(when=lambda body: dice.random() < 0.5)
    pick = Pick() if chance < 0.5 else half if chance < 0.75 else Pick(RENEWAL[planned.number % 2])
    delay_s = 0.1 + 1.9 * (chance * 97 % 1)
    made: dict[str, Callable[[], Fault]] = {
        "hang": lambda: faults.Hang(pick),
        "eat-answers": lambda: faults.EatAnswers(pick),
        "swallow-answers": lambda: faults.EatAnswers(pick, close=False),
        "close": lambda: faults.Close(pick),
        "delay-answers": lambda: faults.DelayAnswers(delay_s, pick),
        "delay-requests": lambda: faults.DelayRequests(delay_s, pick),
        "duplicate": lambda: faults.Duplicate(pick),
        "server-error": lambda: faults.Reply(faults.server_error(), pick, forwarded=planned.number % 2 == 0),
        "throttle": lambda: faults.Reply(faults.throttled(), pick),
        "deny": lambda: faults.Reply(faults.access_denied("UpdateItem"), pick),
        "nonsense": lambda: faults.Reply(faults.html(), pick, forwarded=planned.number % 2 == 0),
        "empty-answers": lambda: faults.Reply(faults.Answer(200, b"{}"), pick, forwarded=planned.number % 2 == 0),
        "cut-answers": lambda: faults.CutBody(pick),
        "trickle": lambda: faults.TrickleBody(0.05, pick),
    }
    return made[planned.kind]()


@contextmanager
def ministack(supervisors: int) -> Iterator[Ground]:
    with engines.ministack() as engine, ExitStack() as stack:
        _initialize(engine.url(TABLE))
        proxies = [stack.enter_context(FaultProxy(engine.port, keep=False)) for _ in range(supervisors)]
        yield NetworkGround(engine, proxies)


def _initialize(url: str) -> None:
    made = tenured("init", "--store", url)
    if made.returncode:
        raise RuntimeError(f"the store of the campaign cannot be made: {made.stderr.strip()}")


@contextmanager
def ground_of(store: str, folder: Path, supervisors: int) -> Iterator[Ground]:
    """`store`: sqlite or ministack."""
    with sqlite(folder, supervisors) if store == "sqlite" else ministack(supervisors) as ground:
        yield ground
