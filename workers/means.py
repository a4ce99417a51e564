"""What the fork server gives every child to work with: what it has prepared, and where events and log lines go."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from workers import tls
from workers.handler import Handler, load
from workers.log import Write
from workers.preload import Contexts, Handlers
from workers.spec import Scope


@dataclass(frozen=True, slots=True)
class Means:
    """`handlers` and `contexts` are by the texts in the configuration; what could not be shared is missing there, and
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
        return self.handlers.get(reference) or load(reference, scope.base, scope.python_path)

    def context(self, scope: Scope) -> ssl.SSLContext:
        """Raises ValueError."""
        ca = scope.spec.tls_ca
        if ca not in self.contexts:
            self.contexts[ca] = tls.context(ca)
        return self.contexts[ca]
