"""What all sinks over a network do alike: what waits becomes parcels, carried to a far end one after the other.

Each kind of far end is a class of its own (see `http`, `kinesis`, `sqs`): it says what a parcel may hold, makes one
request of it, and says what became of that. What holds for all of them is in `parcel` and `carrier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workers.sinks.carrier import Carrier
from workers.sinks.envelope import Batch
from workers.sinks.interface import SinkContext
from workers.sinks.outcome import Outcome
from workers.sinks.parcel import Limits, Parcel, parcels


class FarEnd(Protocol):
    @property
    def where(self) -> str:
        """For people: nothing of it may be a secret."""

    @property
    def limits(self) -> Limits:
        """Of the next parcel."""

    def attempt(self, parcel: Parcel) -> Outcome:
        """One request, with a time limit of its own. Raises nothing."""

    def close(self) -> None: ...


class Network:
    inline = False

    def __init__(self, far: FarEnd, context: SinkContext) -> None:
        self._far, self._lines = far, context.envelope.lines
        drops = context.task.scope.spec.overflow == "drop_oldest"
        self._carrier = Carrier(far.attempt, context.report, far.where, drops)

    def open(self) -> None:
        """The connection is made when there is something to send."""

    def write(self, batches: Sequence[Batch]) -> None:
        for parcel in parcels(batches, self._lines, lambda: self._far.limits):
            self._carrier.carry(parcel)

    def flush(self) -> None:
        """What was written is safe: `write` returns no sooner."""

    def close(self) -> None:
        self._far.close()
