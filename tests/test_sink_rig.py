"""The test kit for sinks of one's own: what passes in it passes in a child, since the same code calls the sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tenured import Event, Retry, Shard, Sink
from workers.testing import SinkRig


class Kept(Sink):
    """Writes down each call, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.failures: list[Exception] = []

    def open(self, shard: Shard) -> None:
        self.calls.append(shard)

    def write(self, events: Sequence[Event]) -> None:
        self.calls.append([(event.seq, event.data, event.connection, event.id) for event in events])
        if self.failures:
            raise self.failures.pop()

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


def test_it_is_opened_written_to_flushed_and_closed_as_in_a_child() -> None:
    rig = SinkRig(Kept, shard="trades/7", epoch=12, checkpoint="41", sink_batch=2)
    rig.write("a", b"b", "c", ids=["x", None, "z"])
    rig.flush()
    rig.write("d", connection=None)
    rig.stop()
    assert rig.sink.calls == [
        Shard("trades/7", "trades", "7", 12, "41", 1),
        [(1, "a", 0, "x"), (2, b"b", 0, None)],
        [(3, "c", 0, "z")],
        "flush",
        [(4, "d", None, None)],
        "flush",
        "close",
    ]


def test_an_exception_is_raised_as_it_was() -> None:
    rig = SinkRig(Kept)
    rig.sink.failures = [KeyError("no such column")]
    with pytest.raises(KeyError, match="no such column"):
        rig.write("a")


def test_a_retry_is_raised_where_nothing_is_said_about_it() -> None:
    rig = SinkRig(Kept)
    rig.sink.failures = [Retry("the table is locked", after_s=7)]
    with pytest.raises(Retry, match="the table is locked") as raised:
        rig.write("a")
    assert raised.value.after_s == 7
    assert rig.retries == ["the table is locked"]


def test_after_a_retry_only_what_was_not_written_comes_again() -> None:
    waits: list[int] = []
    rig = SinkRig(Kept, sink_batch=1, on_retry=lambda: waits.append(1))
    rig.write("a")
    rig.sink.failures = [Retry("once more")] * 2
    rig.write("b", "c")
    assert [call[0][1] for call in rig.sink.calls[1:]] == ["a", "b", "b", "b", "c"]
    assert len(waits) == 2


def test_a_sink_that_is_never_content_does_not_keep_a_test_for_ever() -> None:
    rig = SinkRig(Kept, on_retry=lambda: None)
    rig.sink.failures = [Retry("no")] * 10_000
    with pytest.raises(Retry):
        rig.write("a")
    assert len(rig.retries) == 100


def test_a_class_that_would_lose_events_is_refused() -> None:
    class Lazy(Sink):
        async def write(self, events: Sequence[Event]) -> None:  # type: ignore[override]
            pass

    with pytest.raises(TypeError, match=r"Lazy\.write is async or a generator"):
        SinkRig(Lazy)
