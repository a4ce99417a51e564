"""What the fork server gives every child to work with: what it has prepared, and where events and log lines go."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from workers import tls
from workers.handler import Handler, load
from workers.log import Write
from workers.preload import Contexts, Handlers
from workers.sinks.own import Sink
from workers.spec import Scope


@dataclass(frozen=True, slots=True)
class Means:
    """`handlers` (sinks of users among them) and `contexts` are by the texts in the configuration; what could not be shared is missing there, and
    made by each child. `stdout_fd` is the real stdout, for the sink alone."""

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

    def sink(self, reference: str, scope: Scope) -> type[Sink]:
        """The class of a sink of the user's own, as above."""
        found = self.handlers.get(reference)
        return found if found and issubclass(found, Sink) else load(reference, scope.base, scope.python_path, (Sink,))

    def context(self, scope: Scope) -> ssl.SSLContext:
        """Raises ValueError."""
        profile = tls.profile_of(scope.spec)
        if profile not in self.contexts:
            self.contexts[profile] = tls.context(profile)
        return self.contexts[profile]
