"""The last good look at the fleet, for many who ask at once.

What holds: at most one thread looks at any time, and not more often than once in `FRESH_S`, however many ask, so that
neither a store that hangs takes up all threads nor a crowd of viewers costs more reads than one. Who comes meanwhile,
or when a look failed, gets the last good answer with its age and what went wrong; there is an error only while there
never was one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.stores.interface import Unavailable

FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """`age_s`: since the store was read; `error`: why the newest try brought nothing, "" if it did."""

    body: bytes
    age_s: float
    error: str


class Latest:
    """`look` returns the answer and its age in seconds, or raises `Unavailable`."""

    __slots__ = ("_clock", "_error", "_good", "_look", "_looking", "_tried_s")

    def __init__(self, look: Callable[[], tuple[bytes, float]], clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._looking = threading.Lock()
        self._tried_s = float("-inf")
        self._good: tuple[bytes, float] | None = None
        self._error = ""

    def get(self) -> Look:
        """Raises `Unavailable` if no look ever succeeded."""
        if self._clock() - self._tried_s >= FRESH_S and self._looking.acquire(blocking=False):
            try:
                self._look_again()
            finally:
                self._tried_s = self._clock()
                self._looking.release()
        if self._good is None:
            raise Unavailable(self._error or "it is being read for the first time")
        body, at_s = self._good
        return Look(body, max(0.0, self._clock() - at_s), self._error)

    def _look_again(self) -> None:
        try:
            body, age_s = self._look()
        except Unavailable as error:
            self._error = str(error)
        else:
            self._good, self._error = (body, self._clock() - age_s), ""
