"""A pointer that finds nothing is told once, when it is certain enough, until it finds something."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.child import Child, task
from tests.feed import Feed, Peer
from tests.wait import until
from workers.board import Board
from workers.handler import Handler
from workers.log import Log
from workers.resuming import watched
from workers.resuming.looking import looked
from workers.resuming.marks import Marks
from workers.resuming.watched import AGE_MIN_NS, MESSAGES_MIN, Watched
from workers.spec import StreamSpec
from workers.troubles import Troubles

MARKED = '{"seq": 7, "data": {"id": "a7"}}'


class Desk:
    """The marks of a child, its log and its trouble; `at_ns` is its clock."""

    def __init__(self, **pointers: str) -> None:
        spec = StreamSpec("s", **pointers)
        self.records: list[dict[str, Any]] = []
        self.slot = Board.create().slot(0)
        self.at_ns = 1
        log = Log(lambda line: self.records.append(json.loads(line)), task("ws://x/"))
        self.marks = Watched(Marks(spec), spec, log, Troubles(self.slot), lambda: self.at_ns)

    @property
    def trouble(self) -> str:
        return self.slot.read_trouble() or ""

    def receive(self, message: str, times: int, after_ns: int) -> None:
        self.marks.all([message] * times)
        self.at_ns += after_ns


@pytest.mark.parametrize(
    ("key", "pointer", "kind"),
    [
        ("checkpoint", "/sq", "a text or a number"),
        ("id", "/id", "a text or a number"),
        ("sequence", "/data/id", "an integer"),
    ],
)
def test_a_pointer_that_finds_nothing_is_told_once(key: str, pointer: str, kind: str) -> None:
    desk = Desk(**{key: pointer})
    desk.receive(MARKED, MESSAGES_MIN - 2, AGE_MIN_NS)
    desk.receive(MARKED, 1, 0)
    assert desk.trouble == ""
    desk.receive(MARKED, 1, 0)
    what = f"{pointer} leads to {kind} in none of {MESSAGES_MIN} messages"
    assert desk.trouble == f"{key}: {what}"
    desk.receive(MARKED, 5000, AGE_MIN_NS)
    (record,) = desk.records
    assert (record["event"], record["level"].upper()) == ("config.warning", "WARNING")
    assert record["reason"].startswith(f"{key}: {what}; `tenured check --connect` shows")


def test_many_messages_in_a_short_time_tell_nothing_yet() -> None:
    desk = Desk(checkpoint="/sq")
    desk.receive(MARKED, 100_000, AGE_MIN_NS - 1)
    desk.receive(MARKED, 1, 0)
    assert (desk.trouble, desk.records) == ("", [])


def test_the_first_mark_ends_the_trouble_and_the_watch() -> None:
    desk = Desk(checkpoint="/seq", id="/seq")
    desk.receive("{}", MESSAGES_MIN, AGE_MIN_NS)
    desk.receive("{}", 1, 0)
    assert desk.trouble.endswith("(and 1 more)")
    desk.receive(MARKED, 1, 0)
    assert desk.trouble == ""
    desk.receive("{}", MESSAGES_MIN, AGE_MIN_NS)
    desk.receive("{}", 1, 0)
    assert desk.trouble == ""
    assert len(desk.records) == 2


def test_behind_a_handler_each_pointer_is_watched_where_it_is_used() -> None:
    desk = Desk(checkpoint="/a", id="/b", sequence="/c")
    for _ in range(2):
        desk.marks.numbers([MARKED] * MESSAGES_MIN)
        desk.marks.token([MARKED] * MESSAGES_MIN)
        desk.marks.ids([MARKED] * MESSAGES_MIN)
        desk.at_ns += AGE_MIN_NS
    assert [record["reason"].partition(":")[0] for record in desk.records] == ["sequence", "checkpoint", "id"]


@pytest.mark.parametrize("handler", [None, Handler])
def test_a_child_tells_what_its_pointers_do_not_find(
    handler: type[Handler] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "AGE_MIN_NS", 1)
    monkeypatch.setattr(watched, "MESSAGES_MIN", 3)

    def behave(peer: Peer) -> None:
        peer.accept()
        while not peer.feed.closing.wait(0.01):
            peer.text(MARKED)

    with Feed(behave) as feed:
        found = task(feed.url, pointer="/sq", id="/id", sequence="/seq", handler="x:Y" if handler else "")
        with Child(found, handler) as child:
            until(lambda: len(child.log("config.warning")) == 2, 20)
            keys = sorted(record["reason"].partition(" leads")[0] for record in child.log("config.warning"))
            assert keys == ["checkpoint: /sq", "id: /id"]
            assert (child.slot.read_trouble() or "").endswith("(and 1 more)")


@pytest.mark.parametrize(
    ("pointer", "message", "said"),
    [
        ("/seq", MARKED, "7"),
        ("/data/id", MARKED, "a7"),
        ("/sq", MARKED, "not in this message (it has seq, data)"),
        ("/data/seq", MARKED, "not in this message (/data has id)"),
        ("/data/id/x", MARKED, "not in this message (/data/id is a text or a number)"),
        ("/data", MARKED, "leads to an object, expected a text or a number"),
        ("/1/id", "[1, [], null]", "not in this message (/1 is an array of 0)"),
        ("/a", '{"a": null}', "leads to null, expected a text or a number"),
        ("/a", '{"a": ""}', "leads to an empty text, expected a text or a number"),
        ("/a", "{}", "not in this message (it has no member)"),
        ("/a", "hello", "not in this message, which is no JSON"),
        ("/a", b"\xff", "not in this message, which is no JSON"),
        ("/a", '{"\\u001b[31m": 1}', r"not in this message (it has \x1b[31m)"),
        ("/a", '{"a": "\\u001b' + "x" * 300 + '"}', r"\x1b" + "x" * 38 + "..." + "x" * 38),
    ],
)
def test_what_a_pointer_finds_in_a_message_is_said(pointer: str, message: str | bytes, said: str) -> None:
    assert list(looked(StreamSpec("s", checkpoint=pointer), message)) == [("checkpoint", f"{pointer}: {said}")]


def test_each_pointer_is_looked_for_where_it_means_something() -> None:
    spec = {"checkpoint": "/seq", "id": "/id", "sequence": "/data/id"}
    assert dict(looked(StreamSpec("s", **spec), MARKED)) == {
        "checkpoint": "/seq: 7",
        "id": "/id: not in this message (it has seq, data)",
        "sequence": "/data/id: leads to a7, expected an integer",
    }
    assert "id" not in dict(looked(StreamSpec("s", handler="x:Y", **spec), MARKED))
