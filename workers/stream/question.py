"""May one attempt begin its TCP connection? A child's question to its parent, which paces those of the host.

The child counts `ASKED` up on the board and rings the parent's bell; the answer is that number in `GRANTED`, and in
`GRANTED_AT` from when on the attempt may begin. The thread of the attempt waits for it and begins by itself: a loop
whose handler is slow would look when the permission has long run out.

What holds:

- a permission soon expires: who was held up, whatever by, must not connect together with others. One that ran out, or
  a question that is not answered, is asked for again;
- from `drop` on the board is left alone, and no permission used: a later question has the words for itself;
- who knows the time that was granted sleeps until then. Only while the parent has not answered is there something to
  look for, less often the longer that takes.
"""

from __future__ import annotations

import _thread
import os
from dataclasses import dataclass

from workers.board import ASKED, GRANTED, GRANTED_AT
from workers.process.kernel import boottime_ns

ASK_AGAIN_NS = 5_000_000_000
_VALID_MIN_NS, _VALID_MAX_NS = 100_000_000, 1_000_000_000
_LOOK_MIN_NS = 2_000_000
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again then."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class Go:
    """Connect now, and not at or after `by_ns`."""

    by_ns: int


def valid_ns(rate_per_s: float) -> int:
    """How long a permission holds: as long as a busy host may take to use it, and short enough for the rate to hold."""
    return min(max(int(_SECOND_NS / rate_per_s), _VALID_MIN_NS), _VALID_MAX_NS)


def ring(parent_bell_fd: int) -> None:
    """Let the parent look at the board; a child without one has a negative number there."""
    if parent_bell_fd >= 0:
        os.eventfd_write(parent_bell_fd, 1)


class Question:
    """`look` until `Go`, which uses the permission up, or just `wait`. There is one at a time."""

    __slots__ = ("_asked_ns", "_bell_fd", "_dropped", "_looking", "_number", "_over", "_valid_ns", "_words")

    def __init__(self, words: memoryview, rate_per_s: float, parent_bell_fd: int) -> None:
        self._words, self._bell_fd = words, parent_bell_fd
        self._valid_ns = valid_ns(rate_per_s)
        self._number = 0  # on the board; 0: not asked yet
        self._asked_ns = 0
        self._dropped = False
        self._looking = _thread.allocate_lock()
        self._over = _thread.allocate_lock()  # free when it was dropped
        self._over.acquire()

    def wait(self) -> int:
        """Until it may begin: by when it has to have begun; 0: it was dropped."""
        while True:
            now_ns = boottime_ns()
            with self._looking:
                if self._dropped:
                    return 0
                step = self.look(now_ns)
            if isinstance(step, Go):
                return step.by_ns
            self._over.acquire(timeout=(step.until_ns - now_ns) / _SECOND_NS)

    def drop(self) -> None:
        """The attempt is not wanted any more; from any thread."""
        with self._looking:
            if not self._dropped:
                self._dropped = True
                self._over.release()

    def look(self, now_ns: int) -> Wait | Go:
        words = self._words
        if self._number and words[GRANTED] >= self._number:
            at_ns: int = words[GRANTED_AT]
            if now_ns < at_ns + self._valid_ns:
                return Wait(at_ns) if at_ns > now_ns else Go(at_ns + self._valid_ns)
            self._number = 0  # this process stood still; others have theirs by now
        if not self._number or now_ns >= self._asked_ns + ASK_AGAIN_NS:
            words[ASKED] += 1
            self._number, self._asked_ns = words[ASKED], now_ns
            ring(self._bell_fd)
        return Wait(now_ns + min(max((now_ns - self._asked_ns) // 2, _LOOK_MIN_NS), self._valid_ns // 2))
