"""What other threads may ask of a running supervisor: its health, the fleet, its metrics.

What holds: the loop answers within a bound, or the asker gives up; the store is read through the daemon's own lane.
How often the fleet is looked at is up to the asker (see `latest`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from supervisor.clock import unix_ms
from supervisor.records import Snapshot
from supervisor.showing import view
from supervisor.showing.status import view as view_of
from supervisor.stores.interface import Unavailable

ANSWER_MAX_S = 2.0
LOOK_MAX_S = 10.0

T = TypeVar("T")


class Glance:
    """`health` is called on the loop, `look` there too, with its time limit in seconds; `metrics` in any thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        health: Callable[[], Mapping[str, Any]],
        look: Callable[[float], Awaitable[Snapshot]],
        metrics: Callable[[], bytes],
        fleet: str,
    ) -> None:
        self._loop = loop
        self._health = health
        self._look = look
        self._fleet = fleet
        self.metrics = metrics

    def health(self) -> Mapping[str, Any]:
        """Raises TimeoutError when the loop does not turn."""

        async def ask() -> Mapping[str, Any]:
            return self._health()

        return self._asked(ask(), ANSWER_MAX_S)

    def fleet(self) -> tuple[bytes, float]:
        """The status of the whole fleet as JSON, and its age in seconds. Raises `Unavailable`."""

        async def ask() -> Snapshot:
            return await self._look(LOOK_MAX_S)

        asked_s = time.monotonic()
        try:
            snapshot = self._asked(ask(), LOOK_MAX_S + ANSWER_MAX_S)
        except TimeoutError as error:
            raise Unavailable(str(error)) from None
        return view.as_json(view_of(snapshot, unix_ms(), self._fleet)).encode(), time.monotonic() - asked_s

    def _asked(self, question: Coroutine[Any, Any, T], timeout_s: float) -> T:
        try:
            future = asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:  # the loop is closed
            question.close()
            raise TimeoutError("the supervisor is stopping") from None
        try:
            return future.result(timeout_s)
        except (TimeoutError, concurrent.futures.CancelledError):
            future.cancel()
            raise TimeoutError("the loop does not turn") from None
