"""Parcels: the events of one request to a network sink, as lines of JSON, formed once and never changed.

What holds: events stay in their order; a parcel has at most the events and bytes of its limits, but always one event,
so that what is too large for the far end is said by the far end. A retry sends the same parcel, so the same names: the
numbers of its events within shard and epoch. It is formed only when the one before was delivered, so that the lines of
events that wait exist once, as messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workers.sinks.envelope import Batch


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a parcel. `event_extra_bytes`: what each event weighs beside its line."""

    events: int
    size_bytes: int
    event_extra_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Parcel:
    """`lines[i]`, with its line break, is the event that `seqs[i]` numbers."""

    seqs: Sequence[int]
    lines: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.lines))

    @property
    def span(self) -> str:
        """The first and the last number, or the only one."""
        first, last = self.seqs[0], self.seqs[-1]
        return f"{first}-{last}" if last != first else str(first)

    def from_(self, start: int) -> Parcel:
        """What begins with the event at `start`."""
        return Parcel(self.seqs[start:], self.lines[start:])

    def only(self, places: Sequence[int]) -> Parcel:
        return Parcel([self.seqs[place] for place in places], [self.lines[place] for place in places])

    def halves(self) -> tuple[Parcel, Parcel]:
        """Of a parcel of two events or more."""
        middle = len(self.seqs) // 2
        return Parcel(self.seqs[:middle], self.lines[:middle]), self.from_(middle)


def parcels(
    batches: Sequence[Batch], lines_of: Callable[[Batch], bytes], limits: Callable[[], Limits]
) -> Iterator[Parcel]:
    """`limits` is asked for each parcel, since the far end may teach us smaller ones meanwhile."""
    first, lines, size_bytes = 0, list[bytes](), 0
    bound = limits()
    for batch in batches:
        for seq, line in enumerate(_split(lines_of(batch)), batch.first_seq):
            weight_bytes = len(line) + bound.event_extra_bytes
            full = len(lines) >= bound.events or size_bytes + weight_bytes > bound.size_bytes
            if lines and (full or seq != first + len(lines)):
                yield Parcel(range(first, first + len(lines)), lines)
                lines, size_bytes = [], 0
                bound = limits()
            if not lines:
                first = seq
            lines.append(line)
            size_bytes += weight_bytes
    if lines:
        yield Parcel(range(first, first + len(lines)), lines)


def _split(data: bytes) -> list[bytes]:
    """Lines with their breaks; JSON has escaped every other one that `splitlines` knows of bytes."""
    return data.splitlines(keepends=True)
