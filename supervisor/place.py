"""Where this supervisor runs: its host, and on ECS its task and zone, for people and for member rows.

What holds: without ECS' own variable nothing is contacted (no EC2 metadata service, ever); with it, one plain HTTP
request goes to the address that it names, past any proxy, and the whole of it is bounded in time and in bytes. A
failure costs the task and the zone, and is one sentence.

It blocks for at most `timeout_s`: call it off the loop. No decision reads what comes out.
"""

from __future__ import annotations

import io
import ipaddress
import json
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
ANSWER_MAX_BYTES = 64 * 1024
_TASK = re.compile(r"arn:[\w:/-]*/([\w-]{1,64})", re.ASCII)
_ZONE = re.compile(r"[a-z0-9-]{1,32}")


@dataclass(frozen=True, slots=True)
class Place:
    """`task` and `zone` are empty outside of ECS, and where it did not tell them."""

    host: str
    task: str = ""
    zone: str = ""


class _Failed(Exception):
    """One phrase."""


def find(environ: Mapping[str, str], timeout_s: float = 2.0) -> tuple[Place, str]:
    """The place, and a sentence about what could not be learned; empty: nothing went wrong."""
    host = socket.gethostname()
    address = environ.get(VARIABLE, "")
    if not address:
        return Place(host), ""
    try:
        task, zone = _told(_asked(address, time.monotonic() + timeout_s))
    except _Failed as failure:
        return Place(host), f"the task and zone are not known, since {failure}"
    return Place(host, task, zone), ""


def _asked(address: str, deadline_s: float) -> bytes:
    """The body of the answer. The address itself stays out of every message."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or 80
        private = ipaddress.ip_address(host).is_private
    except ValueError:
        private = False
    if not private or parts.scheme != "http" or parts.username is not None:
        raise _Failed(f"{VARIABLE} is no http:// URL of an address that is local, such as http://169.254.170.2/v4/ID")
    try:
        answer = _exchanged(host, port, _request(parts), deadline_s)
    except TimeoutError:
        raise _Failed("ECS' metadata did not answer in time") from None
    except OSError as error:
        raise _Failed(f"ECS' metadata cannot be reached: {(error.strerror or 'failed').lower()}") from None
    return _body(answer)


def _request(parts: SplitResult) -> bytes:
    """HTTP/1.0, so that the end of the connection is the end of the answer."""
    path = f"{parts.path.rstrip('/')}/task"
    if not re.fullmatch(r"[!-~]+", path):
        raise _Failed(f"{VARIABLE} has a path that cannot be asked for")
    return f"GET {path} HTTP/1.0\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode()


def _exchanged(host: str, port: int, request: bytes, deadline_s: float) -> bytes:
    """All that comes back. Each step gets what is left of the time: a timeout of the socket alone would let an answer
    trickle for as long as it likes."""
    with socket.create_connection((host, port), _left_s(deadline_s)) as connection:
        connection.settimeout(_left_s(deadline_s))
        connection.sendall(request)
        answer = bytearray()
        while True:
            connection.settimeout(_left_s(deadline_s))
            piece = connection.recv(ANSWER_MAX_BYTES)
            if not piece:
                return bytes(answer)
            answer += piece
            if len(answer) > ANSWER_MAX_BYTES:
                raise _Failed(f"ECS' metadata answered more than {ANSWER_MAX_BYTES} bytes")


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


@dataclass(frozen=True, slots=True)
class _Received:
    """An answer that has come, where the parser expects a socket."""

    answer: bytes

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self.answer)


def _body(answer: bytes) -> bytes:
    response = HTTPResponse(cast(socket.socket, _Received(answer)))
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ValueError):
        raise _Failed("ECS' metadata did not answer in HTTP") from None
    if response.status != 200:
        raise _Failed(f"ECS' metadata answered with HTTP {response.status}")
    return body


def _told(body: bytes) -> tuple[str, str]:
    """The short id of the task, and the zone, which older agents do not tell."""
    try:
        known: Any = json.loads(body)
        task = _TASK.fullmatch(known["TaskARN"])
        zone = known.get("AvailabilityZone") or ""
        if task is None or (zone and not _ZONE.fullmatch(zone)):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _Failed("ECS' metadata does not tell them") from None
    return task[1], zone
