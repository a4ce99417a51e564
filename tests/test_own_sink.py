"""Sinks that users write: what they are given, when they are called, what they may raise."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenured import Event, Retry, Shard, Sink
from tests.child import Child, task
from tests.feed import Feed, Peer
from tests.sinks import AT_NS, Noted, batch, context
from tests.wait import until
from workers.board import SINK_RETRIES
from workers.process.preload import preload
from workers.process.wire import Preparation
from workers.sinks import own
from workers.sinks.interface import SinkFailed
from workers.sinks.own import Own

IMPORT = "from tenured import Retry, Sink\n"
TO_FILE = """
import threading
class Mine(Sink):
    def open(self, shard):
        self.file = open({path!r}, "a")
        self.say("open", shard.name, shard.epoch, shard.checkpoint)
    def write(self, events):
        for event in events:
            self.say("event", event.seq, event.connection, event.data)
    def flush(self):
        self.say("flush")
    def close(self):
        self.say("close")
    def say(self, *words):
        print(*words, threading.get_native_id(), file=self.file, flush=True)
"""


def sink_of(kind: type[Sink], report: Noted | None = None, **spec: Any) -> Own:
    return Own(kind, context(report=report, **spec))


def source(folder: Path, text: str, **values: str) -> str:
    """The reference of a class `Mine` in a file of its own."""
    (folder / "mine.py").write_text(IMPORT + text.format(**values))
    return f"{folder}/mine.py:Mine"


def use(sink: Own) -> None:
    sink.write([batch("a")])
    sink.flush()
    sink.close()


class Kept(Sink):
    """Keeps what it is called with."""

    calls: list[Any]

    def __init__(self) -> None:
        self.calls = []

    def open(self, shard: Shard) -> None:
        self.calls.append(shard)

    def write(self, events: Sequence[Event]) -> None:
        self.calls.append(list(events))


def kept(sink: Own) -> list[Any]:
    assert isinstance(sink.sink, Kept)
    return sink.sink.calls


def test_it_is_opened_with_its_shard_before_the_first_events_and_never_where_there_are_none() -> None:
    sink = sink_of(Kept)
    sink.open()
    sink.flush()
    sink.close()
    assert sink.sink is None
    sink.write([batch("a")])
    assert kept(sink)[0] == Shard("trades/7", "trades", "7", 12, None, 1)


def test_an_event_says_what_its_line_would_say() -> None:
    sink = sink_of(Kept)
    sink.write([batch("a", b"\0b", first_seq=41, ids=["x", None]), batch("c", first_seq=43, connection=None)])
    assert kept(sink)[1] == [
        Event("trades/7", 12, 41, 0, AT_NS, "a", "x"),
        Event("trades/7", 12, 42, 0, AT_NS, b"\0b", None),
        Event("trades/7", 12, 43, None, AT_NS, "c", None),
    ]
    assert kept(sink)[1][0].received_at == datetime(2026, 1, 1, 0, 0, 0, 1, UTC)


@pytest.mark.parametrize(("asked", "most"), [(0, 500), (7, 7)])
def test_events_come_in_order_and_in_portions_that_do_not_depend_on_how_they_arrived(asked: int, most: int) -> None:
    sink = sink_of(Kept, sink_batch=asked)
    sink.write([batch("x", first_seq=seq) for seq in range(1, 501)] + [batch(*["y"] * 703, first_seq=501)])
    portions = kept(sink)[1:]
    assert [event.seq for portion in portions for event in portion] == list(range(1, 1204))
    assert {len(portion) for portion in portions[:-1]} == {most}
    assert len(portions[-1]) <= most


@pytest.mark.parametrize("method", ["open", "write", "flush", "close"])
def test_a_method_that_asks_for_a_retry_is_called_again_with_the_same_after_a_wait(method: str) -> None:
    report, seen = Noted(), []

    def fail(self: Sink, *arguments: Any) -> None:
        seen.append(arguments)
        if len(seen) < 4:
            raise Retry("the table is locked", after_s=7.0 if len(seen) == 3 else 0.0)

    sink = sink_of(type("Mine", (Kept,), {method: fail}), report)
    use(sink)
    assert seen == [seen[0]] * 4
    assert report.retries == ["the table is locked"] * 3
    assert report.fines >= 4
    first_s, second_s, third_s = report.pauses_s
    assert 0.05 <= first_s <= 0.1 <= second_s <= 0.2
    assert third_s == 7.0


def test_the_wait_between_tries_grows_and_has_a_bound() -> None:
    waits_s = [own._wait_s(tries) for tries in range(0, 2000, 7)]
    assert all(0.05 <= wait_s <= 30 for wait_s in waits_s)
    assert min(waits_s[3:]) >= 15


@pytest.mark.parametrize("method", ["__init__", "open", "write", "flush", "close"])
def test_any_other_error_is_final_and_names_its_place(method: str) -> None:
    def fail(self: Sink, *arguments: Any) -> None:
        raise KeyError("no such column")

    sink = sink_of(type("Mine", (Sink,), {"write": lambda self, events: None} | {method: fail}))
    with pytest.raises(SinkFailed, match=r"KeyError: 'no such column' at .*test_own_sink\.py:\d+"):
        use(sink)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("pass", "Mine needs a method write"),
        ("async def write(self, events): pass", "Mine.write is async or a generator, expected a plain method"),
        ("def write(self, events): yield", "Mine.write is async or a generator, expected a plain method"),
        (
            "def write(self, events): pass\n    async def flush(self): pass",
            "Mine.flush is async or a generator, expected a plain method",
        ),
    ],
)
def test_a_class_that_would_lose_events_without_an_error_is_refused_when_it_is_loaded(
    tmp_path: Path, body: str, problem: str
) -> None:
    reference = source(tmp_path, f"class Mine(Sink):\n    {body}\n")
    with Child(task("ws://127.0.0.1:1", sink=reference)) as child:
        assert child.wait() == 78
        assert child.log("child.failed")[0]["reason"].endswith(problem)


def test_a_sink_that_takes_events_out_of_what_it_was_given_cannot_lose_them_to_a_retry() -> None:
    class Consuming(Sink):
        def write(self, events: Sequence[Event]) -> None:
            events.clear()  # type: ignore[attr-defined]

    with pytest.raises(SinkFailed, match="'tuple' object has no attribute 'clear'"):
        sink_of(Consuming).write([batch("a")])


@pytest.mark.parametrize("after_s", [-1.0, float("nan"), float("inf"), 3601.0])
def test_a_wait_that_is_none_is_refused_where_it_is_asked_for(after_s: float) -> None:
    with pytest.raises(ValueError, match="expected seconds from 0 to 3600"):
        Retry("the table is away", after_s)


# --- in a child ---------------------------------------------------------------------------------------------


def two_messages(peer: Peer) -> None:
    peer.accept()
    peer.text("one")
    peer.text("two")
    peer.serve()


def test_a_child_gives_its_sink_everything_in_one_thread_that_is_not_the_loops(tmp_path: Path) -> None:
    said = tmp_path / "said"
    reference = source(tmp_path, TO_FILE, path=str(said))
    with Feed(two_messages) as feed, Child(task(feed.url, sink=reference, checkpoint="/3", epoch=5)) as child:
        until(lambda: said.exists() and "two" in said.read_text(), 5)
        loop = child._thread.native_id
        assert child.stop() == 0
    lines = [line.rpartition(" ") for line in said.read_text().splitlines()]
    assert [words for words, _, _ in lines] == [
        "open trades/7 5 /3",
        "event 1 0 one",
        "event 2 0 two",
        "flush",
        "close",
    ]
    threads = {thread for _, _, thread in lines}
    assert len(threads) == 1
    assert threads != {str(loop)}


def test_a_failure_whose_text_raises_itself_ends_the_child_all_the_same(tmp_path: Path) -> None:
    text = """
