"""From the text of `sink =` to a sink."""

from __future__ import annotations

import os

from workers.envelope import Envelope
from workers.sinks.discard import Discard
from workers.sinks.interface import BadSink, Sink
from workers.sinks.jsonl import Jsonl
from workers.sinks.stdout import Stdout

FORMS = "stdout, jsonl:PATH or discard"


def sink_of(text: str, base: str, envelope: Envelope, stdout_fd: int) -> Sink:
    """A sink, not yet open; a relative path resolves against `base`. Raises `BadSink`."""
    kind, _, rest = text.partition(":")
    if text == "stdout":
        return Stdout(stdout_fd, envelope)
    if text == "discard":
        return Discard()
    if kind == "jsonl" and rest:
        return Jsonl(os.path.join(base, rest), envelope)
    raise BadSink(f"sink {text!r} is none, expected {FORMS}")
