"""For tests of sinks: batches, a context, a report that notes what it is told, and processes that write at once."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from typing import Any

from workers.sinks.choice import sink_of
from workers.sinks.envelope import Batch, Envelope
from workers.sinks.interface import Sink, SinkContext
from workers.spec import Scope, StreamSpec, Task

AT_NS = 1_767_225_600_000_001_999  # 2026-01-01, a microsecond and some
FORK = multiprocessing.get_context("fork")


class Noted:
    """A `Report`, which does not wait; `on_retry` is called at each one, to change what made it necessary."""

    def __init__(self, on_retry: Callable[[], object] = lambda: None) -> None:
        self.retries: list[str] = []
        self.pauses_s: list[float] = []
        self.lines: list[str] = []
        self.fines = self.looks = self.lost = 0
        self._on_retry = on_retry

    def retrying(self, reason: str) -> None:
        self.retries.append(reason)
        self._on_retry()

    def pause(self, seconds: float) -> bool:
        self.pauses_s.append(seconds)
        return True

    def fine(self) -> None:
        self.fines += 1

    def dropped(self, events: int) -> None:
        self.lost += events

    def fenced(self) -> None:
        self.looks += 1

    def log(self, event: str, level: str = "INFO", **fields: Any) -> None:
        self.lines.append(fields.get("reason", event))


def batch(
    *messages: str | bytes,
    first_seq: int = 1,
    connection: int | None = 0,
    at_ns: int = AT_NS,
    ids: list[str | None] | None = None,
) -> Batch:
    return Batch(connection, first_seq, at_ns, list(messages), sum(map(len, messages)), ids)


def context(
    shard: str = "trades/7", epoch: int = 12, base: str = "/", stdout_fd: int = 1, report: Any = None, **spec: Any
) -> SinkContext:
    """Other keywords are of its `StreamSpec`."""
    task = Task(Scope(StreamSpec("trades", **spec), "test", "h", base), shard, "7", epoch, 0, None, {})
    return SinkContext(task, Envelope(shard, epoch), report or Noted(), {}, stdout_fd)


def opened(text: str, **given: Any) -> Sink:
    sink = sink_of(text, context(**given), _no_class)
    sink.open()
    return sink


def _no_class(reference: str) -> type[Any]:
    raise AssertionError(f"{reference} was taken for a class")


def writers(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in so many processes at once."""
    processes = [FORK.Process(target=work, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0


def write_rounds(sink: Sink, letter: str, rounds: int) -> None:
    for seq in range(1, rounds + 1):
        sink.write([batch(letter * (seq * 7919 % 200_000 + 1), first_seq=seq)])


def expect_whole(lines: list[bytes], shards: int, rounds: int) -> None:
    """Every line of every writer is there, whole and in its order."""
    seen: dict[str, list[int]] = {}
    for line in lines:
        event = json.loads(line)
        assert set(event["data"]) == {event["shard"][0]}
        seen.setdefault(event["shard"], []).append(event["seq"])
    assert seen == {shard: list(range(1, rounds + 1)) for shard in "abcdefgh"[:shards]}