class Odd(Exception):
    def __str__(self):
        raise self
class Mine(Sink):
    def write(self, events):
        raise Odd
"""
    with Feed(two_messages) as feed, Child(task(feed.url, sink=source(tmp_path, text))) as child:
        assert child.wait() == 1
        assert child.log("child.failed")[0]["reason"].startswith("the sink failed: Odd: its text cannot be had at ")


@pytest.mark.parametrize("raised", ["OSError('the table is gone')", "SystemExit('the table is gone')"])
def test_a_sink_that_raises_ends_the_child_with_a_sentence(tmp_path: Path, raised: str) -> None:
    text = f"class Mine(Sink):\n    def write(self, events):\n        raise {raised}\n"
    with Feed(two_messages) as feed, Child(task(feed.url, sink=source(tmp_path, text))) as child:
        assert child.wait() == 1
        assert child.log("child.failed")[0]["reason"] == (
            f"the sink failed: {raised[: raised.index('(')]}: the table is gone at {tmp_path}/mine.py:4"
        )


def test_a_sink_that_retries_is_seen_on_the_board_and_then_delivers(tmp_path: Path) -> None:
    text = """
import os
class Mine(Sink):
    def write(self, events):
        if not os.path.exists({place!r} + "/back"):
            raise Retry("the table is away")
        open({place!r} + "/" + events[0].data, "w").close()
"""
    reference = source(tmp_path, text, place=str(tmp_path))
    with Feed(two_messages) as feed, Child(task(feed.url, sink=reference)) as child:
        child.word(SINK_RETRIES, 2)
        until(lambda: (child.slot.read_trouble() or "").startswith("sink: the table is away for "), 5)
        (tmp_path / "back").touch()
        until(lambda: (tmp_path / "one").exists(), 10)
        until(lambda: not child.slot.read_trouble(), 5)
        assert child.stop() == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("class Other(Sink): pass", "there is no class Mine in"),
        ("from tenured import Handler\nclass Mine(Handler): pass", "Mine is no class derived from tenured.Sink"),
        ("import no_such_thing", "cannot be imported: ModuleNotFoundError: No module named 'no_such_thing' at"),
    ],
)
def test_a_reference_that_leads_to_no_sink_is_a_mistake_in_the_configuration(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with Child(task("ws://127.0.0.1:1", sink=source(tmp_path, text))) as child:
        assert child.wait() == 78
    assert sentence in child.log("child.failed")[0]["reason"]


def test_it_is_imported_before_the_fork_like_a_handler(tmp_path: Path) -> None:
    warnings: list[str] = []
    reference = source(tmp_path, "class Mine(Sink):\n    def write(self, events): pass")
    found = preload(Preparation((reference,)), warnings.append)
    assert warnings == []
    assert issubclass(found.handlers[reference], Sink)


def test_the_sink_that_the_page_shows_keeps_each_event_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLES", str(tmp_path))
    page = (Path(__file__).parents[1] / "docs/sinks.md").read_text()
    (tmp_path / "table.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    with Feed(two_messages) as feed, Child(task(feed.url, sink=f"{tmp_path}/table.py:Table")) as child:
        until(lambda: rows(tmp_path) == [(1, "one"), (2, "two")], 5)
        assert child.stop() == 0


def rows(folder: Path) -> list[tuple[int, str]]:
    with contextlib.closing(sqlite3.connect(folder / "trades-7.db")) as database:
        if not database.execute("SELECT name FROM sqlite_master").fetchall():  # not made yet
            return []
        return database.execute("SELECT seq, data FROM events ORDER BY seq").fetchall()
