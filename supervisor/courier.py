"""Carries writes and reads to the store, and brings back what became of them as events.

Renewals have a lane of their own, so that they never queue behind a snapshot or a claim; a store that serves one
call at a time gets one lane, in which they come first. Every call ends in an event by its deadline. The one thing
decided here is what an exception of a store means: `Unknown`, or a failed read; an unfit store ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from supervisor.core.model import (
    Answered,
    Event,
    ProofFailed,
    Proved,
    ReadFailed,
    RowRead,
    SnapshotFailed,
    Snapshotted,
)
from supervisor.lanes import Lane, Late, Raised
from supervisor.records import MEMBER_PREFIX, Lease, Member, Snapshot
from supervisor.stores.interface import Store, Unavailable, Unfit
from supervisor.writes import DeleteMember, Outcome, PutMember, Refused, Renew, Unknown, Write
from workers.process.kernel import boottime_ns

OTHER_CALLS_FACTOR = 2.0
"""A snapshot has several pages and a probe several writes, so that they get longer than one attempt."""

# Keys of a lane for calls that are not about one row; no row has an empty name or a blank.
BATCH = "a batch"
SNAPSHOT = "a snapshot"
LOOK = "a look"

Deliver = Callable[[Event, int], None]
"""Called on the loop with an event and the instant at which its answer was complete."""


class Courier:
    def __init__(
        self,
        store: Store,
        attempt_s: float,
        loop: asyncio.AbstractEventLoop,
        deliver: Deliver,
        unfit: Callable[[str], None],
    ) -> None:
        self.attempt_s = attempt_s  # may change
        self._store = store
        self._loop = loop
        self._renewals_sent = 0
        self._renewing: dict[int, int] = {}  # when each renewal call under way was sent
        self._deliver = deliver
        self._unfit = unfit
        self._renewals = Lane("renewals", store.lanes, loop)
        self._others = self._renewals if store.lanes == 1 else Lane("others", store.lanes, loop)

    @property
    def stuck(self) -> int:
        """Calls that are past their deadline and still hold a thread."""
        return self._renewals.stuck + (self._others.stuck if self._others is not self._renewals else 0)

    @property
    def oldest_renewal_ns(self) -> int | None:
        """When the oldest renewal was sent that has had no outcome yet. Each gets one at its deadline, be it `Unknown`:
        one that is older says that the loop, or the lane, stands still."""
        return min(self._renewing.values(), default=None)

    def renew(self, writes: Sequence[Renew], timeout_s: float) -> None:
        size = self._store.batch
        for start in range(0, len(writes), size):
            self._renew_call(writes[start : start + size], timeout_s)

    def _renew_call(self, writes: Sequence[Renew], timeout_s: float) -> None:
        number = self._renewals_sent = self._renewals_sent + 1

        def done(result: Any, at_ns: int) -> None:
            self._renewing.pop(number, None)
            whole = isinstance(result, list) and len(result) == len(writes)
            outcomes: list[Outcome] = result if whole else [unknown(result)] * len(writes)
            # A refusal ends a child: it does not wait for the steps that only say that all is well.
            for write, outcome in sorted(zip(writes, outcomes, strict=True), key=_urgent):
                self._deliver(Answered(write, outcome), at_ns)

        self._renewing[number] = boottime_ns()
        key = writes[0].shard if len(writes) == 1 else BATCH
        self._renewals.submit(key, lambda: self._store.renew(writes, timeout_s), timeout_s, done, urgent=True)

    def apply(self, write: Write) -> None:
        def done(result: Any, at_ns: int) -> None:
            outcome: Outcome = unknown(result) if isinstance(result, Late | Raised) else result
            self._deliver(Answered(write, outcome), at_ns)

        timeout_s = self.attempt_s
        self._others.submit(_row_of(write), lambda: self._store.apply(write, timeout_s), timeout_s, done)

    def read(self, shard: str, asked_ns: int) -> None:
        def done(result: Lease | Late | Raised | None, at_ns: int) -> None:
            if isinstance(result, Late | Raised):
                self._deliver(ReadFailed(shard, unknown(result).cause), at_ns)
            else:
                self._deliver(RowRead(shard, result, asked_ns), at_ns)

        timeout_s = self.attempt_s
        self._others.submit(shard, lambda: self._store.read(shard, timeout_s), timeout_s, done)

    def snapshot(self, asked_ns: int, first: bool) -> None:
        """`first`: also look whether the store is one of ours, before anything is written to it."""
        timeout_s = self.attempt_s * OTHER_CALLS_FACTOR

        def work() -> Snapshot:
            if first:
                self._store.inspect(timeout_s)
            return self._store.snapshot(timeout_s)

        def done(result: Snapshot | Late | Raised, at_ns: int) -> None:
            if isinstance(result, Snapshot):
                self._deliver(Snapshotted(result, asked_ns), at_ns)
            elif not self._ends(result):
                self._deliver(SnapshotFailed(unknown(result).cause), at_ns)

        self._others.submit(SNAPSHOT, work, timeout_s, done)

    def look(self, timeout_s: float) -> asyncio.Future[Snapshot]:
        """Every row with all that people want to know; on the loop. The future may fail with `Unavailable`."""
        found: asyncio.Future[Snapshot] = self._loop.create_future()

        def done(result: Snapshot | Late | Raised, _at_ns: int) -> None:
            if found.done():
                return
            if isinstance(result, Snapshot):
                found.set_result(result)
            else:
                found.set_exception(Unavailable(unknown(result).cause))

        self._others.submit(LOOK, lambda: self._store.snapshot(timeout_s, full=True), timeout_s, done)
        return found

    def prove(self, member: Member) -> None:
        timeout_s = self.attempt_s * OTHER_CALLS_FACTOR

        def done(result: Late | Raised | None, at_ns: int) -> None:
            if result is None:
                self._deliver(Proved(member), at_ns)
            elif not self._ends(result):
                self._deliver(ProofFailed(unknown(result).cause), at_ns)

        self._others.submit(member.key, lambda: self._store.prove(member, timeout_s), timeout_s, done)

    def close(self) -> None:
        self._renewals.close()
        self._others.close()

    def _ends(self, result: Late | Raised) -> bool:
        if isinstance(result, Raised) and isinstance(result.error, Unfit):
            self._unfit(str(result.error))
            return True
        return False


def _urgent(answer: tuple[Renew, Outcome]) -> bool:
    """Sorts refusals to the front."""
    return not isinstance(answer[1], Refused)


def _row_of(write: Write) -> str:
    match write:
        case PutMember(member):
            return member.key
        case DeleteMember(member_id):
            return MEMBER_PREFIX + member_id
        case _:
            return write.shard


def unknown(result: object) -> Unknown:
    """What a call means that brought no outcome. The text of a foreign exception may hold anything, so that only
    our own errors are quoted."""
    if isinstance(result, Late):
        return Unknown("not sent in time", unsent=True) if result.unsent else Unknown("no answer in time")
    if isinstance(result, Raised):
        own = type(result.error).__module__.startswith("supervisor.")
        return Unknown(str(result.error) if own else type(result.error).__name__)
    return Unknown("an answer that is none")
