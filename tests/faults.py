"""What the proxy in front of an engine can do wrong, one small class per fault, and canned answers.

A fault picks requests by DynamoDB's name of the operation (empty: all) and, where given, by a predicate on the body or
by the session token that signed them; `act` then decides what happens to the exchange.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True)
class Seen:
    """One request; `status`, `answered_ns` and `answer` stay as they are until an answer was sent completely."""

    operation: str
    body: bytes
    arrived_ns: int
    status: int | None = None
    answered_ns: int | None = None
    answer: bytes = b""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str = "application/x-amz-json-1.0"

    def head(self) -> bytes:
        return (
            f"HTTP/1.1 {self.status} {http.client.responses.get(self.status, 'Unknown')}\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n\r\n"
        ).encode()


class Exchange(Protocol):
    """What a fault has to work with: one request, and the means to forward, answer or abandon it."""

    seen: Seen

    def forward(self, body: bytes | None = None) -> Answer:
        """Have the engine carry it out, with another body where one is given."""

    def send(self, answer: Answer) -> None: ...

    def send_raw(self, data: bytes) -> None: ...

    def pause(self, seconds: float) -> None:
        """Cut short when the proxy closes."""

    def silence(self) -> None:
        """Until the client gives up."""

    def drop(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Which requests; empty: all."""

    operation: str = ""
    when: Callable[[bytes], bool] = bool
    token: str = ""

    def __call__(self, seen: Seen) -> bool:
        return self.operation in ("", seen.operation) and self.token in ("", seen.token) and self.when(seen.body)


# In batches, and alone: an update of a range of beats that leaves the history as it is.
RENEWALS = Pick(when=lambda body: b'"Statements"' in body or (b"BETWEEN" in body and b'"history"' not in body))


class Fault(Protocol):
    @property
    def pick(self) -> Pick: ...
    def act(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True, slots=True)
class Hang:
    """The request reaches nobody; no answer ever comes."""

    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        exchange.silence()


@dataclass(frozen=True, slots=True)
class EatAnswers:
    """The request is carried out; its answer is lost, with the connection or in silence."""

    pick: Pick = Pick()
    close: bool = True

    def act(self, exchange: Exchange) -> None:
        exchange.forward()
        if self.close:
            exchange.drop()
        else:
            exchange.silence()


@dataclass(frozen=True, slots=True)
class Close:
    """The request reaches nobody; the connection is closed."""

    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        exchange.drop()


@dataclass(frozen=True, slots=True)
class DelayAnswers:
    """The request is carried out at once, and answered late."""

    seconds: float
    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        answer = exchange.forward()
        exchange.pause(self.seconds)
        exchange.send(answer)


@dataclass(frozen=True, slots=True)
class DelayRequests:
    """The request is carried out late, also when its client has given up by then."""

    seconds: float
    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        exchange.pause(self.seconds)
        exchange.send(exchange.forward())


@dataclass(frozen=True, slots=True)
class HoldRequests:
    """As `DelayRequests`, until `release`; then `landed` holds their answers."""

    pick: Pick = Pick()
    released: threading.Event = field(default_factory=threading.Event)
    landed: list[Answer] = field(default_factory=list)

    def release(self) -> None:
        self.released.set()

    def act(self, exchange: Exchange) -> None:
        self.released.wait(60)
        answer = exchange.forward()
        self.landed.append(answer)
        exchange.send(answer)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The request is carried out twice; the answer is that of the second."""

    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        exchange.forward()
        exchange.send(exchange.forward())


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Another body is carried out: an engine that ignores what `change` removes."""

    change: Callable[[bytes], bytes]
    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        exchange.send(exchange.forward(self.change(exchange.seen.body)))


@dataclass(frozen=True, slots=True)
class Reply:
    """A canned answer; the request is carried out only if `forwarded`."""

    answer: Answer
    pick: Pick = Pick()
    forwarded: bool = False

    def act(self, exchange: Exchange) -> None:
        if self.forwarded:
            exchange.forward()
        exchange.send(self.answer)


@dataclass(frozen=True, slots=True)
class CutBody:
    """The request is carried out; the connection ends in the middle of the answer's body."""

    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        answer = exchange.forward()
        exchange.send_raw(answer.head() + answer.body[: len(answer.body) // 2])
        exchange.drop()


@dataclass(frozen=True, slots=True)
class TrickleBody:
    """The request is carried out; the answer's body comes one byte every `seconds`."""

    seconds: float
    pick: Pick = Pick()

    def act(self, exchange: Exchange) -> None:
        answer = exchange.forward()
        exchange.send_raw(answer.head())
        for byte in answer.body:
            exchange.pause(self.seconds)
            exchange.send_raw(bytes([byte]))


# --- canned answers ---------------------------------------------------------------------------------------


def error(code: str, message: str = "", status: int = 400) -> Answer:
    """As DynamoDB spells errors."""
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}
    return Answer(status, json.dumps(body).encode())


def server_error() -> Answer:
    return error("InternalServerError", "The request processing has failed.", 500)


def throttled() -> Answer:
    return error("ProvisionedThroughputExceededException", "The level of configured throughput was exceeded.")


def access_denied(action: str) -> Answer:
    who = "arn:aws:sts::123456789012:assumed-role/task/i-0123456789"
    return error("AccessDeniedException", f"User: {who} is not authorized to perform: dynamodb:{action} on resource: x")


def expired_token() -> Answer:
    return error("ExpiredTokenException", "The security token included in the request is expired")


def wrong_clock() -> Answer:
    """What a host is told whose clock stepped by more than five minutes."""
    message = "Signature expired: 20260101T000000Z is now earlier than 20260102T000000Z (20260102T000500Z - 5 min.)"
    return error("InvalidSignatureException", message)


def html() -> Answer:
    return Answer(200, b"<html><body>Please sign in to this network</body></html>", "text/html")
