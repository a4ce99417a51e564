"""What the file's pointers find in messages: resume tokens, ids, and numbers. See `pointer`.

    checkpoint = /seq     the resume token of a batch: that of its last message that has one
    id = /id              an id for each event
    sequence = /seq       an integer, also one in a string

What holds: each message is read at most once however many pointers there are; for `checkpoint` alone only from the end
of the batch back to the message that has a token; without a pointer nothing is read. A message without such a member,
or that is no JSON, simply has no mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workers.resuming import pointer
from workers.resuming.pointer import Pointer, Reader
from workers.spec import StreamSpec
from workers.websocket.frames import Message

Ids = list[str | None]
_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Found:
    """Of one batch. `numbers` has an entry for each message if they were asked for, else none at all."""

    token: str | None = None
    ids: Ids | None = None
    numbers: Sequence[int | None] = ()


NOTHING = Found()


class Marks:
    """The pointers of a stream, compiled once."""

    __slots__ = ("_checkpoint", "_id", "_reader", "_sequence")

    def __init__(self, spec: StreamSpec) -> None:
        """Raises ValueError."""
        self._checkpoint, self._id, self._sequence = map(_compiled, (spec.checkpoint, spec.id, spec.sequence))
        self._reader = Reader(*filter(None, (self._checkpoint, self._id, self._sequence)))

    @property
    def wanted(self) -> bool:
        return bool(self._checkpoint or self._id or self._sequence)

    @property
    def sequence(self) -> bool:
        return self._sequence is not None

    @property
    def checkpoint(self) -> bool:
        return self._checkpoint is not None

    @property
    def id(self) -> bool:
        return self._id is not None

    def all(self, messages: Sequence[Message]) -> Found:
        """All that is asked for."""
        if self._id is None and self._sequence is None:
            return Found(self.token(messages)) if self._checkpoint else NOTHING
        documents = [self._reader.read(message) for message in messages]
        token = None
        if self._checkpoint is not None:
            texts = (pointer.text(self._checkpoint, document) for document in reversed(documents))
            token = next(filter(None, texts), None)
        ids = None if self._id is None else [pointer.text(self._id, document) for document in documents]
        numbers = () if self._sequence is None else [_number(self._sequence, document) for document in documents]
        return Found(token, ids, numbers)

    def token(self, messages: Sequence[Message]) -> str | None:
        """The newest token of these."""
        if self._checkpoint is None:
            return None
        for message in reversed(messages):
            token = pointer.text(self._checkpoint, self._reader.read(message))
            if token is not None:
                return token
        return None

    def ids(self, messages: Sequence[Message]) -> Ids | None:
        if self._id is None:
            return None
        return [pointer.text(self._id, self._reader.read(message)) for message in messages]

    def numbers(self, messages: Sequence[Message]) -> Sequence[int | None]:
        if self._sequence is None:
            return ()
        return [_number(self._sequence, self._reader.read(message)) for message in messages]


def _compiled(text: str) -> Pointer | None:
    return pointer.compiled(text) if text else None


def _number(where: Pointer, document: object) -> int | None:
    text = pointer.text(where, document)
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None
