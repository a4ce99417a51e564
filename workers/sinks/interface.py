"""What a sink is: four calls, all made by one thread at a time, all free to wait unless `inline`.

`write` takes batches in order. It may hold events back to fill a provider's request (25 records, a megabyte ...);
`flush` returns only when everything written is safe, so that a checkpoint behind it may be committed. A sink that
talks to a network, or to a disk that is full, retries inside `write` and `flush` for as long as it takes: meanwhile
the queue in front of it fills and the connections are read no further, which is all the backpressure there is. A retry
sends the same `(shard, epoch, seq)`, so that the far end can recognise it. What a sink cannot retry it raises; that
ends the child, which starts again from the last checkpoint. Nothing is ever dropped in silence.

Whoever waits inside `write` or `flush` says so (`Report`): `retrying` when something has to be tried again, `fine` when
something went through, `fenced` before each new request or attempt, since the deadline may have passed meanwhile. It
waits by `pause` alone, so that a stop can end that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.log import Value
from workers.sinks.envelope import Batch, Envelope
from workers.spec import Task


class BadSink(ValueError):
    """A sink that is none, or that cannot be opened; one sentence."""


class SinkFailed(Exception):
    """What a sink cannot retry; one sentence."""


class SinkAway(Exception):
    """What failed again while the child stops, which waits no longer; the reason that was reported."""


class Sink(Protocol):
    @property
    def inline(self) -> bool:
        """`write` never waits, so the loop may call it itself."""

    def open(self) -> None:
        """Raises `BadSink`. Called on the loop, before there is a thread for the rest: must not wait."""

    def write(self, batches: Sequence[Batch]) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Report(Protocol):
    """How a sink fares; called by the sink's thread. It never waits, and says no more than the host of a url."""

    def retrying(self, reason: str) -> None:
        """Something has to be tried again; counted. `reason` is what follows "sink: ", without its duration:
        "no answer from collector.example:443". It is shown until `fine`."""

    def pause(self, seconds: float) -> bool:
        """Wait between a failure, which was reported, and the next try. A stop ends the wait at once, which is then
        False; after it the third failure in a row raises `SinkAway`, which a sink lets pass."""

    def fine(self) -> None:
        """Something went through (a request, a piece of a long write): the sink makes progress, nothing is wrong."""

    def dropped(self, events: int) -> None:
        """The far end refuses so many for what is in them, and `overflow = drop_oldest` lets them go; counted."""

    def fenced(self) -> None:
        """Ends this process if its deadline has passed."""

    def log(self, event: str, level: str = "INFO", **fields: Value) -> None:
        """A line of the child's log, for what must be said once; limit repeated ones."""


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink may need beside its text."""

    task: Task
    envelope: Envelope
    report: Report
    environment: Mapping[str, str]  # for templates
    stdout_fd: int
