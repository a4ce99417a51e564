"""What is answered over HTTP, as a WSGI application. It only reads: GET and HEAD.

    /healthz      200 as long as the supervisor's loop turns, whatever the store does; else 503
    /readyz       200, or 503 with the reason as text
    /metrics      Prometheus' text format
    /api/leases   the JSON of `status --json`. While the store cannot be read, the last one: `Age` says how old it is,
                  `Tenured-Error` why; 503 with {"error": ...} if there is none
    /             the status page

The first two tell nothing secret and are answered whatever the Host header says, since load balancers send what they
like; the others only under an expected name (see `hostnames`). No answer may be kept by a cache, framed, or read by
another site's page; nothing but our own script runs on the page.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from supervisor.metrics.exposition import CONTENT_TYPE as METRICS
from supervisor.serving.latest import Latest
from supervisor.serving.page.document import Document
from supervisor.stores.interface import Unavailable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"

NO_CONTENT = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": NO_CONTENT,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
FOR_ANY_HOST = ("/healthz", "/readyz")


class Sources(Protocol):
    """Where answers come from; called from any of several threads."""

    def health(self) -> Mapping[str, Any]:
        """`ready` and `reason`, among others. Raises TimeoutError when the loop does not turn."""

    def fleet(self) -> tuple[bytes, float]:
        """The status JSON and its age in seconds. Raises `Unavailable`."""

    def metrics(self) -> bytes:
        """Prometheus' text format."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    kind: str
    body: bytes
    headers: Mapping[str, str]


def application(sources: Sources, accepted: Callable[[str], bool], page: Document) -> WSGIApplication:
    """`accepted` judges a Host header."""
    latest = Latest(sources.fleet)
    routes: dict[str, Callable[[], Answer]] = {
        "/healthz": lambda: _healthz(sources),
        "/readyz": lambda: _readyz(sources),
        "/metrics": lambda: Answer(HTTPStatus.OK, METRICS, sources.metrics(), {}),
        "/api/leases": lambda: _leases(latest),
        "/": lambda: Answer(HTTPStatus.OK, HTML, page.body, {"Content-Security-Policy": page.policy}),
    }

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        found = _answer(environ, routes, accepted)
        measured = {"Content-Type": found.kind, "Content-Length": str(len(found.body))}
        start_response(_line(found.status), [*(SECURITY | measured | dict(found.headers)).items()])
        return () if environ["REQUEST_METHOD"] == "HEAD" else _unread(environ, found.body)

    return answer


def _answer(
    environ: WSGIEnvironment, routes: Mapping[str, Callable[[], Answer]], accepted: Callable[[str], bool]
) -> Answer:
    path = environ.get("PATH_INFO", "")
    if path not in routes:
        return _text(HTTPStatus.NOT_FOUND, f"there is nothing here, try one of {' '.join(routes)}")
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered", {"Allow": "GET, HEAD"})
    if path not in FOR_ANY_HOST and not accepted(environ.get("HTTP_HOST", "")):
        sentence = "this Host is not answered: ask by address or as localhost, or add the name to http_hosts"
        return _text(HTTPStatus.FORBIDDEN, sentence)
    return routes[path]()


def _healthz(sources: Sources) -> Answer:
    try:
        sources.health()
    except TimeoutError:
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, "the supervisor's loop does not turn")
    return _text(HTTPStatus.OK, "the supervisor is alive")


def _readyz(sources: Sources) -> Answer:
    try:
        health = sources.health()
    except TimeoutError:
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, "the supervisor's loop does not turn")
    if health["ready"]:
        return _text(HTTPStatus.OK, "the supervisor is ready")
    return _text(HTTPStatus.SERVICE_UNAVAILABLE, str(health["reason"]))


def _leases(latest: Latest) -> Answer:
    try:
        look = latest.get()
    except Unavailable as error:
        body = json.dumps({"error": f"the store cannot be read: {error}"}).encode() + b"\n"
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, JSON, body, {"Retry-After": "1"})
    headers = {"Age": str(int(look.age_s))}
    if look.error:
        headers["Tenured-Error"] = _one_line(f"the store cannot be read: {look.error}")
    return Answer(HTTPStatus.OK, JSON, look.body, headers)


def _text(status: HTTPStatus, sentence: str, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, TEXT, sentence.encode(errors="backslashreplace") + b"\n", headers or {})


def _one_line(text: str) -> str:
    """As a header can carry it."""
    return "".join(each if " " <= each <= "~" else "?" for each in text)


def _line(status: HTTPStatus) -> str:
    return f"{status.value} {status.phrase}"


def _unread(environ: WSGIEnvironment, body: bytes) -> Iterable[bytes]:
    """The body as a file, which shares its memory with all who have yet to read the same one; as bytes the server would
    copy it for each of them."""
    wrapper = environ.get("wsgi.file_wrapper")
    return (body,) if wrapper is None else wrapper(io.BytesIO(body))
