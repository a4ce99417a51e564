"""What one attempt connects to: url, headers and subscriptions, expanded from the file's templates each time.

A checkpoint is a text of the far end's, so in a url it is percent-encoded (a `+` or `&` would mean something else
there), as in JSON it is escaped; a header takes it as it is, or cannot take it. Expansion reads files, so it belongs
into the thread of the attempt, never on the loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from workers.spec import StreamSpec, Task
from workers.template import Template, parse


@dataclass(frozen=True, slots=True)
class Target:
    """The subscriptions are sent in order as soon as the connection is open."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    subscriptions: tuple[str, ...] = ()
    proxy: str = "none"  # see `proxy`
    deflate: bool = False  # whether compression is offered
    checkpoint: str = ""  # the one that the file's templates inserted


class Templates:
    """The templates of a stream, parsed once. Raises `TemplateError`."""

    __slots__ = ("_in_header", "connections", "headers", "proxy", "resuming", "subscriptions", "urls")

    def __init__(self, spec: StreamSpec) -> None:
        self.urls = [parse(text) for text in spec.url]
        self.headers = [(name, parse(text)) for name, text in spec.headers]
        self.subscriptions = [parse(text) for text in spec.subscribe]
        self.proxy = parse(spec.proxy)
        self.connections = len(self.urls) or 1  # a handler that names its own target has one
        told = (*self.urls, *(text for _, text in self.headers), *self.subscriptions)
        self.resuming = any("checkpoint" in text.names() for text in told)  # the far end is told where to go on
        self._in_header = any("checkpoint" in text.names() for _, text in self.headers)

    def carries(self, checkpoint: str) -> bool:
        """Whether it can stand where the file inserts it: a url and JSON take anything, a header does not."""
        return not self._in_header or fits_header(checkpoint)


def variables_of(task: Task) -> dict[str, str]:
    """What templates of a child may name, whatever the connection."""
    scope = task.scope
    return {
        "fleet": scope.fleet,
        "stream": scope.spec.stream,
        "shard": task.shard,
        "index": task.index,
        "epoch": str(task.epoch),
        "host": scope.host,
    }


class Targets:
    """What the templates of its stream become in a shard."""

    __slots__ = ("_environment", "_scope", "_templates", "_variables")

    def __init__(self, templates: Templates, task: Task, environment: Mapping[str, str]) -> None:
        self._templates = templates
        self._scope = task.scope
        self._environment = environment
        self._variables = variables_of(task)

    def address(self, connection: int, checkpoint: str) -> tuple[str, dict[str, str]]:
        """Url and headers of a connection. Raises `TemplateError`."""
        if not self._templates.urls:
            raise ValueError("there is no url in the file, so the handler has to give one from target()")
        url = self._expand(self._templates.urls[connection], connection, _percent_encoded(checkpoint))
        headers = {}
        for name, text in self._templates.headers:
            headers[name] = self._expand(text, connection, checkpoint)
        return url, headers

    def target(self, url: str, headers: Mapping[str, str], connection: int, checkpoint: str) -> Target:
        """An address, of the file or of a handler, with all that the file says besides. Raises `TemplateError`."""
        proxy = self._expand(self._templates.proxy, connection, checkpoint)
        subscriptions = self.subscriptions(connection, checkpoint)
        deflate = self._scope.spec.compression == "deflate"
        told = checkpoint if self._templates.resuming else ""
        return Target(url, tuple(headers.items()), subscriptions, proxy, deflate, told)

    def subscriptions(self, connection: int, checkpoint: str) -> tuple[str, ...]:
        """Raises `TemplateError`."""
        texts = self._templates.subscriptions
        return tuple(self._expand(text, connection, checkpoint, json=True) for text in texts) if texts else ()

    def _expand(self, template: Template, connection: int, checkpoint: str, json: bool = False) -> str:
        variables = {**self._variables, "connection": str(connection), "checkpoint": checkpoint}
        return template.expand(variables, self._environment, self._scope.base, self._scope.credentials, json=json)


def fits_header(text: str) -> bool:
    """No control character (RFC 9110, section 5.5), of which a line break would begin another header."""
    return not _CONTROL.search(text)


def _percent_encoded(text: str) -> str:
    if not text:
        return text
    return _RESERVED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


_RESERVED = re.compile(r"[^A-Za-z0-9._~-]+")
_CONTROL = re.compile("[\0-\x08\x0a-\x1f\x7f]")
_URL = re.compile(
    r"(?P<scheme>wss?)://(?:(?P<login>[^/?#]*)@)?(?P<place>(?P<host>\[[0-9a-f:.%]+\]|[^/?#@:\[\]]+)(?::(?P<port>[0-9]{0,5}))?)"
    r"(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?:#.*)?",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)


def parts(url: str) -> re.Match[str] | None:
    """`scheme`, `login`, `place` (host and port), `host`, `port`, `path` and `query` with its question mark; None: it
    is no WebSocket url. One match instead of `urlsplit`, which is many functions for a child to touch."""
    return _URL.fullmatch(url)


def shown(url: str) -> str:
    """A url for logs: scheme, host and port. User, password, path, query and fragment are where tokens live."""
    found = parts(url)
    return f"{found['scheme']}://{found['place']}" if found else "?"
