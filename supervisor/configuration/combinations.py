"""Keys of a stream that make no sense together, or without each other. Pure: values in, sentences out.

A mistake is what cannot do what it says; what merely has no effect is one as well, since whoever wrote it believes
that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any
from urllib.parse import urlsplit

from workers.sinks.choice import is_class
from workers.sinks.rotation import name_problem
from workers.template import parse as parse_template

_SINK_KEYS = {  # by what a sink's text begins with
    "sink_timeout": ("http:", "https:", "kinesis:", "sqs:"),
    "sink_batch": ("http:", "https:", "kinesis:", "sqs:"),
    "sink_header.": ("http:", "https:"),
    "sink_compression": ("http:", "https:"),
    "sink_fsync": ("jsonl:",),
    "sink_rotate_size": ("jsonl:",),
    "sink_rotate_every": ("jsonl:",),
    "sink_keep": ("jsonl:",),
}


def mistakes(values: Mapping[str, Any], written: Set[str]) -> list[tuple[str, str]]:
    """`values` of all keys of the section, None where one was wrong by itself; `written`: the keys that stand there,
    a prefix without its rest. The result: the key to blame, and a sentence."""
    found: list[tuple[str, str]] = []
    urls = values["url"] or ()
    if "checkpoint" in written and len(urls) > 1:
        sentence = (
            f"checkpoint takes one token for the whole shard, but {len(urls)} urls are {len(urls)} feeds of their own"
        )
        found.append(("checkpoint", f"{sentence}; give each its shard, or commit a token of your own in a handler"))
    if "on_gap" in written and "sequence" not in written:
        found.append(("on_gap", "on_gap has no effect without sequence; say where in a message its number is"))
    if "tls_key" in written and "tls_cert" not in written:
        found.append(("tls_key", "tls_key has no effect without tls_cert, the certificate that it belongs to"))
    if "handler" not in written and urls and all(parse_template(url).outline().startswith("ws://") for url in urls):
        for key in ("tls_ca", "tls_cert", "tls_min_version"):
            if key in written:
                found.append((key, f"{key} has no effect, since no url is encrypted; write wss:// instead of ws://"))
    if "on_idle" in written and values["idle_timeout"] == 0:
        found.append(("on_idle", "on_idle has no effect with idle_timeout = off; remove one of them"))
    if "sink_keep" in written and not written & {"sink_rotate_size", "sink_rotate_every"}:
        found.append(("sink_keep", "sink_keep has no effect without sink_rotate_size or sink_rotate_every"))
    sink = values["sink"]
    rotated = sink and sink.startswith("jsonl:") and written & {"sink_rotate_size", "sink_rotate_every"}
    if rotated and (problem := name_problem(sink.rpartition("/")[2])):
        found.append(("sink", f"sink {sink} cannot be rotated: {problem}"))
    for key, kinds in _SINK_KEYS.items():
        if sink and key in written and not sink.startswith(kinds) and not (key == "sink_batch" and is_class(sink)):
            wanted = " or ".join(dict.fromkeys(kind.removesuffix(":").replace("https", "http") for kind in kinds))
            it = "is a class of yours" if is_class(sink) else f"is {sink.partition(':')[0]}"
            absent = "" if "sink" in written else ", the default"
            found.append((key, f"{key.removesuffix('.')} is for a sink of the kind {wanted}, but sink {it}{absent}"))
    return found


def doubts(values: Mapping[str, Any], written: Set[str]) -> list[tuple[str, str]]:
    """What is possible and hardly meant, as `mistakes`. A handler may use what the file does not."""
    urls = values["url"]
    if "handler" in written or not urls:
        return []
    texts = (*urls, *(values["subscribe"] or ()), *(text for text in values["header."].values() if text))
    asked = {name for text in texts for name in parse_template(text).names()}
    found: list[tuple[str, str]] = []
    if values["checkpoint"] and "checkpoint" not in asked:
        sentence = "checkpoint: its token is never used, since no url, subscribe or header.NAME has ${checkpoint}"
        found.append(("checkpoint", f"{sentence} and there is no handler"))
    shards = len(values["shards"] or ())
    if shards > 1 and not {"shard", "index"} & asked:
        sentence = f"all {shards} shards open the same connection: no url, subscribe or header.NAME has ${{index}}"
        found.append(("shards", f"shards: {sentence} or ${{shard}}"))
    return found


def rates(first: str, rate: str, second: str, other: str, key: str) -> str:
    """What to say of two sections with one `connect_key` and different rates."""
    said = f"connect_rate is {other} here and {rate} in [{first}], but both have the connect_key {key}"
    return f"{said}; give them one rate, or [{second}] a connect_key of its own"


def connect_key(urls: Collection[str], stream: str) -> str:
    """Host and port that all of the urls name, in full, else the stream's name."""
    places = {_place(url) for url in urls}
    return places.pop() or stream if len(places) == 1 else stream


def _place(url: str) -> str:
    """Empty where a placeholder has a part in it."""
    outline, marked = (urlsplit(parse_template(url).outline(mark)).netloc.rpartition("@")[2] for mark in ("1", "2"))
    return outline.lower() if outline == marked else ""
