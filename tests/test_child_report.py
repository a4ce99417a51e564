"""What a child says on the board is what its report says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from supervisor.core.model import Report
from supervisor.processes.child import Child
from workers import board as words_of
from workers.board import Board
from workers.process.wire import Start

NUMBERS = {
    "heartbeat_ns": words_of.HEARTBEAT,
    "open": words_of.OPEN,
    "want": words_of.WANT,
    "messages": words_of.MESSAGES,
    "last_event_ns": words_of.LAST_EVENT,
    "bytes": words_of.BYTES,
    "connects": words_of.CONNECTS,
    "handler_errors": words_of.HANDLER_ERRORS,
    "gaps": words_of.GAPS,
    "violations": words_of.VIOLATIONS,
    "silences": words_of.SILENCES,
    "tokens_dropped": words_of.TOKENS_DROPPED,
    "events_dropped": words_of.EVENTS_DROPPED,
    "sink_waiting_bytes": words_of.SINK_WAITING,
    "sink_stalled_ns": words_of.SINK_STALLED,
    "sink_retries": words_of.SINK_RETRIES,
}


@pytest.fixture
def child() -> Iterator[Child]:
    board = Board.create()
    slot = board.slot(5)
    yield Child("trades/0", Start(slot.number, 7, 1000), slot)
    os.close(board.fd)


def test_a_report_has_each_number_of_the_board_at_its_place(child: Child) -> None:
    assert child.report() == Report(7)
    for number, word in enumerate(NUMBERS.values(), 1000):
        child.slot.words[word] = number
    child.slot.words[words_of.STARTED] = 1
    expected = {name: number for number, name in enumerate(NUMBERS, 1000)}
    assert child.report() == replace(Report(7, started=True), **expected)


def test_a_report_has_the_newest_texts(child: Child) -> None:
    told = []
    for checkpoint, trouble in (("1", "sink: no answer"), ("2", "sink: still none"), ("3", "")):
        child.slot.write_checkpoint(checkpoint)
        child.slot.write_trouble(trouble)
        report = child.report()
        told.append((report.checkpoint, report.trouble))
        assert child.report() == report
    assert told == [("1", "sink: no answer"), ("2", "sink: still none"), ("3", "")]


def test_a_text_that_cannot_be_read_stays_as_it_was_and_is_read_again(child: Child) -> None:
    child.slot.write_checkpoint("first")
    child.slot.write_trouble("first")
    child.report()
    child.slot.write_checkpoint("second")
    child.slot.write_trouble("second")
    for label in (16, 12):
        child.slot.words[label] ^= 1 << 20  # as if the bytes had not arrived yet
    assert (child.report().checkpoint, child.report().trouble) == ("first", "first")
    for label in (16, 12):
        child.slot.words[label] ^= 1 << 20
    assert (child.report().checkpoint, child.report().trouble) == ("second", "second")
