"""What a store is: a few calls, three outcomes, two errors.

Every call blocks and may be made from any thread. A call tries exactly once: no retry hides inside, so that
one attempt is one write and the caller's policy decides about the next. `timeout_s` bounds the attempt as far
as the provider allows; the caller keeps a deadline of its own and ignores answers that come after it.
A provider's exceptions never leave its module: writes turn them into `Unknown`, reads into `Unavailable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from supervisor.records import Lease, Member, Snapshot
from supervisor.writes import Outcome, Renew, Write


class Unavailable(Exception):
    """A read failed or was incomplete. The text is one short phrase without secrets."""


class Denied(Unavailable):
    """The store, or this host, does not permit us this."""


class Locked(Unavailable):
    """The store is there, and somebody else has all of it for now."""


class Unfit(Exception):
    """The store is missing, has another schema, or does not enforce conditions: exit 69. One sentence that says
    what is wrong, where, and what would be right. `fact` leaves out the remedy: it is told once for each lease."""

    def __init__(self, fact: str, remedy: str = "") -> None:
        super().__init__(f"{fact}; {remedy}" if remedy else fact)
        self.fact = fact


class Store(Protocol):
    """One table or file. `lanes` is how many calls it can serve side by side (SQLite: 1)."""

    url: str
    lanes: int

    def initialize(self) -> str:
        """Create the table or file unless it is there; a sentence that says what was done. Raises `Unfit`, and
        `Unavailable` of each kind."""

    def inspect(self, timeout_s: float) -> None:
        """Look whether the store is there and has our schema; writes nothing. Raises `Unfit`, `Unavailable`."""

    def prove(self, member: Member, timeout_s: float) -> None:
        """Put `member` and prove on that row that a write which must be refused is refused,
        and which way of renewing in batches may be used. Raises `Unfit`, or `Unavailable` when the store
        cannot be reached (then it may be called again)."""

    def apply(self, write: Write, timeout_s: float) -> Outcome:
        """One conditional write, once."""

    def renew(self, writes: Sequence[Renew], timeout_s: float) -> list[Outcome]:
        """At most `batch` renewals of different shards in one call; as many outcomes as writes, in order."""

    batch: int

    def read(self, shard: str, timeout_s: float) -> Lease | None:
        """One lease row, consistently, with its history; None: no such row. Raises `Unavailable`; `BadRow`."""

    def snapshot(self, timeout_s: float, full: bool = False) -> Snapshot:
        """All rows, consistently and completely, or `Unavailable`. `full` also reads what only people need."""

    def close(self) -> None:
        """Let go of connections and files."""
