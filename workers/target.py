"""What one attempt connects to: url, headers and subscriptions, expanded from the file's templates each time.

Expansion reads files, so it belongs into the thread of the attempt, never on the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from workers.spec import Task
from workers.template import Template, parse


@dataclass(frozen=True, slots=True)
class Target:
    """The subscriptions are sent in order as soon as the connection is open."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    subscriptions: tuple[str, ...] = ()


class Targets:
    """The templates of a task, parsed once. Raises `TemplateError`."""

    __slots__ = ("_environment", "_headers", "_subscriptions", "_task", "_urls", "_variables")

    def __init__(self, task: Task, environment: Mapping[str, str]) -> None:
        self._task = task
        self._environment = environment
        self._urls = [parse(text) for text in task.spec.url]
        self._headers = [(name, parse(text)) for name, text in task.spec.headers]
        self._subscriptions = [parse(text) for text in task.spec.subscribe]
        self._variables = {
            "fleet": task.fleet,
            "stream": task.spec.stream,
            "shard": task.shard,
            "index": task.index,
            "epoch": str(task.epoch),
            "host": task.host,
        }

    @property
    def connections(self) -> int:
        """One for each url; a handler that names its own target has one."""
        return len(self._urls) or 1

    def address(self, connection: int, checkpoint: str) -> tuple[str, dict[str, str]]:
        """Url and headers of a connection. Raises `TemplateError`."""
        if not self._urls:
            raise ValueError("there is no url in the file, so the handler has to give one from target()")
        url = self._expand(self._urls[connection], connection, checkpoint)
        return url, {name: self._expand(text, connection, checkpoint) for name, text in self._headers}

    def subscriptions(self, connection: int, checkpoint: str) -> tuple[str, ...]:
        """Raises `TemplateError`."""
        return tuple(self._expand(text, connection, checkpoint, json=True) for text in self._subscriptions)

    def _expand(self, template: Template, connection: int, checkpoint: str, json: bool = False) -> str:
        variables = {**self._variables, "connection": str(connection), "checkpoint": checkpoint}
        return template.expand(variables, self._environment, self._task.base, self._task.credentials, json=json)


def shown(url: str) -> str:
    """A url for logs: without user, password, query and fragment, where tokens live."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "?"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or "?"
    return f"{parts.scheme}://{host}{port}{parts.path}"
