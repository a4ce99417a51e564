"""The keys of `[stream:NAME]` that say where events go, and what happens when they cannot. See `keys`."""

from __future__ import annotations

from supervisor.configuration import stream_values, values
from supervisor.configuration.key import HOUR, SECOND, STREAM, Key
from supervisor.configuration.values import duration_text, size_text
from workers.spec import StreamSpec

_SPEC = StreamSpec("")

KEYS: tuple[Key, ...] = (
    Key(
        STREAM,
        "sink",
        stream_values.sink,
        "Where events go: stdout, jsonl:PATH (many shards may share a file), http(s)://HOST/PATH (batches by POST),\n"
        "kinesis:NAME, sqs:URL, discard, or a class of yours: FILE.py:CLASS, relative to this file, or MODULE:CLASS.",
        default=_SPEC.sink,
        example="jsonl:/var/lib/tenured/events.jsonl",
        shown=True,
    ),
    Key(
        STREAM,
        "sink_buffer",
        values.size(64 * 1024, 1024**3),
        "Events that wait for the sink take at most about this much memory in each child; see overflow.",
        default=size_text(_SPEC.sink_buffer),
    ),
    Key(
        STREAM,
        "overflow",
        values.choice("wait", "drop_oldest"),
        "When sink_buffer is full: wait stops reading from the feed until there is room, drop_oldest loses the oldest\n"
        "events that wait, and counts them.",
        default=_SPEC.overflow,
    ),
    Key(
        STREAM,
        "sink_timeout",
        values.duration(100, HOUR),
        "How long one request of an http, kinesis or sqs sink may take.",
        default=duration_text(_SPEC.sink_timeout_ms),
    ),
    Key(
        STREAM,
        "sink_batch",
        values.count(1, 10_000),
        "The most events in one request of an http, kinesis (500 at most) or sqs (10 at most) sink, or in one write\n"
        "of a class of yours.",
        derived="500, and 10 for sqs",
        example="100",
    ),
    Key(
        STREAM,
        "sink_header.",
        stream_values.sink_header,
        "A header of each request of an http sink: sink_header.NAME = VALUE.",
        example="Bearer ${file:/run/secrets/collector}",
        template=True,
    ),
    Key(
        STREAM,
        "sink_compression",
        values.choice("none", "gzip"),
        "How an http sink sends its requests.",
        default=_SPEC.sink_compression,
    ),
    Key(
        STREAM,
        "sink_fsync",
        values.choice("checkpoint", "always", "never"),
        "When a jsonl sink waits for the disk: before a checkpoint and at the end, after each write, or never.",
        default=_SPEC.sink_fsync,
    ),
    Key(
        STREAM,
        "sink_rotate_size",
        values.size(64 * 1024, 1024**4),
        "A jsonl file that is larger is set aside, under its name and the time, and a new one is begun. Absent: never.",
        example="100MiB",
    ),
    Key(
        STREAM,
        "sink_rotate_every",
        values.duration(SECOND, 24 * 366 * HOUR),
        "The same for a jsonl file that is older. Absent: never.",
        example="1h",
    ),
    Key(
        STREAM,
        "sink_keep",
        values.count(0, 100_000),
        "How many jsonl files that were set aside are kept, the newest ones; 0: all.",
        default=str(_SPEC.sink_keep),
    ),
)
