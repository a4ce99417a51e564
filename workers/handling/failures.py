"""What the exceptions of a handler lead to: log lines, a count on the board, a word about it while it lasts.

What holds:

- each exception is counted; it is logged with the connection, the numbers of the messages it concerns (never their
  content), its place in the handler's code, its type and its text. `LINES_MAX` lines in `WINDOW_NS` are written one by
  one; of further ones a line says how many they were, and what the last one was;
- the trouble stands on the board from the first exception until none came for `WINDOW_NS`, so that whoever looks from
  time to time sees it also where every second message fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workers.blame import in_words, place, said
from workers.board import HANDLER_ERRORS
from workers.log import Log

LINES_MAX = 20
WINDOW_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception, and of which messages: their numbers within the epoch, from 1; 0: it was about none."""

    error: Exception
    connection: int | None
    first: int
    last: int
    in_a_row: int


class Troubles(Protocol):
    """See `workers.troubles`."""

    def set(self, key: str, text: str) -> None: ...

    def clear(self, key: str) -> None: ...


class Failures:
    """Those of one child's handler, whose code is in the file `own`."""

    def __init__(self, log: Log, words: memoryview, troubles: Troubles, own: str) -> None:
        self._log, self._words, self._troubles, self._own = log, words, troubles, own
        self._until_ns = 0  # of the window that the last failure fell into
        self._calm_ns = 0  # when the trouble is over; 0: there is none
        self._lines = 0
        self._unsaid = 0
        self._last: Failure | None = None

    def failed(self, failure: Failure, now_ns: int) -> None:
        self._words[HANDLER_ERRORS] += 1
        self._last, self._calm_ns = failure, now_ns + WINDOW_NS
        count = "an error" if failure.in_a_row == 1 else f"{failure.in_a_row} errors in a row, the last one"
        where = place(failure.error, self._own).rpartition("/")[2]
        self._troubles.set("handler", f"{count}: {type(failure.error).__name__} at {where}")
        if now_ns >= self._until_ns:
            self._tell_unsaid()
            self._until_ns, self._lines = now_ns + WINDOW_NS, 0
        self._lines += 1
        if self._lines <= LINES_MAX:
            self._tell(failure, said(failure.error))
        else:
            self._unsaid += 1

    def turned(self, now_ns: int) -> None:
        """The loop turned: what is due now."""
        if self._calm_ns and now_ns >= self._calm_ns:
            self._calm_ns = 0
            self._troubles.clear("handler")
        if self._unsaid and now_ns >= self._until_ns:
            self._tell_unsaid()

    def _tell_unsaid(self) -> None:
        unsaid, self._unsaid = self._unsaid, 0
        if unsaid and self._last is not None:
            self._tell(self._last, f"{unsaid} more of late, the last one {in_words(self._last.error, self._own)}")

    def _tell(self, failure: Failure, reason: str) -> None:
        self._log(
            "handler.failed",
            "ERROR",
            reason=reason,
            connection=failure.connection,
            message_number=failure.first or None,
            message_number_last=failure.last if failure.last > failure.first else None,
            where=place(failure.error, self._own),
            in_a_row=failure.in_a_row,
        )
