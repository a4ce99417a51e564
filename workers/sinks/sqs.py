"""`sqs:QUEUE_URL`, with `?region=`, `&endpoint_url=`, `&profile=`: a message for each event.

A message is the event's line without its line break. Requests go to the host of the queue's URL.

What holds: of a request of which some messages failed, these are sent again, in order. In a FIFO queue the group is the
shard, and the deduplication id is shard/epoch/seq, so that a retry within five minutes makes no copy.

Not promised: order after such a failure. A standard queue keeps none anyway; in a FIFO queue what failed comes after
what was sent with it, and the numbers tell. With `sink_batch = 1` nothing can overtake.
"""

from __future__ import annotations

import hashlib
from typing import Any

from workers.sinks.address import queue_address
from workers.sinks.aws import Failed, Service, transient
from workers.sinks.interface import BadSink, SinkContext
from workers.sinks.outcome import Again, Outcome, Partly, Safe, Unfit
from workers.sinks.parcel import Limits, Parcel

_EVENTS_MAX = 10
_SIZE_MAX_BYTES = 256 * 1024
_ID_MAX_CHARS = 128
_NUMBER_CHARS = 20  # of an epoch or a seq


class Sqs:
    """A `FarEnd`."""

    def __init__(self, text: str, context: SinkContext) -> None:
        try:
            self._address = address = queue_address(text)
        except ValueError as error:
            raise BadSink(f"sink needs {error}") from None
        self._group = group_of(context.task.shard)
        self._epoch = context.task.epoch
        spec = context.task.scope.spec
        self.where = address.where
        self.limits = Limits(min(spec.sink_batch or _EVENTS_MAX, _EVENTS_MAX), _SIZE_MAX_BYTES)
        self._service = Service("sqs", address.options, spec.sink_timeout_ms / 1000)

    def close(self) -> None:
        self._service.close()

    def attempt(self, parcel: Parcel) -> Outcome:
        entries = [self._entry(place, seq, parcel.lines[place]) for place, seq in enumerate(parcel.seqs)]
        try:
            answer = self._service.call("send_message_batch", QueueUrl=self._address.url, Entries=entries)
        except Failed as error:
            return error.outcome
        return outcome_of(answer, len(parcel))

    def _entry(self, place: int, seq: int, line: bytes) -> dict[str, str]:
        entry = {"Id": str(place), "MessageBody": body_of(line)}
        if self._address.fifo:
            entry["MessageGroupId"] = self._group
            entry["MessageDeduplicationId"] = f"{self._group}/{self._epoch}/{seq}"
        return entry


def group_of(shard: str) -> str:
    """The shard's name; its digest where that would make ids longer than the service takes."""
    if len(shard) + 2 * (1 + _NUMBER_CHARS) <= _ID_MAX_CHARS:
        return shard
    return hashlib.sha256(shard.encode(), usedforsecurity=False).hexdigest()


def body_of(line: bytes) -> str:
    """Two characters that the service refuses become escapes; of JSON, they can stand in strings alone."""
    return line[:-1].decode().replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def outcome_of(answer: dict[str, Any], count: int) -> Outcome:
    """Of an answer to `count` messages. One that does not speak of each of them proves nothing."""
    failed = {str(entry.get("Id")): entry for entry in answer.get("Failed") or ()}
    told = [*failed, *(str(entry.get("Id")) for entry in answer.get("Successful") or ())]
    if sorted(told) != sorted(map(str, range(count))):
        return Again("no proper answer (its messages are not those of the request)")
    if not failed:
        return Safe()
    places = tuple(sorted(map(int, failed)))
    codes = [str(failed[str(place)].get("Code") or "error").rpartition(".")[2][:80] for place in places]
    if len(places) == count and all(_at_fault(entry) for entry in failed.values()):
        return Unfit(codes[0])
    return Partly(places, f"{codes[0]} for {len(places)} of {count} events")


def _at_fault(entry: dict[str, Any]) -> bool:
    """The message itself is why it failed."""
    return bool(entry.get("SenderFault")) and not transient(str(entry.get("Code")))
