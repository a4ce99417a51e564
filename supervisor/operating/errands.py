"""Carries an operator's order about some shards to the store, and waits for its effect.

What holds: `operate` decides; here is only the writing, the looking and the waiting. A command that is killed at any
step leaves a conditional write that was applied or not, which supervisors heed or take back without it. While it waits
it reads the rows in question a few times a second, or everything where they are many or where it is in doubt who lives;
before it gives anything up, or writes, it looks at the whole fleet. A failed look is tried again until the time is
over. From then on no call begins, but for a last look at what was written since the last one; and the calls take no
longer than `CALL_MIN_S` each beyond it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from supervisor.clock import unix_ms
from supervisor.operating.candidates import brief
from supervisor.operating.operate import decide
from supervisor.operating.orders import DONE, Look, Order, Send, Step, Task, Told, Wait
from supervisor.operating.sight import Sight, seen_all, seen_some
from supervisor.operating.words import asked, late
from supervisor.records import BadRow, Lease, Snapshot
from supervisor.stores.interface import Denied, Store, Unavailable
from supervisor.writes import Applied, Refused, Unknown

FEW = 5  # shards that are read one by one; a snapshot costs as much as all rows
FEW_EVERY_S = 0.2
MANY_EVERY_S = 0.5
CALL_MIN_S = 2.0  # so that what begins shortly before the end is no failure for that alone


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a shard, as one line."""

    shard: str
    done: bool
    line: str


def sight_of(snapshot: Snapshot, before: Sight | None = None) -> Sight:
    return seen_all(snapshot, unix_ms(), time.monotonic(), before)


class Errands:
    """`first` is what was seen when the command began. `wait`: for the effect, not only for the write. Raises
    `Unavailable` where the store did not answer in the end, `Denied` at once."""

    def __init__(
        self, store: Store, order: Order, first: Sight, shards: Sequence[str], wait: bool, call_timeout_s: float
    ) -> None:
        self._store = store
        self._order = order
        self._sight = first
        self._whole = True
        self._wait = wait
        self._call_timeout_s = call_timeout_s
        self._tasks = {shard: Task(shard, os.urandom(8).hex(), first.rows.get(shard)) for shard in shards}
        self._began_s = time.monotonic()
        self._until_s = self._began_s
        self._looks = 0
        self._unseen: set[str] = set()  # written since the last look at them
        self._failure = ""  # of the last look, if it failed

    def run(self, timeout_s: float) -> Iterator[Report]:
        """A report on each shard, as soon as there is one."""
        self._until_s = self._began_s + timeout_s
        while self._tasks and self._left_s() > 0:
            for task in list(self._tasks.values()):
                if self._left_s() > 0 and (report := self._go_on(task)):
                    del self._tasks[task.shard]
                    yield report
            if self._tasks and self._left_s() > 0:
                time.sleep(min(self._left_s(), MANY_EVERY_S if self._needs_all() else FEW_EVERY_S))
                self._look()
        yield from self._unfinished(f" within {timeout_s:g} s")

    def _left_s(self) -> float:
        return self._until_s - time.monotonic()

    # --- one shard ----------------------------------------------------------------------------------------

    def _go_on(self, task: Task) -> Report | None:
        """The next step about a shard; a report if it was the last."""
        match self._decided(task):
            case Send() as send:
                self._tasks[task.shard] = self._write(task, send)
            case Wait() if not self._wait:
                return Report(task.shard, True, f"{brief(task.shard)} {asked(self._order, task, self._sight)}")
            case Wait():
                self._tasks[task.shard] = replace(task, sure=True, cause="")
            case Told() as told:
                return self._report(task, told)
        return None

    def _decided(self, task: Task) -> Step | None:
        """None: that cannot be told now."""
        step = decide(self._order, task, self._sight)
        if self._whole or isinstance(step, Wait | Look) or (isinstance(step, Told) and step.done):
            return step
        if self._failure or not self._look_at_all():
            return None
        return decide(self._order, task, self._sight)

    def _write(self, task: Task, send: Send) -> Task:
        row = self._sight.rows[task.shard]
        outcome = self._store.apply(send.write, self._call_s())
        self._unseen.add(task.shard)
        match outcome:
            case Applied():
                return replace(task, seen=row, sure=True, writes=task.writes + 1, cause="")
            case Refused():
                return replace(task, writes=task.writes + 1, cause="")
            case Unknown(cause):
                if outcome.denied:
                    raise Denied(cause)
                if outcome.unsent:
                    return replace(task, cause=cause)
                return replace(task, seen=row, sure=False, cause=cause)

    def _report(self, task: Task, told: Told, when: str = "") -> Report:
        if not told.done:
            return Report(task.shard, False, f"{brief(task.shard)} was not {DONE[self._order.verb]}{when}: {told.text}")
        after = f", after {time.monotonic() - self._began_s:.1f} s" if self._looks else ""
        return Report(task.shard, True, f"{brief(task.shard)} {told.text}{after}{told.then and f'; {told.then}'}")

    def _unfinished(self, when: str) -> Iterator[Report]:
        """The time is over. What the last look shows is told; of a write that nobody knows the fate of, only that."""
        if self._unseen:
            self._look_at_all()
        unclear = self._failure
        for task in [] if unclear else self._tasks.values():
            step = decide(self._order, task, self._sight)
            if isinstance(step, Told) and (step.done or self._whole):
                yield self._report(task, step)
            elif task.cause and not isinstance(step, Wait):
                unclear = unclear or task.cause
            else:
                row = self._sight.rows.get(task.shard)
                why = step.text if isinstance(step, Look) else late(self._order, row, self._sight)
                yield self._report(task, Told(False, why), when)
        if unclear:
            raise Unavailable(unclear)

    # --- looking ------------------------------------------------------------------------------------------

    def _needs_all(self) -> bool:
        return len(self._tasks) > FEW or self._sight.in_doubt

    def _look(self) -> None:
        self._looks += 1
        if self._needs_all():
            self._look_at_all()
            return
        found: dict[str, Lease | str | None] = {}
        try:
            for shard in self._tasks:
                if self._left_s() <= 0:
                    break
                try:
                    found[shard] = self._store.read(shard, self._call_s())
                except BadRow as error:
                    found[shard] = str(error)
        except Unavailable as failure:
            self._fail(failure)
            return
        self._unseen -= found.keys()
        self._sight = seen_some(found, unix_ms(), time.monotonic(), self._sight)
        self._whole, self._failure = False, ""

    def _look_at_all(self) -> bool:
        """False: it failed, and what was seen before still stands."""
        try:
            snapshot = self._store.snapshot(self._call_s(), full=True)
        except Unavailable as failure:
            self._fail(failure)
            return False
        self._unseen.clear()
        self._sight, self._whole, self._failure = sight_of(snapshot, self._sight), True, ""
        return True

    def _call_s(self) -> float:
        """Not all the time that is left, which has to suffice for a look at what became of a write."""
        return min(self._call_timeout_s, max(CALL_MIN_S, self._left_s() / 2))

    def _fail(self, failure: Unavailable) -> None:
        if isinstance(failure, Denied):
            raise failure
        self._failure, self._whole = str(failure), False
