"""The marks of one child, with an eye on pointers that find nothing: those are probably mistaken, and nothing else
would tell. See `marks`.

What holds: a pointer that found nothing in the first `MESSAGES_MIN` messages or more, over `AGE_MIN_NS` or longer, is
told by one line in the log, and is a trouble that `status` shows, until it finds something. One that has ever found
something is never told: a feed may have marks in few of its messages. From then on it costs a comparison for a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.log import Log
from workers.resuming.marks import Found, Ids, Marks
from workers.spec import StreamSpec
from workers.troubles import Troubles
from workers.websocket.frames import Message

MESSAGES_MIN = 1000
AGE_MIN_NS = 60_000_000_000
_KINDS = {"checkpoint": "a text or a number", "id": "a text or a number", "sequence": "an integer"}


class Watched:
    """As `Marks`. `clock` returns CLOCK_BOOTTIME nanoseconds."""

    __slots__ = ("_awaited", "_clock", "_first_ns", "_log", "_marks", "_seen", "_told", "_troubles")
    wanted = True

    def __init__(self, marks: Marks, spec: StreamSpec, log: Log, troubles: Troubles, clock: Callable[[], int]) -> None:
        self._marks, self._log, self._troubles, self._clock = marks, log, troubles, clock
        pointers = {"checkpoint": spec.checkpoint, "id": spec.id, "sequence": spec.sequence}
        self._awaited = {key: pointer for key, pointer in pointers.items() if pointer}
        self._seen: dict[str, int] = {}  # messages without this mark
        self._first_ns: dict[str, int] = {}
        self._told: set[str] = set()

    def all(self, messages: Sequence[Message]) -> Found:
        found = self._marks.all(messages)
        if self._awaited:
            self._look("checkpoint", found.token is not None, len(messages))
            self._look("id", bool(found.ids and any(found.ids)), len(messages))
            self._look("sequence", found.numbers.count(None) < len(found.numbers), len(messages))
        return found

    def token(self, messages: Sequence[Message]) -> str | None:
        token = self._marks.token(messages)
        if self._awaited:
            self._look("checkpoint", token is not None, len(messages))
        return token

    def ids(self, messages: Sequence[Message]) -> Ids | None:
        ids = self._marks.ids(messages)
        if self._awaited:
            self._look("id", bool(ids and any(ids)), len(messages))
        return ids

    def numbers(self, messages: Sequence[Message]) -> Sequence[int | None]:
        numbers = self._marks.numbers(messages)
        if self._awaited:
            self._look("sequence", numbers.count(None) < len(numbers), len(messages))
        return numbers

    def _look(self, key: str, found: bool, messages: int) -> None:
        if key not in self._awaited:
            return
        if found:
            del self._awaited[key]
            self._troubles.clear(key)
            return
        now_ns = self._clock()
        first_ns = self._first_ns.setdefault(key, now_ns)
        seen = self._seen[key] = self._seen.get(key, 0) + messages
        if seen >= MESSAGES_MIN and now_ns - first_ns >= AGE_MIN_NS and key not in self._told:
            self._told.add(key)
            what = f"{self._awaited[key]} leads to {_KINDS[key]} in none of {seen} messages"
            self._troubles.set(key, what)
            hint = "`tenured check --connect` shows what a message has"
            self._log("config.warning", "WARNING", reason=f"{key}: {what}; {hint}")
