"""What the fork server imports and builds once for all its children: modules of handlers and sinks, TLS contexts.

Each module is first tried in a process of its own (see `trial`): a module that raises, hangs, ends the process,
starts a thread or closes files would take the fork server along, or every child after it. Such a module is left out
with a warning, and each child that needs it imports it after the fork.

What holds: the trials run side by side, and neither they nor the imports after them go on beyond a budget, so that a
handler that is slow delays the children of others by a few seconds at most. The quickest are imported first.

Not promised: that a module sees its child's environment while it is imported here; that one exists only after the
fork. A module that needs a variable at import and raises without it is imported in the child, as above.
"""

from __future__ import annotations

import codecs
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from workers.blame import in_words
from workers.handler import BadHandler, Handler, load
from workers.process.trial import tried
from workers.process.wire import Preparation
from workers.sinks.own import Sink
from workers.websocket import tls

BUDGET_S = 5.0  # of all trials together, and again of all imports; the last import to begin in time may exceed it

Handlers = dict[str, type[Any]]
Contexts = dict[tls.Profile, ssl.SSLContext]
Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Preloaded:
    """Handlers are by the text in the configuration. A child makes for itself what is missing here."""

    handlers: Handlers
    contexts: Contexts


def preload(wanted: Preparation, warn: Warn, budget_s: float = BUDGET_S) -> Preloaded:
    """Import and build all that can safely be shared; tell `warn` in a sentence about each thing that cannot."""
    handlers = _imported(wanted, warn, budget_s)
    codecs.lookup("idna")  # the resolver does, at its first use, which would cost each child a megabyte
    contexts: Contexts = {}
    for profile in wanted.tls_profiles:
        try:
            contexts[profile] = tls.context(profile)
        except ValueError as error:
            warn(str(error))
    return Preloaded(handlers, contexts)


def _imported(wanted: Preparation, warn: Warn, budget_s: float) -> Handlers:
    kinds = (Handler, Sink)  # which of them it has to be is for who uses it to say
    loads = {name: partial(load, name, wanted.base, wanted.python_path, kinds) for name in wanted.handlers}
    faults = tried(loads, budget_s)
    handlers: Handlers = {}
    until_s = time.monotonic() + budget_s
    for reference, fault in faults.items():
        if not fault and time.monotonic() >= until_s:
            fault = f"came after others that took {budget_s:g} s together"
        if not fault:
            try:
                handlers[reference] = loads[reference]()
            except Exception as error:
                fault = f"passed its trial and then raised {in_words(error)}"
        if fault:
            warn(_sentence(reference, fault))
    return handlers


def _sentence(reference: str, fault: str) -> str:
    """What is wrong, and what that leads to: it begins with the reference, to which the parent adds whose it is."""
    told = fault.removeprefix(f"raised {BadHandler.__name__}: ")
    if told != fault:
        return f"{reference}: {told.partition(f'{reference!r}: ')[2] or told}, so none of its children can start"
    return f"{reference} {fault} when imported, so each of its children imports it by itself"
