"""Looking at the rows all the time, past every fault: who owned which shard since when.

A thread of its own, so that a file that is locked holds up nobody. A look that failed while the campaign had no lock on
the file is told as well: a supervisor that was stopped within a transaction locks everybody out until it goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from tests.process.campaign.store import Busy
from tests.process.campaign.story import Owning, Strike
from tests.process.hand import Row
from workers.process.kernel import boottime_ns

EVERY_S = 0.2


class RowWatch:
    """`with RowWatch(ground.look, shards) as rows:` looks until the block is left."""

    def __init__(self, look: Callable[[], dict[str, Row]], shards: tuple[str, ...]) -> None:
        self._look = look
        self._shards = shards
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._known: dict[str, str] = {}
        self.ownings: list[Owning] = []
        self.busy: list[Strike] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        last_ns, busy_ns = boottime_ns(), None
        while not self._over.wait(EVERY_S):
            asked_ns = boottime_ns()
            try:
                rows = self._look()
            except Busy:
                busy_ns = busy_ns or asked_ns
                continue
            if busy_ns is not None:
                self.busy.append(Strike("stuck-store", busy_ns, boottime_ns()))
                busy_ns = None
            self._note(rows, last_ns)
            last_ns = asked_ns

    def _note(self, rows: dict[str, Row], since_ns: int) -> None:
        for shard in self._shards:
            owning = owning_of(shard, rows.get(shard), since_ns)
            if self._known.get(shard) != owning.text:
                self._known[shard] = owning.text
                self.ownings.append(owning)


def owning_of(shard: str, row: dict[str, Any] | None, since_ns: int) -> Owning:
    if row is None:
        return Owning(shard, since_ns, None, None, "no row")
    owner, epoch = row.get("owner"), row.get("epoch")
    pid = str(owner).split(":")[-2] if str(owner).count(":") >= 2 else ""
    text = f"epoch {epoch}, {f'owner {owner}' if owner is not None else 'free'}"
    return Owning(shard, since_ns, int(pid) if pid.isdigit() else None, epoch, text)
