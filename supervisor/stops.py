"""Which of the signals to stop ask for a stop, and which for one at once. Pure: the time is passed in.

The first asks, a later one hurries. One that comes within `ONE_REQUEST_S` of the first says the same again, whichever
of the two it is: `timeout` of GNU sends its signal to the process and then to its group, some launchers send SIGINT and
SIGTERM, and nobody who is impatient is quicker. After `tenured drain` the first signal says the same again, too.
"""

from __future__ import annotations

ONE_REQUEST_S = 0.5


class Stops:
    def __init__(self) -> None:
        self._drained = False
        self._first_s: float | None = None  # when the first signal came

    def drained(self) -> None:
        """A stop was asked for in another way."""
        self._drained = True

    def signalled(self, now_s: float) -> bool:
        """Whether this signal asks for something that was not asked for before."""
        if self._first_s is None:
            self._first_s = now_s
            return not self._drained
        return now_s >= self._first_s + ONE_REQUEST_S
