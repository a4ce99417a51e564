"""What a sink is: four calls, all made by one thread at a time, all free to wait unless `inline`.

`write` takes batches in order. It may hold events back to fill a provider's request (25 records, a megabyte ...);
`flush` returns only when everything written is safe, so that a checkpoint behind it may be committed. A sink that
talks to a network retries inside `write` and `flush` for as long as it takes: meanwhile the queue in front of it
fills and the connections are read no further, which is all the backpressure there is. A retry sends the same
`(shard, epoch, seq)`, so that the far end can recognise it. What a sink cannot retry it raises; that ends the child,
which starts again from the last checkpoint. Nothing is ever dropped in silence.

Fencing is not a sink's business, with one exception: one that waits inside `write` between two requests has to
look at the deadline before each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workers.envelope import Batch


class BadSink(ValueError):
    """A sink that is none, or that cannot be opened; one sentence."""


class Sink(Protocol):
    @property
    def inline(self) -> bool:
        """`write` never waits, so the loop may call it itself."""

    def open(self) -> None:
        """Raises `BadSink`."""

    def write(self, batches: Sequence[Batch]) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...
