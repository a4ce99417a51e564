"""What every sink holds: each event at least once, in order, under its own name; a flush that means safe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.aws_ends import InTurn, Queue, Stream
from tests.collector import Collector, cut, status
from tests.engines import Engine
from tests.far_ends import Told, batches, context, names
from tests.faults import EatAnswers, Reply, server_error
from tests.proxy import FaultProxy
from tests.sinks import batch
from workers.sinks.choice import sink_of
from workers.sinks.envelope import Batch
from workers.sinks.interface import Sink

SINKS = ("jsonl", "stdout", "http", "kinesis", "sqs", "fifo")
RETRYING = ("http", "kinesis", "sqs", "fifo")
EVENTS = 1234


@dataclass
class End:
    """A sink, what a consumer finds behind it, and a way to lose answers that had been given."""

    sink: Sink
    report: Told
    lines: Callable[[], list[bytes]]
    trouble: Callable[[], None]
    ordered: bool = True


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], End]]:
    """By the name of the kind."""
    closing: list[Callable[[], object]] = []

    def opened(text: str, lines: Callable[[], list[bytes]], trouble: Callable[[], None], **given: Any) -> End:
        report = Told()
        made = context(report, sink=text, **given)
        sink = sink_of(text, made, lambda reference: pytest.fail(reference))
        sink.open()
        return End(sink, report, lines, trouble)

    def nothing() -> None:
        return None

    def end(kind: str) -> End:
        if kind == "jsonl":
            file = tmp_path / "events.jsonl"
            return opened(f"jsonl:{file}", lambda: file.read_bytes().splitlines(), nothing)
        if kind == "stdout":
            return _stdout(tmp_path / "stdout", closing)
        if kind == "http":
            collector = Collector()
            collector.__enter__()
            closing.append(lambda: collector.__exit__())
            return opened(collector.url, lambda: collector.lines, lambda: collector.then(status(503), cut))
        engine: Engine = request.getfixturevalue("ministack")
        proxy = FaultProxy(engine.port)
        proxy.__enter__()
        closing.append(lambda: proxy.__exit__())
        far = Stream(engine.endpoint_url) if kind == "kinesis" else Queue(engine.endpoint_url, fifo=kind == "fifo")

        def trouble() -> None:
            proxy.fault = InTurn([Reply(server_error()), EatAnswers()])

        made = opened(far.sink(proxy.endpoint_url), far.lines, trouble)
        made.ordered = kind != "sqs"
        return made

    yield end
    for close in closing:
        close()


def _stdout(path: Path, closing: list[Callable[[], object]]) -> End:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    closing.append(lambda: os.close(fd))
    report = Told()
    made = context(report, stdout_fd=fd)
    sink = sink_of("stdout", made, lambda reference: pytest.fail(reference))
    sink.open()
    return End(sink, report, lambda: path.read_bytes().splitlines(), lambda: None)


def expected(count: int) -> list[tuple[str, int, int]]:
    return [("trades/7", 12, seq) for seq in range(1, count + 1)]


@pytest.mark.parametrize("kind", SINKS)
def test_after_a_flush_every_event_is_there_once_in_order_under_its_name(make: Callable[[str], End], kind: str) -> None:
    end = make(kind)
    given = batches(EVENTS)
    end.sink.write(given[:100])
    end.sink.write(given[100:])
    end.sink.flush()
    found = names(end.lines())
    assert (found if end.ordered else sorted(found)) == expected(EVENTS)
    end.sink.close()


@pytest.mark.parametrize("kind", SINKS)
def test_events_of_every_kind_and_size_arrive_as_they_are(make: Callable[[str], End], kind: str) -> None:
    end = make(kind)
    given: list[Batch] = [
        batch("", '"\\\n\r\x00', "grüße 🎉 \u2028\ufffe", first_seq=1),
        batch(b"\x00\xff", connection=None, first_seq=4),
        batch("x" * 200_000, first_seq=5),
    ]
    end.sink.write(given)
    end.sink.flush()
    found = sorted((line.rstrip(b"\n") for line in end.lines()), key=lambda line: names([line]))
    assert b"\n".join(found) == b"".join(map(context(Told()).envelope.lines, given)).rstrip(b"\n").replace(
        "\ufffe".encode(), b"\\ufffe" if kind in ("sqs", "fifo") else "\ufffe".encode()
    )
    end.sink.close()


@pytest.mark.parametrize("kind", RETRYING)
def test_a_lost_answer_costs_copies_under_the_same_names_and_no_event(make: Callable[[str], End], kind: str) -> None:
    end = make(kind)
    end.trouble()
    end.sink.write(batches(25))
    end.sink.flush()
    assert len(end.report.retries) == 2
    found = names(end.lines())
    firsts = list(dict.fromkeys(found))
    assert (firsts if end.ordered else sorted(firsts)) == expected(25)
    assert len(found) > 25 or kind == "fifo"  # which drops copies itself
    assert end.report.looks >= 3
    end.sink.close()
