"""Every key of the configuration, once: parsing, `check`, `example` and `etc/tenured.ini` follow from this table.

A default is written as one would write it in the file and goes through the same parser; a key that is neither
required nor has a default gets its value from others (`derived` says how). The defaults of a stream's keys are those
of `StreamSpec`, because a child must behave the same whoever starts it.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.configuration import values
from supervisor.configuration.values import Parse, duration_text, size_text
from supervisor.records import DURATION_MAX_MS, DURATION_MIN_MS
from workers.board import SLOTS
from workers.spec import StreamSpec

SECOND = 1000
HOUR = 3_600_000
SUPERVISOR = "supervisor"
STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Key:
    """`default` None: required, derived or simply absent. A name that ends with a dot is a prefix."""

    section: str
    name: str
    parse: Parse
    doc: str
    default: str | None = None
    derived: str = ""
    example: str = ""  # shown instead of the default where that would say little
    required: bool = False
    shown: bool = False  # `example` sets it instead of mentioning it in a comment
    restart: bool = False  # a reload cannot change it
    lines: bool = False  # several indented lines are several values
    template: bool = False  # stays a template; the child expands it at every connect
    reload: str = ""  # what a reload does with a change, if it is not what it does with most keys of the section


_SPEC = StreamSpec("")

KEYS: tuple[Key, ...] = (
    Key(
        SUPERVISOR,
        "fleet",
        values.name,
        "The name of the fleet; one store belongs to one fleet.",
        default="default",
        shown=True,
        restart=True,
    ),
    Key(
        SUPERVISOR,
        "store",
        values.store,
        "Where the leases are: dynamodb://TABLE?region=eu-west-1 (optional &endpoint_url=..., &profile=...),\n"
        "or sqlite:///PATH for supervisors of one host.",
        example="sqlite:///leases.db",
        required=True,
        shown=True,
        restart=True,
    ),
    Key(
        SUPERVISOR,
        "state_dir",
        values.path,
        "What must survive a restart of this supervisor; every supervisor needs a folder of its own.",
        default="/var/lib/tenured",
        shown=True,
        restart=True,
    ),
    Key(
        SUPERVISOR,
        "run_dir",
        values.path,
        "The control socket is here; every supervisor needs a folder of its own.",
        default="/run/tenured",
        shown=True,
        restart=True,
    ),
    Key(
        SUPERVISOR,
        "lease_duration",
        # A row that promises anything else is refused by its readers.
        values.duration(DURATION_MIN_MS, DURATION_MAX_MS),
        "T: how long a lease holds without a renewal. A dead owner is replaced within T and one poll_interval.",
        default="10s",
        shown=True,
        reload="in force for each shard from its next claim on",
    ),
    Key(
        SUPERVISOR,
        "renew_interval",
        values.duration(100, HOUR),
        "How often each lease is renewed; three renewals fit into lease_duration.",
        derived="a third of lease_duration",
        example="3s",
    ),
    Key(
        SUPERVISOR,
        "poll_interval",
        values.duration(100, HOUR),
        "How often the store is read as a whole.",
        default="1s",
    ),
    Key(
        SUPERVISOR,
        "call_timeout",
        values.duration(50, 60 * SECOND),
        "How long one attempt to write to the store may take; below renew_interval.",
        derived="half of renew_interval, at most 2s",
        example="1500ms",
    ),
    Key(
        SUPERVISOR,
        "margin",
        values.duration(250, HOUR),
        "A child stops delivering this long before its lease ends: it covers clocks whose rates differ, and the kill.",
        derived="a tenth of lease_duration, at least 250ms",
        example="1s",
        reload="in force for each shard from its next claim on",
    ),
    Key(
        SUPERVISOR,
        "capacity",
        values.count(0, SLOTS, "auto"),
        "How many shards this host may hold; auto: (memory of the cgroup or machine - 128 MiB) / 16 MiB.",
        default="auto",
    ),
    Key(
        SUPERVISOR,
        "stop_timeout",
        values.duration(100, HOUR),
        "How long children may take to close their connections at a stop; what is left is killed. 8s fits docker stop.",
        default="8s",
    ),
    Key(
        SUPERVISOR,
        "start_timeout",
        values.duration(SECOND, HOUR),
        "How long a child may take until its shard is set up (its connections may still be down).",
        default="10s",
    ),
    Key(
        SUPERVISOR,
        "hang_timeout",
        values.duration(2 * SECOND, HOUR),
        "A child whose loop stands still this long, for example in a handler, is killed and restarted.",
        default="30s",
    ),
    Key(
        SUPERVISOR,
        "crash_limit",
        values.count(1, 1000),
        "After this many crashes within crash_window a shard is given up so that another host may try.",
        default="5",
    ),
    Key(SUPERVISOR, "crash_window", values.duration(SECOND, 24 * HOUR), "See crash_limit.", default="5m"),
    Key(
        SUPERVISOR,
        "outage_policy",
        values.choice("fence", "hold"),
        "When the store cannot be reached: fence kills a child before its lease may go to somebody else;\n"
        "hold keeps it running, at the price that two owners may run the shard at once. A stream may say otherwise.",
        default="fence",
        reload="children of streams that it changes are replaced",
    ),
    Key(
        SUPERVISOR,
        "log_level",
        values.choice("debug", "info", "warning", "error"),
        "The least level that is logged.",
        default="info",
    ),
    Key(
        SUPERVISOR,
        "python_path",
        values.path,
        "Folders in which handlers find their modules, one on each line.",
        example="./handlers",
        lines=True,
        reload="children with a handler are replaced",
    ),
    Key(
        SUPERVISOR,
        "include",
        values.pattern,
        "Further files with [stream:...] sections, in sorted order; their paths are relative to this file, too.",
        example="conf.d/*.ini",
        lines=True,
        reload="the files are read anew",
    ),
    Key(
        SUPERVISOR,
        "http",
        values.address,
        "Where the status page, /metrics, /healthz and /readyz are served, for whoever may connect there: without a\n"
        "password or TLS, read-only. HOST:PORT, HOST an address or localhost; off: nowhere.",
        default="off",
        example="127.0.0.1:9110",
        restart=True,
    ),
    Key(
        SUPERVISOR,
        "http_hosts",
        values.host_names,
        "Further names that a request may call this host by (its Host header), one on each line or with commas.",
        example="tenured.internal.example, 10.0.0.7",
        restart=True,
        lines=True,
    ),
    Key(
        STREAM,
        "shards",
        values.indices,
        "A range (0-15) or names (eu, us, asia); absent: the stream is one shard.",
        example="0-3",
        shown=True,
        reload="new shards are claimed, missing ones given up, the others stay as they are",
    ),
    Key(
        STREAM,
        "url",
        values.url,
        "ws:// or wss://; several lines are several connections in the shard. Required unless there is a handler.",
        example="wss://feed.example/ws/${index}",
        shown=True,
        lines=True,
        template=True,
    ),
    Key(
        STREAM,
        "subscribe",
        values.message,
        "Sent after every connect; several lines are several messages, sent in order.",
        example='{"op": "subscribe", "from": "${checkpoint:-0}"}',
        shown=True,
        lines=True,
        template=True,
    ),
    Key(
        STREAM,
        "header.",
        values.message,
        "A header of the handshake: header.NAME = VALUE.",
        example="Bearer ${file:/run/secrets/token}",
        template=True,
    ),
    Key(
        STREAM,
        "handler",
        values.handler,
        "Code of yours: FILE.py:CLASS, relative to this file, or MODULE:CLASS; absent: every event goes to the sink.",
        example="./trades.py:Trades",
    ),
    Key(
        STREAM,
        "sink",
        values.sink,
        "Where events go, one JSON line each: stdout, jsonl:PATH (many shards may share a file), or discard.",
        default=_SPEC.sink,
        example="jsonl:/var/lib/tenured/events.jsonl",
        shown=True,
    ),
    Key(
        STREAM,
        "outage_policy",
        values.choice("fence", "hold"),
        "fence or hold, for this stream.",
        derived="that of [supervisor]",
        example="hold",
    ),
    Key(
        STREAM,
        "environment",
        values.variable_names,
        "Variables that its children get beside the basic ones (PATH, HOME, LANG ...) and those that ${env:...} names.",
        example="API_REGION, API_TIER",
    ),
    Key(
        STREAM,
        "tls_ca",
        values.path,
        "A file of certificates to trust instead of the system's.",
        example="./ca.pem",
    ),
    Key(
        STREAM,
        "connect_timeout",
        values.duration(100, HOUR),
        "Name resolution, TCP, TLS and handshake together.",
        default=duration_text(_SPEC.connect_timeout_ms),
    ),
    Key(
        STREAM,
        "ping_interval",
        values.duration(100, HOUR),
        "Silence after which a ping is sent.",
        default=duration_text(_SPEC.ping_interval_ms),
    ),
    Key(
        STREAM,
        "ping_timeout",
        values.duration(100, HOUR),
        "Silence after the ping that means that the connection is dead.",
        default=duration_text(_SPEC.ping_timeout_ms),
    ),
    Key(
        STREAM,
        "frame_timeout",
        values.duration(100, HOUR),
        "A message that has begun must be complete within this.",
        default=duration_text(_SPEC.frame_timeout_ms),
    ),
    Key(
        STREAM,
        "max_message",
        values.size(125, 1024**3),
        "A larger message closes the connection (1009) before it is read.",
        default=size_text(_SPEC.max_message),
    ),
    Key(
        STREAM,
        "close_code",
        values.close_code,
        "The close code that servers see at a planned stop.",
        default=str(_SPEC.close_code),
    ),
    Key(
        STREAM,
        "reconnect_min",
        values.duration(10, HOUR),
        "Reconnects wait a random time that grows from this to reconnect_max.",
        default=duration_text(_SPEC.reconnect_min_ms),
    ),
    Key(
        STREAM,
        "reconnect_max",
        values.duration(10, HOUR),
        "The longest of these waits; after a refusal such as 401 or 404 always this long and up to a tenth more.",
        default=duration_text(_SPEC.reconnect_max_ms),
    ),
    Key(
        STREAM,
        "stable_after",
        values.duration(10, HOUR),
        "A connection that lasted this long makes the next wait a short one again.",
        default=duration_text(_SPEC.stable_after_ms),
    ),
)


def keys_of(section: str) -> dict[str, Key]:
    """The keys of `supervisor` or `stream`, in order."""
    return {key.name: key for key in KEYS if key.section == section}


def find(section: str, name: str) -> Key | None:
    """The key that a name in the file means, or None."""
    known = keys_of(section)
    prefix = name[: name.find(".") + 1]
    if prefix and prefix in known and len(name) > len(prefix):
        return known[prefix]
    return None if name.endswith(".") else known.get(name)


def meant(section: str, name: str) -> str:
    """The nearest right name, or an empty text. After a prefix the rest is the user's own."""
    head, dot, rest = name.partition(".")
    prefixes = [key for key in keys_of(section) if key.endswith(".")]
    near = values.nearest(head + dot, prefixes) if dot else ""
    return near + rest if near else values.nearest(name, [key for key in keys_of(section) if not key.endswith(".")])
