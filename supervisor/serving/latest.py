"""The last good look at the fleet, for many who ask at once.

What holds: at most one look is under way at any time, in a thread of its own, and the next begins `FRESH_S` after its
end at the earliest, so that a crowd of viewers costs the store no more than one. Whoever begins one waits for it at
most `WAIT_S`; everybody else waits for nothing. They get the last good answer with its age and what went wrong since;
there is an error only while there never was one. So a store that hangs takes up no thread of the server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.stores.interface import Unavailable

FRESH_S = 1.0
WAIT_S = 2.0
SLOW_S = 5.0  # a look that takes longer is told to those who get an older one


@dataclass(frozen=True, slots=True)
class Look:
    """`age_s`: since the store was read; `error`: why there is no newer one, "" if all is well."""

    body: bytes
    age_s: float
    error: str


class Latest:
    """`look` returns the answer and its age in seconds, or raises `Unavailable`."""

    __slots__ = ("_began_s", "_clock", "_ended_s", "_error", "_good", "_lock", "_look")

    def __init__(self, look: Callable[[], tuple[bytes, float]], clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._began_s: float | None = None  # of the look that is under way
        self._ended_s = float("-inf")
        self._good: tuple[bytes, float] | None = None
        self._error = ""

    def get(self) -> Look:
        """Raises `Unavailable` if no look ever succeeded."""
        if (ended := self._begin()) is not None:
            ended.wait(WAIT_S)
        with self._lock:
            error = self._error
            waited_s = 0.0 if self._began_s is None else self._clock() - self._began_s
            if waited_s > SLOW_S:
                error = f"no answer for {waited_s:.0f} s"
            if self._good is None:
                raise Unavailable(error or "no answer yet")
            body, at_s = self._good
            return Look(body, max(0.0, self._clock() - at_s), error)

    def _begin(self) -> threading.Event | None:
        """Set when the look that this began has ended; None: none was due."""
        with self._lock:
            if self._began_s is not None or self._clock() - self._ended_s < FRESH_S:
                return None
            self._began_s = self._clock()
        ended = threading.Event()
        # A daemon: a store that hangs must not keep the process from ending.
        threading.Thread(target=self._run, args=(ended,), name="look", daemon=True).start()
        return ended

    def _run(self, ended: threading.Event) -> None:
        good: tuple[bytes, float] | None = None
        try:
            body, age_s = self._look()
            good, error = (body, self._clock() - age_s), ""
        except Unavailable as failure:
            error = str(failure)
        except Exception as bug:
            logging.getLogger(__name__).exception("a look at the fleet broke")
            error = f"looking broke: {type(bug).__name__}"
        with self._lock:
            self._good, self._error = good or self._good, error
            self._began_s, self._ended_s = None, self._clock()
        ended.set()
