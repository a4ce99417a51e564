"""Messages that wait for their turn to be sent: at most so many in a second on one connection (`send_rate`).

What holds: they leave in order, at least an interval apart; time that was not used is not saved up, but for the
`CATCH_UP_NS` by which a loop may be late, so that a high rate is reached as well. Pure: nanoseconds in and out.

What a subscription list puts there is bounded by the file; for all else the caller looks at `full` first.
"""

from __future__ import annotations

from collections import deque

QUEUE_MAX_BYTES = 1024 * 1024
CATCH_UP_NS = 10_000_000
NEVER_NS = 2**63 - 1

Frame = tuple[int, bytes]  # opcode and payload


class Paced:
    __slots__ = ("_bytes", "_frames", "_interval_ns", "_next_ns")

    def __init__(self, interval_ns: int) -> None:
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._interval_ns = interval_ns
        self._next_ns = 0

    @property
    def empty(self) -> bool:
        return not self._frames

    @property
    def full(self) -> bool:
        return self._bytes > QUEUE_MAX_BYTES

    @property
    def due_ns(self) -> int:
        """When `take` will return something."""
        return self._next_ns if self._frames else NEVER_NS

    def put(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._bytes += len(frame[1])

    def take(self, now_ns: int) -> list[Frame]:
        """All that may be sent now."""
        taken = []
        while self._frames and now_ns >= self._next_ns:
            frame = self._frames.popleft()
            self._bytes -= len(frame[1])
            taken.append(frame)
            earliest_ns = now_ns - CATCH_UP_NS if self._next_ns else now_ns
            self._next_ns = max(self._next_ns, earliest_ns) + self._interval_ns
        return taken
