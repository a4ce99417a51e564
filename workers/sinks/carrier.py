"""Takes parcels to a far end, one request at a time, for as long as it takes.

What holds:

- a parcel is left only when all of its events are safe; no later one overtakes it;
- each request is preceded by a look at the fence, and every failure is reported before the wait;
- a parcel that is refused for what is in it is halved, so that all events before the one at fault are delivered and
  that one is named. It then stays first in line; only where events may be dropped (`overflow = drop_oldest`) it is
  dropped, when it was refused again `UNFIT_TRIES` times, a minute apart. A wait that a stop cut short does not count,
  so a stop drops nothing that had not its minutes.

Between two requests it waits as `Report.pause` does; a stop does not wait for a far end that fails again.
"""

from __future__ import annotations

from collections.abc import Callable

from workers.chance import chance
from workers.sinks.interface import Report
from workers.sinks.outcome import Again, Outcome, Partly, Refused, Safe, Unfit, pause_s
from workers.sinks.parcel import Parcel

UNFIT_TRIES = 2  # so that a mistake of minutes at the far end does not cost all events of these minutes

Attempt = Callable[[Parcel], Outcome]


class Carrier:
    """`attempt` makes one request; it has a time limit of its own and raises nothing. `where` names the far end."""

    __slots__ = ("_attempt", "_chance", "_drops", "_report", "_where")

    def __init__(
        self,
        attempt: Attempt,
        report: Report,
        where: str,
        drops: bool,
        chance: Callable[[], float] = chance,
    ) -> None:
        self._attempt, self._report, self._where, self._drops = attempt, report, where, drops
        self._chance = chance

    def carry(self, parcel: Parcel) -> None:
        """Returns when every event of it is safe, or was dropped. Raises `SinkAway` as `Report.pause` does."""
        waiting = [parcel]  # the first to go is the last here
        failures = refusals = 0  # in a row; the latter of one event alone, a whole wait behind each
        while waiting:
            parcel = waiting.pop()
            self._report.fenced()
            outcome = self._attempt(parcel)
            match outcome:
                case Safe():
                    self._report.fine()
                    failures = refusals = 0
                    continue
                case Unfit() if len(parcel) > 1:
                    self._report.retrying(f"{outcome.reason} from {self._where}, to {len(parcel)} events together")
                    waiting.extend(reversed(parcel.halves()))
                    continue
                case Unfit() if self._drops and refusals == UNFIT_TRIES:
                    self._report.dropped(1)
                    self._report.fine()
                    failures = refusals = 0
                    continue
                case Unfit():
                    waiting.append(parcel)
                case Partly(places):
                    if len(places) < len(parcel):
                        self._report.fine()
                        failures = 0
                    failures += 1
                    waiting.append(parcel.only(places))
                case _:
                    failures += 1
                    waiting.append(parcel)
            self._report.retrying(self._told(outcome, parcel))
            waited = self._report.pause(pause_s(outcome, failures, self._chance()))
            if waited and isinstance(outcome, Unfit):
                refusals += 1

    def _told(self, outcome: Again | Partly | Refused | Unfit, parcel: Parcel) -> str:
        told = f"{outcome.reason} from {self._where}"
        if isinstance(outcome, Unfit):
            return f"{told}, to event {parcel.span} alone ({parcel.size_bytes} bytes)"
        return told
