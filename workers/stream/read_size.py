"""How much a link reads at once: as much as is worth it, and no more than can be taken apart in a few milliseconds.

A read of tiny frames, or of compressed ones that may become a thousand times as many bytes, keeps the other
connections waiting; the next one is then half as large.
"""

from __future__ import annotations

from workers.websocket.frames import READ_BYTES

_TAKES_MAX_NS = 5_000_000
_MIN_BYTES = 4096
_DEFLATED_BYTES = 8192


class ReadSize:
    __slots__ = ("_max_bytes", "bytes")

    def __init__(self, deflated: bool) -> None:
        self.bytes = self._max_bytes = _DEFLATED_BYTES if deflated else READ_BYTES

    def took(self, duration_ns: int) -> None:
        """The last read, with all that came of it."""
        if duration_ns > _TAKES_MAX_NS:
            self.bytes = max(self.bytes // 2, _MIN_BYTES)
        elif self.bytes < self._max_bytes and duration_ns < _TAKES_MAX_NS // 4:
            self.bytes *= 2
