"""A short fingerprint of a configuration, so that `status` shows which hosts run another one.

It covers what hosts of a fleet should have in common: shards, connections, durations that decide, policies. It
leaves out what may differ between them (folders, capacity, where events go) and whatever could be a secret: values
of headers, texts of subscriptions, user and query of a URL.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from urllib.parse import urlsplit

from supervisor.configuration.settings import Settings, Stream
from workers.template import parse

DIGEST_LENGTH = 12
_LOCAL = ("overflow", "tls_ca", "tls_cert", "tls_key", "tls_stamp", "proxy")


def digest_of(settings: Settings) -> str:
    relevant = {
        "fleet": settings.fleet,
        "lease_duration_ms": settings.lease_duration_ms,
        "margin_ms": settings.margin_ms,
        "streams": [_of_stream(stream, str(settings.base)) for stream in settings.streams],
    }
    text = json.dumps(relevant, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def _of_stream(stream: Stream, base: str) -> dict[str, object]:
    spec = dataclasses.asdict(stream.spec)
    spec["url"] = [_open_part(url) for url in stream.spec.url]
    spec["headers"] = [name for name, _ in stream.spec.headers]
    spec["subscribe"] = len(stream.spec.subscribe)
    spec["handler"] = stream.spec.handler.removeprefix(base)
    for local in [name for name in spec if name in _LOCAL or name.startswith("sink")]:
        del spec[local]
    return {
        "name": stream.name,
        "shards": stream.shards,
        "outage_policy": stream.outage_policy,
        "environment": stream.environment,
        "spec": spec,
    }


def _open_part(url: str) -> str:
    """Scheme, host, port and path with the placeholders as shapes."""
    parts = urlsplit(parse(url).outline())
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
