"""From the text of `sink =` to a sink. What only some children need is imported by them alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from workers.sinks import own
from workers.sinks.discard import Discard
from workers.sinks.interface import BadSink, Sink, SinkContext
from workers.sinks.jsonl import Jsonl
from workers.sinks.stdout import Stdout

FORMS = "stdout, jsonl:PATH, http(s)://..., kinesis:NAME, sqs:URL, discard, FILE.py:CLASS or MODULE:CLASS"
_NETWORK = {  # by what stands before the first colon: a `FarEnd`, made of the text and a context, or raises BadSink
    "http": ("workers.sinks.http", "Http"),
    "https": ("workers.sinks.http", "Http"),
    "kinesis": ("workers.sinks.kinesis", "Kinesis"),
    "sqs": ("workers.sinks.sqs", "Sqs"),
}


def sink_of(text: str, context: SinkContext, load: Callable[[str], type[own.Sink]]) -> Sink:
    """A sink, not yet open. Raises `BadSink`, or what the module of a sink of the user's own raises."""
    kind, _, rest = text.partition(":")
    if text == "stdout":
        return Stdout(context)
    if text == "discard":
        return Discard()
    if kind == "jsonl" and rest:
        return Jsonl(os.path.join(context.task.scope.base, rest), context)
    if kind in _NETWORK and rest:
        from workers.sinks.network import Network

        module, name = _NETWORK[kind]
        return Network(getattr(import_module(module), name)(text, context), context)
    if is_class(text):
        return own.Own(load(text), context)
    raise BadSink(f"sink {text!r} is none, expected {FORMS}")


def is_class(text: str) -> bool:
    """It names a class of the user's own."""
    place, colon, name = text.rpartition(":")
    kind = text.partition(":")[0]
    return bool(colon and place) and name.isidentifier() and kind not in ("stdout", "discard", "jsonl", *_NETWORK)
