"""`http://HOST/PATH` and `https://HOST/PATH`: a POST of lines of JSON for each parcel of events.

    POST /PATH
    Content-Type: application/x-ndjson
    Idempotency-Key: trades/7/12/1-500        shard/epoch/first seq-last seq, the same for a retry
    Content-Encoding: gzip                    with sink_compression = gzip

What holds: 2xx means that the far end has all of it, and nothing else does. 408, 425, 429, 5xx and silence are tried
again, no sooner than a Retry-After says. 400, 413 and 422 may be the fault of one event: such a parcel is halved until
that one is found. Any other answer waits for somebody to mend it, redirects as well. A parcel that was too large (413)
teaches the next ones half its size. Headers are expanded for each request, so that a rotated secret is in the next.

Not promised: that a 2xx comes from the right place; only https can say so. A request that was given up may still be
taken later: a second copy of the same events, under the same key.
"""

from __future__ import annotations

import re
import time
import zlib

from workers.sinks.address import http_address
from workers.sinks.interface import BadSink, SinkContext
from workers.sinks.outcome import Again, Outcome, Refused, Safe, Unfit
from workers.sinks.parcel import Limits, Parcel
from workers.sinks.post import Answer, Poster, Unanswered
from workers.stream.target import variables_of
from workers.template import TemplateError, parse
from workers.websocket.retry_after import retry_after_s

_EVENTS_MAX = 500  # where `sink_batch` says nothing
_SIZE_MAX_BYTES = 1024 * 1024
_SIZE_MIN_BYTES = 16 * 1024  # what an answer of 413 may teach us
_TRANSIENT_4XX = (408, 425, 429)
_CONTENT_4XX = (400, 413, 422)
_TOO_LARGE = 413
_OURS = ("content-encoding", "content-length", "host", "idempotency-key", "transfer-encoding", "connection")
_GZIP = 31  # zlib's number for its format with the largest window


class Http:
    """A `FarEnd`."""

    def __init__(self, text: str, context: SinkContext) -> None:
        spec = context.task.scope.spec
        self._context = context
        try:
            self._address = http_address(text)
        except ValueError as error:
            raise BadSink(f"sink needs {error}") from None
        self._headers = [(name, parse(value)) for name, value in spec.sink_headers]
        if taken := [name for name, _ in spec.sink_headers if name.lower() in _OURS]:
            raise BadSink(f"sink_header.{taken[0]} is set by the request itself; remove it")
        self._gzip = spec.sink_compression == "gzip"
        self.where = self._address.where
        self.limits = Limits(spec.sink_batch or _EVENTS_MAX, _SIZE_MAX_BYTES)
        self._poster = Poster(self._address, spec.sink_timeout_ms / 1000)

    def close(self) -> None:
        self._poster.close()

    def attempt(self, parcel: Parcel) -> Outcome:
        body = b"".join(parcel.lines)
        try:
            headers = self._headers_for(parcel)
            answer = self._poster.post(headers, zlib.compress(body, wbits=_GZIP) if self._gzip else body)
        except TemplateError as error:
            return Refused(f"{error}; so there is no request, and no answer")
        except Unanswered as error:
            return Again(str(error))
        outcome = outcome_of(answer, time.clock_gettime(time.CLOCK_REALTIME))
        if isinstance(outcome, Unfit) and outcome.too_large and len(parcel) > 1:
            self.limits = Limits(self.limits.events, max(len(body) // 2, _SIZE_MIN_BYTES))
        return outcome

    def _headers_for(self, parcel: Parcel) -> list[tuple[str, bytes]]:
        """Raises `TemplateError`."""
        task, environment = self._context.task, self._context.environment
        variables, scope = variables_of(task), task.scope
        headers = {
            "content-type": ("Content-Type", b"application/x-ndjson"),
            "user-agent": ("User-Agent", b"tenured"),
            "idempotency-key": ("Idempotency-Key", f"{task.shard}/{task.epoch}/{parcel.span}".encode()),
        }
        if self._gzip:
            headers["content-encoding"] = ("Content-Encoding", b"gzip")
        for name, template in self._headers:
            value = template.expand(variables, environment, scope.base, scope.credentials)
            if re.search(r"[\0-\x08\n-\x1f\x7f]", value):
                raise TemplateError(f"sink_header.{name} holds a line break or another control character")
            headers[name.lower()] = (name, value.encode())
        return list(headers.values())


def outcome_of(answer: Answer, unix_s: float) -> Outcome:
    status = answer.status
    reason = f"answer {status}"
    if 200 <= status < 300:
        return Safe() if answer.whole else Again(f"{reason} before all of the request was sent")
    if 300 <= status < 400:
        return Refused(f"{reason}, a redirect, which is not followed,")
    if status in _CONTENT_4XX:
        return Unfit(reason, too_large=status == _TOO_LARGE)
    if 400 <= status < 500 and status not in _TRANSIENT_4XX:
        return Refused(reason)
    return Again(reason, retry_after_s(answer.retry_after, unix_s))
