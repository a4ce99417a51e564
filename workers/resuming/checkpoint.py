"""The checkpoint of a shard as its connections use it: which token an attempt carries, which one is committed.

What holds:

- an attempt carries the newest token whose events were handed over in this process, else the one that the child was
  given: a plain reconnect repeats nothing. The next child gets the newest one whose events are safe (see `delivery`);
- a token that the row cannot hold is not committed, and told once for each reason: the shard streams on;
- one that the far end refuses too often is dropped, as `doubt` says, told and counted;
- so is, at once, one that cannot stand in a header into which the file inserts it: no attempt could carry it, and what
  no attempt can carry must not keep the shard from streaming, here or at its next owner.

`for_attempt` is called in the thread of an attempt, all else on the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from workers.board import CHECKPOINT_MAX_BYTES, TOKENS_DROPPED, Slot
from workers.log import Log
from workers.resuming import doubt
from workers.resuming.doubt import Doubt
from workers.sinks.outflow import Outflow
from workers.spec import Task


class Checkpoint:
    __slots__ = (
        "_carries",
        "_doubts",
        "_given",
        "_log",
        "_outflow",
        "_retries",
        "_told",
        "_uncarried",
        "_uncarried_told",
        "_words",
    )

    def __init__(
        self, task: Task, slot: Slot, outflow: Outflow, log: Log, carries: Callable[[str], bool] = lambda token: True
    ) -> None:
        """`carries`: whether an attempt can."""
        self._given = task.checkpoint or ""
        self._retries = task.scope.spec.checkpoint_retries
        self._words = slot.words
        self._outflow = outflow
        self._log = log
        self._doubts: dict[int, Doubt] = {}
        self._told: set[str] = set()
        self._carries = carries
        self._uncarried = self._uncarried_told = ""  # the last token that an attempt had to go without

    def for_attempt(self, connection: int) -> str:
        """Empty: from wherever the far end begins."""
        newest = self._outflow.token or self._given
        token = doubt.token(self._doubts[connection], newest) if connection in self._doubts else newest
        if not self._carries(token):
            self._uncarried = token
            return ""
        return token

    def tell(self) -> None:
        """What attempts found out, once for each token."""
        if self._uncarried != self._uncarried_told:
            self._uncarried_told = self._uncarried
            self._words[TOKENS_DROPPED] += 1
            reason = "it holds a control character, which the header that ${checkpoint} stands in cannot carry"
            self._log("checkpoint.dropped", "ERROR", reason=f"{reason}: attempts go without it")

    def fitting(self, token: str | None) -> str | None:
        """The token, if a row can hold it."""
        if token is None:
            return None
        try:
            size = len(token.encode())
        except UnicodeEncodeError:
            self._unfit("surrogate", "has half a surrogate pair, which no UTF-8 can say")
            return None
        if size > CHECKPOINT_MAX_BYTES:
            self._unfit("size", f"has {size} bytes, at most {CHECKPOINT_MAX_BYTES} are possible")
            return None
        return token

    def _unfit(self, kind: str, why: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            reason = f"a token that `checkpoint` points to {why}: it and others like it are not committed"
            self._log("checkpoint.dropped", "ERROR", reason=reason)

    def refused(self, connection: int, used: str, reason: str) -> None:
        """The far end refused, by its own word, an attempt that carried that token."""
        before = self._doubts.get(connection, Doubt())
        after = self._doubts[connection] = doubt.refused(before, used, self._retries)
        if after.dropped and after.dropped != before.dropped:
            self._words[TOKENS_DROPPED] += 1
            reason = f"the far end refused it {self._retries} times in a row, the last time so: {reason}"
            self._log("checkpoint.dropped", "ERROR", connection=connection, reason=reason)

    def passed(self, connection: int) -> None:
        """A message came, or an attempt failed in a way that says nothing about its token."""
        if connection in self._doubts:
            self._doubts[connection] = doubt.passed(self._doubts[connection])
