"""What `check` says about a valid configuration: the values in force, defaults included, and nothing secret.

Of a URL it shows scheme and host, of headers the names, of subscriptions the number.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from supervisor.configuration.settings import Settings, Stream
from supervisor.configuration.stream_values import rate_text
from supervisor.configuration.values import duration_text
from supervisor.names import compact
from workers.sinks.choice import is_class
from workers.template import parse

_NOT_IMPORTED = " (not imported here: run and check --connect do it)"


def summary(settings: Settings) -> Iterator[str]:
    shards = len(settings.shards)
    yield f"{settings.source}: valid, {_count(len(settings.streams), 'stream')}, {_count(shards, 'shard')}"
    yield f"  fleet {settings.fleet}, store {settings.store}, digest {settings.digest}"
    times = ("lease_duration", "renew_interval", "poll_interval", "call_timeout", "margin", "stop_timeout")
    yield "  " + ", ".join(f"{name} {duration_text(getattr(settings, f'{name}_ms'))}" for name in times)
    yield f"  capacity {settings.capacity}, state_dir {settings.state_dir}, run_dir {settings.run_dir}"
    yield f"  http {_listening(settings.http, settings.http_hosts)}"
    for stream in settings.streams:
        yield from _stream(stream)


def _stream(stream: Stream) -> Iterator[str]:
    spec = stream.spec
    yield f"  [stream:{stream.name}] {' '.join(compact(stream.shards))}, outage_policy {stream.outage_policy}"
    hosts = ", ".join(dict.fromkeys(_host(url) for url in spec.url)) or "targets named by the handler"
    yield f"    {_count(len(spec.url) or 1, 'connection')} in each shard: {hosts}"
    if spec.headers:
        yield f"    headers {', '.join(name for name, _ in spec.headers)}"
    if spec.subscribe:
        yield f"    {_count(len(spec.subscribe), 'message')} sent after each connect"
    handler = f"{spec.handler}{_NOT_IMPORTED}" if spec.handler else "none"
    yield f"    handler {handler}, sink {_sink(spec.sink)}"
    pointers = {"checkpoint": spec.checkpoint, "id": spec.id, "sequence": spec.sequence}
    if any(pointers.values()):
        yield f"    {', '.join(f'{name} {pointer}' for name, pointer in pointers.items() if pointer)}"
    if spec.connect_rate:
        yield f"    at most {rate_text(spec.connect_rate)} attempts to connect to {spec.connect_key}"


def _listening(http: tuple[str, int] | None, hosts: tuple[str, ...]) -> str:
    if http is None:
        return "off"
    host, port = http
    names = f", also called {', '.join(hosts)}" if hosts else ""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{names}"


def _sink(text: str) -> str:
    """Of a url, scheme and host: a path or a query may hold a token."""
    if is_class(text):
        return f"{text}{_NOT_IMPORTED}"
    scheme, separator, rest = text.partition("://")
    return f"{scheme}://{urlsplit(f'//{rest}').netloc.rpartition('@')[2]}" if separator else text


def _host(url: str) -> str:
    template = parse(url)
    if template.parts and not isinstance(template.parts[0], str):
        return str(template.parts[0])
    parts = urlsplit(template.outline())
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
