"""What is wrong with a child now, in one short sentence on the board, for whoever looks at `tenured status`.

Each part of the child has a key of its own: `handler`, `sink`, `connection 0`, ... Of those that have something to say
the first in this order is shown, with its key before it and how many others there are behind it. What is shown again
unchanged writes nothing. The last words of a child that fails stay, whatever becomes of its parts while it ends. Any
thread may call: a sink has one of its own.

A text holds no secret: of a URL at most scheme, host and port. It is one line; the board cuts what is too long.
"""

from __future__ import annotations

import _thread

from workers.board import TROUBLE_MAX_BYTES, Slot
from workers.texts import shortened

_FIRST = ("handler", "sink")


class Troubles:
    __slots__ = ("_last", "_lock", "_shown", "_slot", "_texts")

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._lock = _thread.allocate_lock()  # not `threading`: see `fence`
        self._texts: dict[str, str] = {}
        self._shown = self._last = ""

    def set(self, key: str, text: str) -> None:
        """`text` says what is wrong with `key`, whose name is written before it."""
        with self._lock:
            self._texts[key] = " ".join(text.split())
            self._show()

    def clear(self, key: str) -> None:
        """All is well with `key`, as far as it knows."""
        with self._lock:
            if self._texts.pop(key, None) is not None:
                self._show()

    def end(self, text: str) -> None:
        """Why the child ends: the first text that says so is the last that is shown."""
        with self._lock:
            self._last = self._last or shortened(" ".join(text.split()), TROUBLE_MAX_BYTES)
            self._show()

    def _show(self) -> None:
        first = min(self._texts, key=_rank, default="")
        shown = f"{first}: {self._texts[first]}" if first else ""
        if len(self._texts) > 1:
            shown += f" (and {len(self._texts) - 1} more)"
        shown = self._last or shown
        if shown != self._shown:
            self._slot.write_trouble(shown)
            self._shown = shown


def _rank(key: str) -> tuple[int, int, str]:
    """`connection 2` before `connection 10`."""
    return (_FIRST.index(key) if key in _FIRST else len(_FIRST), len(key), key)
