"""The sink that keeps nothing: to measure the receive path, and to try a feed out."""

from __future__ import annotations

from collections.abc import Sequence

from workers.sinks.envelope import Batch


class Discard:
    inline = True

    def open(self) -> None:
        """Nothing to open."""

    def write(self, batches: Sequence[Batch]) -> None:
        """Nothing to keep."""

    def flush(self) -> None:
        """Nothing to make safe."""

    def close(self) -> None:
        """Nothing to close."""
