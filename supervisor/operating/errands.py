"""Carries an operator's order about some shards to the store, and waits for its effect.

What holds: `operate` decides; here is only the writing, the looking and the waiting. A command that is killed at any
step leaves a conditional write that was applied or not, which supervisors heed or take back without it. While it waits
it reads the rows in question, or everything where they are many, a few times a second; before it gives anything up, or
writes, it looks at the whole fleet. A failed look is tried again until the time is over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from supervisor.clock import unix_ms
from supervisor.operating.candidates import candidates_in
from supervisor.operating.operate import asked, decide, late
from supervisor.operating.orders import DONE, Order, Send, Sight, Step, Task, Told, Wait
from supervisor.records import BadRow, Snapshot
from supervisor.stores.interface import Denied, Store, Unavailable
from supervisor.writes import Applied, Refused, Unknown

FEW = 5  # shards that are read one by one; a snapshot costs as much as all rows
FEW_EVERY_S = 0.2
MANY_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a shard, as one line."""

    shard: str
    done: bool
    line: str


def sight_of(snapshot: Snapshot) -> Sight:
    now_ms = unix_ms()
    return Sight(snapshot.leases, candidates_in(snapshot, now_ms), snapshot.bad, now_ms)


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
        self._looks = 0
        self._failure = ""  # of the last call, if it failed

    def run(self, timeout_s: float) -> Iterator[Report]:
        """A report on each shard, as soon as there is one."""
        while True:
            for task in list(self._tasks.values()):
                if report := self._go_on(task):
                    del self._tasks[task.shard]
                    yield report
            if not self._tasks:
                return
            if time.monotonic() >= self._began_s + timeout_s:
                break
            time.sleep(FEW_EVERY_S if len(self._tasks) <= FEW else MANY_EVERY_S)
            self._look()
        if unclear := self._failure or next((task.cause for task in self._tasks.values() if task.cause), ""):
            raise Unavailable(unclear)
        for task in self._tasks.values():
            why = late(self._order, self._sight.rows.get(task.shard), self._sight.now_ms)
            yield self._not_done(task, why, f" within {timeout_s:g} s")

    # --- one shard ----------------------------------------------------------------------------------------

    def _go_on(self, task: Task) -> Report | None:
        """The next step about a shard; a report if it was the last."""
        match self._decided(task):
            case Send() as send:
                self._tasks[task.shard] = self._write(task, send)
                return None
            case Wait() if not self._wait:
                return Report(task.shard, True, f"{task.shard} {asked(self._order, task, self._sight)}")
            case Told(done=True, text=text, then=then):
                after = f", after {time.monotonic() - self._began_s:.1f} s" if self._looks else ""
                return Report(task.shard, True, f"{task.shard} {text}{after}{then and f'; {then}'}")
            case Told(text=text):
                return self._not_done(task, text)
        return None

    def _decided(self, task: Task) -> Step:
        step = decide(self._order, task, self._sight)
        if self._whole or isinstance(step, Wait) or (isinstance(step, Told) and step.done):
            return step
        if self._failure or not self._look_at_all():
            return Wait()
        return decide(self._order, task, self._sight)

    def _write(self, task: Task, send: Send) -> Task:
        outcome = self._store.apply(send.write, self._call_timeout_s)
        match outcome:
            case Applied():
                return replace(task, seen=self._sight.rows[task.shard], writes=task.writes + 1, cause="")
            case Refused():
                return replace(task, writes=task.writes + 1, cause="")
            case Unknown(cause):
                if outcome.denied:
                    raise Denied(cause)
                return replace(task, cause=cause)

    def _not_done(self, task: Task, why: str, when: str = "") -> Report:
        return Report(task.shard, False, f"{task.shard} was not {DONE[self._order.verb]}{when}: {why}")

    # --- looking ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._looks += 1
        if len(self._tasks) > FEW:
            self._look_at_all()
            return
        rows, bad = dict(self._sight.rows), dict(self._sight.bad)
        try:
            for shard in self._tasks:
                rows.pop(shard, None)
                bad.pop(shard, None)
                try:
                    if row := self._store.read(shard, self._call_timeout_s):
                        rows[shard] = row
                except BadRow as error:
                    bad[shard] = str(error)
        except Unavailable as failure:
            self._fail(failure)
            return
        self._sight = Sight(rows, self._sight.candidates, bad, unix_ms())
        self._whole, self._failure = False, ""

    def _look_at_all(self) -> bool:
        """False: it failed, and what was seen before still stands."""
        try:
            snapshot = self._store.snapshot(self._call_timeout_s, full=True)
        except Unavailable as failure:
            self._fail(failure)
            return False
        self._sight, self._whole, self._failure = sight_of(snapshot), True, ""
        return True

    def _fail(self, failure: Unavailable) -> None:
        if isinstance(failure, Denied):
            raise failure
        self._failure, self._whole = str(failure), False
