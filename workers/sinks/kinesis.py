"""`kinesis:NAME`, `kinesis:ARN`, each with `?region=`, `&endpoint_url=`, `&profile=`: a record for each event.

A record is the event's line, with its line break, so that what concatenates records (Firehose) makes lines of them. The
partition key is the shard's name: all events of a shard are in one shard of the stream, which takes 1 MiB and 1,000
records in a second. So a request has 1 MiB at most, though the service would take more.

What holds: when records of a request fail, it is sent again from the first of them on, also those behind it that had
succeeded. Thus the stream may have copies, but it has 1, 2, 3 ... of an epoch in this order among them: who takes an
event only when it follows the last one that he took has each once and in order.
"""

from __future__ import annotations

from typing import Any

from workers.sinks.address import stream_address
from workers.sinks.aws import Failed, Service
from workers.sinks.interface import BadSink, SinkContext
from workers.sinks.outcome import Again, Outcome, Partly, Safe
from workers.sinks.parcel import Limits, Parcel

_EVENTS_MAX = 500
_SIZE_MAX_BYTES = 1024 * 1024


class Kinesis:
    """A `FarEnd`."""

    def __init__(self, text: str, context: SinkContext) -> None:
        try:
            address = stream_address(text)
        except ValueError as error:
            raise BadSink(f"sink needs {error}") from None
        self._target = {"StreamARN" if address.name.startswith("arn:") else "StreamName": address.name}
        self._key = context.task.shard
        spec = context.task.scope.spec
        self.where = address.where
        self.limits = Limits(min(spec.sink_batch or _EVENTS_MAX, _EVENTS_MAX), _SIZE_MAX_BYTES, len(self._key))
        self._service = Service("kinesis", address.options, spec.sink_timeout_ms / 1000)

    def close(self) -> None:
        self._service.close()

    def attempt(self, parcel: Parcel) -> Outcome:
        records = [{"Data": line, "PartitionKey": self._key} for line in parcel.lines]
        try:
            answer = self._service.call("put_records", Records=records, **self._target)
        except Failed as error:
            return error.outcome
        return outcome_of(answer, len(parcel))


def outcome_of(answer: dict[str, Any], count: int) -> Outcome:
    """Of an answer to `count` records. One that does not speak of each of them proves nothing."""
    results = answer.get("Records")
    if not isinstance(results, list) or len(results) != count:
        return Again("no proper answer (its records are not those of the request)")
    failed = [place for place, result in enumerate(results) if "SequenceNumber" not in result]
    if not failed:
        return Safe()
    code = str(results[failed[0]].get("ErrorCode") or "error")[:80]
    return Partly(tuple(range(failed[0], count)), f"{code} for {len(failed)} of {count} events")
