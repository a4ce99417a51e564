"""The keys of `[stream:NAME]` that say how its connections are made, watched and ended. See `keys`."""

from __future__ import annotations

from supervisor.configuration import stream_values, values
from supervisor.configuration.key import HOUR, SECOND, STREAM, Key
from supervisor.configuration.stream_values import rate_text
from supervisor.configuration.values import duration_text, size_text
from workers.spec import StreamSpec

_SPEC = StreamSpec("")

KEYS: tuple[Key, ...] = (
    Key(
        STREAM,
        "tls_ca",
        values.path,
        "A file of certificates to trust instead of the system's.",
        example="./ca.pem",
    ),
    Key(
        STREAM,
        "tls_cert",
        values.path,
        "A file with the certificate (and its chain) that we show to the server, in PEM form.",
        example="./client.pem",
    ),
    Key(
        STREAM,
        "tls_key",
        values.path,
        "The private key of tls_cert, without a password.",
        derived="the file of tls_cert",
        example="./client.key",
    ),
    Key(
        STREAM,
        "tls_min_version",
        values.choice("1.2", "1.3"),
        "The oldest version of TLS that is accepted.",
        default=_SPEC.tls_min_version,
    ),
    Key(
        STREAM,
        "proxy",
        stream_values.proxy,
        "An HTTP proxy that connections go through (CONNECT); env: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say;\n"
        "none: no proxy, whatever the environment says.",
        default=_SPEC.proxy,
        template=True,
    ),
    Key(
        STREAM,
        "compression",
        values.choice("off", "deflate"),
        "deflate offers the server permessage-deflate (RFC 7692): fewer bytes, for more CPU and memory.",
        default=_SPEC.compression,
    ),
    Key(
        STREAM,
        "connect_rate",
        stream_values.rate,
        "The most attempts to connect that all shards of a supervisor begin, for each connect_key. Supervisors do not\n"
        "know of each other: give each its part.",
        default=rate_text(_SPEC.connect_rate),
        example="5/s",
    ),
    Key(
        STREAM,
        "connect_key",
        values.name,
        "Streams of a supervisor with the same key share one connect_rate, the same in all, and what servers say in\n"
        "Retry-After.",
        derived="host and port of the url; the stream's name where the file does not tell them",
        example="feed.example",
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
        "A frame that has begun must be complete within this.",
        default=duration_text(_SPEC.frame_timeout_ms),
    ),
    Key(
        STREAM,
        "idle_timeout",
        values.duration(100, 24 * HOUR, "off"),
        "Silence of the feed (data counts, pings and pongs do not) that is logged and counted; see on_idle. More, or\n"
        "off, for a feed that may be quiet for longer.",
        default=duration_text(_SPEC.idle_timeout_ms),
    ),
    Key(
        STREAM,
        "on_idle",
        values.choice("report", "reconnect"),
        "What such a silence leads to besides: nothing, or the connection is opened anew.",
        derived="reconnect where idle_timeout is set, else report",
        example="reconnect",
    ),
    Key(
        STREAM,
        "max_age",
        values.duration(SECOND, 24 * 366 * HOUR, "off"),
        "A connection of this age is replaced: the new one is opened first, then the old one is closed.\n"
        "Some are up to a tenth earlier, so that not all are replaced at once. Meanwhile both deliver: events may\n"
        "come twice.",
        default="off",
        example="12h",
    ),
    Key(
        STREAM,
        "send_rate",
        stream_values.rate,
        "The most messages that are sent on one connection; further ones wait. Pings and pongs do not count.",
        default=rate_text(_SPEC.send_rate),
        example="10/s",
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
