"""An event as one line of JSON, and the batch of events that travels from the loop to a sink.

    {"shard":"trades/7","epoch":12,"seq":1,"connection":0,"received_at":"2026-01-01T00:00:00.000000Z","data":"..."}

What holds: `(shard, epoch, seq)` names a delivery for ever; bytes are `data_base64`; `connection` is null for an
event that a handler emitted outside of a message; behind `seq` comes the feed's own `"id":"..."` where the file says
where to find one and it is there. A line holds no line break but its last byte.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from json.encoder import encode_basestring, encode_basestring_ascii

from workers.websocket.frames import Message


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that arrived together. `first_seq` is the number of the first, `size` their bytes, about; `ids` has an
    entry for each message, or is None where nobody asked for ids."""

    connection: int | None
    first_seq: int
    received_at_ns: int  # unix
    messages: list[Message]
    size: int
    ids: list[str | None] | None = None


class Envelope:
    """The lines of one shard under one epoch."""

    __slots__ = ("_head",)

    def __init__(self, shard: str, epoch: int) -> None:
        self._head = f'{{"shard":{encode_basestring_ascii(shard)},"epoch":{epoch},"seq":'

    def lines(self, batch: Batch) -> bytes:
        try:
            return self._lines(batch, encode_basestring).encode()
        except UnicodeEncodeError:  # half a surrogate pair that a handler emitted: only an escape can say it
            return self._lines(batch, encode_basestring_ascii).encode()

    def _lines(self, batch: Batch, quoted: Callable[[str], str]) -> str:
        connection = "null" if batch.connection is None else batch.connection
        head = self._head
        middle = f',"connection":{connection},"received_at":"{_moment(batch.received_at_ns)}","data'
        numbers: Iterable[int | str] = range(batch.first_seq, batch.first_seq + len(batch.messages))
        if batch.ids is not None:
            marks = zip(numbers, batch.ids, strict=True)
            numbers = [seq if name is None else f'{seq},"id":{quoted(name)}' for seq, name in marks]
        return "".join(
            [
                f'{head}{seq}{middle}":{quoted(message)}}}\n'
                if isinstance(message, str)
                else f'{head}{seq}{middle}_base64":"{base64.b64encode(message).decode()}"}}\n'
                for seq, message in zip(numbers, batch.messages, strict=True)
            ]
        )


def _moment(unix_ns: int) -> str:
    seconds, rest_ns = divmod(unix_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1000:06}Z"
