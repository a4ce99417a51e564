"""How the sink of a child fares: told by the thread that serves it, shown by the loop on the board and in the log.

A sink is stalled when one call of it has lasted `STALLED_NS` without progress, whether it retries or just hangs. What
it retries is shown from the first failure on, as the child's trouble.

What holds: the thread writes what it knows, and waits nowhere but in `pause`; only the loop logs, and only when
something changes. From `leave` on a try that is due later is made at once, and `LAST_TRIES` that fail in a row are the
last ones: a hiccup of the far end costs nothing, and its absence half a second.
"""

from __future__ import annotations

import _thread
import time

from workers.board import SINK_RETRIES, SINK_STALLED, SINK_WAITING, Slot
from workers.log import Log, Value
from workers.process.kernel import boottime_ns
from workers.sinks.delivery import end_if_fenced
from workers.sinks.interface import SinkAway
from workers.troubles import Troubles

STALLED_NS = 5_000_000_000
LAST_TRIES = 3
_LAST_PAUSE_S = 0.25


class Condition:
    """`Report` for the sink; `begun` and `ended` are for who calls the sink, `show` is for the loop."""

    __slots__ = (
        "_call_ns", "_failing", "_last_tries", "_leaves", "_left", "_log", "_shown", "_slot", "_stalled_ns",
        "_troubles", "_words", "lost",
    )  # fmt: skip

    def __init__(self, slot: Slot, log: Log, troubles: Troubles) -> None:
        self._slot, self._words = slot, slot.words
        self._log, self._troubles = log, troubles
        self._call_ns = 0  # when the call under way began or made progress; 0: there is none
        self._failing: tuple[str, int] | None = None  # why, and since when; one value, since two threads look at it
        self._stalled_ns = 0  # since when, as logged
        self._shown = False
        self.lost = 0  # events that the sink gave up, in its thread
        self._leaves = False
        self._last_tries = 0  # that failed since then, in a row
        self._left = _thread.allocate_lock()  # free when the child stops
        self._left.acquire()

    # --- the sink's thread ----------------------------------------------------------------------------------

    def begun(self) -> None:
        self._call_ns = boottime_ns()

    def ended(self) -> None:
        self._call_ns = self._last_tries = 0
        self._failing = None

    def retrying(self, reason: str) -> None:
        self._words[SINK_RETRIES] += 1
        self._failing = (reason, self._failing[1] if self._failing else boottime_ns())

    def pause(self, seconds: float) -> bool:
        if not self._leaves:
            return not self._left.acquire(timeout=seconds)
        self._last_tries += 1
        if self._last_tries == LAST_TRIES:
            raise SinkAway(self._failing[0] if self._failing else "the sink is away")
        time.sleep(min(seconds, _LAST_PAUSE_S))
        return False

    def fine(self) -> None:
        self._failing, self._last_tries = None, 0
        if self._call_ns:
            self._call_ns = boottime_ns()

    def dropped(self, events: int) -> None:
        self.lost += events

    def fenced(self) -> None:
        end_if_fenced(self._slot, boottime_ns())

    def log(self, event: str, level: str = "INFO", **fields: Value) -> None:
        self._log(event, level, **fields)

    # --- the loop -------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """The child stops; once is enough, twice does no harm."""
        if not self._leaves:
            self._leaves = True
            self._left.release()

    def show(self, waiting_bytes: int, now_ns: int) -> None:
        """Called in each turn of the loop."""
        self._words[SINK_WAITING] = waiting_bytes
        call_ns, failing = self._call_ns, self._failing
        stalled_ns = call_ns if call_ns and now_ns - call_ns >= STALLED_NS else 0
        if stalled_ns != self._stalled_ns:
            self._change(stalled_ns, failing, waiting_bytes, now_ns)
        if failing:
            self._say(f"{failing[0]} for {_seconds(now_ns - failing[1])} s")
        elif stalled_ns:
            self._say(f"takes nothing for {_seconds(now_ns - stalled_ns)} s")
        elif self._shown:
            self._troubles.clear("sink")
            self._shown = False

    def _say(self, text: str) -> None:
        self._troubles.set("sink", text)
        self._shown = True

    def _change(self, stalled_ns: int, failing: tuple[str, int] | None, waiting_bytes: int, now_ns: int) -> None:
        if stalled_ns and not self._stalled_ns:
            reason = failing[0] if failing else "the sink takes nothing"
            self._log("sink.stalled", "WARNING", reason=reason, waiting_bytes=waiting_bytes)
        elif not stalled_ns:
            stalled_ms = (now_ns - self._stalled_ns) // 1_000_000
            self._log("sink.resumed", stalled_ms=stalled_ms, waiting_bytes=waiting_bytes)
        self._words[SINK_STALLED] = self._stalled_ns = stalled_ns


def _seconds(ns: int) -> int:
    return max(ns, 0) // 1_000_000_000
