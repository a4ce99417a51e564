"""What the fork server gives every child to work with: what it has prepared, and where events and log lines go."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from functools import partial

from workers.handler import Handler, load
from workers.log import Write
from workers.process.preload import Contexts, Handlers
from workers.sinks import own
from workers.sinks.choice import sink_of
from workers.sinks.envelope import Envelope
from workers.sinks.interface import Report, Sink, SinkContext
from workers.spec import Scope, Task
from workers.websocket import tls


@dataclass(frozen=True, slots=True)
class Means:
    """`handlers` (and classes of sinks) and `contexts` are by what the configuration says; what could not be shared is
    missing there, and made by each child. `stdout_fd` is the real stdout, for the sink alone."""

    handlers: Handlers
    contexts: Contexts
    stdout_fd: int
    write_log: Write
    parent_bell_fd: int = -1  # an eventfd: the parent looks at the board; -1: nobody listens

    def handler(self, scope: Scope) -> type[Handler] | None:
        """None: the stream has none. Raises `BadHandler`, or whatever the module raises."""
        reference = scope.spec.handler
        if not reference:
            return None
        found = self.handlers.get(reference)
        return found if found and issubclass(found, Handler) else load(reference, scope.base, scope.python_path)

    def sink(self, task: Task, report: Report) -> Sink:
        """Open. Raises `BadSink` or `BadHandler`."""
        scope = task.scope
        context = SinkContext(task, Envelope(task.shard, task.epoch), report, os.environ, self.stdout_fd)
        sink = sink_of(scope.spec.sink, context, partial(self._class_of_sink, scope))
        sink.open()
        return sink

    def _class_of_sink(self, scope: Scope, reference: str) -> type[own.Sink]:
        shared = self.handlers.get(reference)
        return shared if shared and issubclass(shared, own.Sink) else own.loaded(reference, scope)

    def context(self, scope: Scope) -> ssl.SSLContext:
        """Raises ValueError."""
        profile = tls.profile_of(scope.spec)
        if profile not in self.contexts:
            self.contexts[profile] = tls.context(profile)
        return self.contexts[profile]
