"""The keys of `[stream:NAME]` that say what it is: shards, targets, code, checkpoints. See `keys`."""

from __future__ import annotations

from supervisor.configuration import stream_values, values
from supervisor.configuration.key import STREAM, Key
from workers.spec import StreamSpec

_SPEC = StreamSpec("")

KEYS: tuple[Key, ...] = (
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
        stream_values.url,
        "ws:// or wss://; several lines are several connections in the shard. Required unless there is a handler.",
        example="wss://feed.example/ws/${index}",
        shown=True,
        lines=True,
        template=True,
    ),
    Key(
        STREAM,
        "subscribe",
        stream_values.message,
        "Sent after every connect; several lines are several messages, sent in order.",
        example='{"op": "subscribe", "from": "${checkpoint:-0}"}',
        shown=True,
        lines=True,
        template=True,
    ),
    Key(
        STREAM,
        "header.",
        stream_values.message,
        "A header of the handshake: header.NAME = VALUE.",
        example="Bearer ${file:/run/secrets/token}",
        template=True,
    ),
    Key(
        STREAM,
        "handler",
        stream_values.handler,
        "Code of yours: FILE.py:CLASS, relative to this file, or MODULE:CLASS; absent: every event goes to the sink.",
        example="./trades.py:Trades",
    ),
    Key(
        STREAM,
        "handler_errors",
        values.count(1, 1_000_000),
        "So many exceptions of the handler in a row end the child, which starts again from its last checkpoint.",
        default=str(_SPEC.handler_errors),
    ),
    Key(
        STREAM,
        "checkpoint",
        stream_values.pointer,
        "Where in each message (JSON) the feed's resume token is: the newest one whose event the sink has made safe\n"
        "is what ${checkpoint} becomes, also after a change of owner. Absent: a handler commits tokens, or nobody.",
        example="/seq",
    ),
    Key(
        STREAM,
        "checkpoint_retries",
        values.count(0, 1000),
        "A checkpoint that the far end refuses so many times in a row is dropped, once and loudly; 0: never.",
        default=str(_SPEC.checkpoint_retries),
    ),
    Key(
        STREAM,
        "id",
        stream_values.pointer,
        "Where in each event (JSON) the feed's own id is; it is copied to the event's line, so that consumers can\n"
        "drop what they have seen before.",
        example="/id",
    ),
    Key(
        STREAM,
        "sequence",
        stream_values.pointer,
        "Where in each message (JSON) its number is; one that does not follow the last one of its connection is a gap.",
        example="/seq",
    ),
    Key(
        STREAM,
        "on_gap",
        values.choice("report", "reconnect"),
        "What a gap in sequence leads to: it is counted and logged, or the connection is also opened anew.",
        default=_SPEC.on_gap,
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
)
