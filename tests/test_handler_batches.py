"""A handler that takes what arrived together in one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenured import Connection, Handler, Message
from tests.child import Child, lines, task
from tests.feed import TEXT, Feed, Peer, frame
from workers.board import HANDLER_ERRORS, MESSAGES
from workers.handling.dispatch import BATCH_MAX
from workers.testing import Rig

COUNT = 5000


class Gathering(Handler):
    def __init__(self) -> None:
        self.batches: list[list[Message]] = []

    def messages(self, connection: Connection, batch: list[Message]) -> None:
        self.batches.append(batch)
        if "raise" in batch:
            raise ValueError("as asked")
        self.emit(",".join(map(str, batch)))

    def message(self, connection: Connection, message: Message) -> None:
        raise AssertionError("the whole batch was asked for")


def test_all_messages_arrive_in_order_in_few_calls_of_a_bounded_size(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(b"".join(frame(TEXT, b"%d" % number) for number in range(COUNT)))
        peer.serve()

    path = tmp_path / "events"
    spec = {"handler": "test:Gathering", "sink": f"jsonl:{path}"}
    with Feed(behave) as feed, Child(task(feed.url, **spec), Gathering) as child:
        child.word(MESSAGES, COUNT)
        assert child.stop() == 0
    batches = [event["data"].split(",") for event in lines(path)]
    assert [int(number) for batch in batches for number in batch] == list(range(COUNT))
    assert max(map(len, batches)) <= BATCH_MAX
    assert len(batches) < COUNT / 50


def test_an_exception_is_logged_with_the_numbers_of_its_batch_and_the_next_batch_goes_on() -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        for messages in (("a", "b"), ("c", "raise", "d"), ("e",)):
            before = child.words[MESSAGES]
            peer.raw(b"".join(frame(TEXT, message.encode()) for message in messages))
            child.word(MESSAGES, before + len(messages))
        peer.serve()

    with Feed(behave) as feed:
        child = Child(task(feed.url, handler="test:Gathering"), Gathering)
        with child:
            child.word(MESSAGES, 6)
            (failed,) = child.log("handler.failed")
            assert child.words[HANDLER_ERRORS] == 1
    assert (failed["message_number"], failed["message_number_last"]) == (3, 5)
    assert failed["connection"] == 0
    assert "raise" not in failed["reason"]


def test_a_batch_that_fails_counts_once_and_a_batch_that_succeeds_begins_anew() -> None:
    rig = Rig(Gathering, handler_errors=2, collect_errors=True)
    rig.opened()
    rig.receive("raise", "raise", "raise")
    rig.receive("fine")
    rig.receive("raise")
    assert [(error.first, error.last, error.in_a_row) for error in rig.errors] == [(1, 3, 1), (5, 5, 1)]
    assert not rig.ended
    rig.receive("raise")
    assert rig.ended


def test_a_batch_belongs_to_the_handler_which_may_keep_and_change_it() -> None:
    class Draining(Gathering):
        def messages(self, connection: Connection, batch: list[Message]) -> None:
            super().messages(connection, batch.copy())
            batch.clear()

    rig = Rig(Draining)
    rig.opened()
    rig.receive("a", "b")
    rig.receive("c")
    assert rig.handler.batches == [["a", "b"], ["c"]]
    assert rig.events == ["a,b", "c"]


def test_a_note_names_the_whole_batch() -> None:
    rig = Rig(Gathering)
    rig.opened()
    with pytest.raises(ValueError, match="as asked") as raising:
        rig.receive("a", "raise")
    assert raising.value.__notes__ == ["about messages 1 to 2 of connection 0"]
