from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from workers.board import TROUBLE_GENERATION, TROUBLE_MAX_BYTES, Board, Slot
from workers.troubles import Troubles


@pytest.fixture
def slot() -> Iterator[Slot]:
    board = Board.create()
    yield board.slot(0)
    os.close(board.fd)


def test_a_trouble_stands_on_the_board_until_it_is_over(slot: Slot) -> None:
    troubles = Troubles(slot)
    assert not slot.read_trouble()
    troubles.set("sink", "no answer from collector.example:443 for 12 s")
    assert slot.read_trouble() == "sink: no answer from collector.example:443 for 12 s"
    troubles.set("sink", "no answer from collector.example:443 for 13 s")
    assert slot.read_trouble() == "sink: no answer from collector.example:443 for 13 s"
    troubles.clear("sink")
    assert slot.read_trouble() == ""


def test_the_last_words_stay_whatever_becomes_of_the_parts(slot: Slot) -> None:
    troubles = Troubles(slot)
    troubles.set("sink", "no answer")
    troubles.end("the sink failed:\nno room")
    assert slot.read_trouble() == "the sink failed: no room"
    troubles.clear("sink")
    troubles.set("handler", "an error")
    troubles.end("and then that")
    assert slot.read_trouble() == "the sink failed: no room"


def test_of_long_last_words_the_end_is_shown_as_well_since_it_says_where(slot: Slot) -> None:
    Troubles(slot).end(f"ValueError: {'x' * 500} at feed.py:12")
    shown = slot.read_trouble()
    assert shown is not None
    assert len(shown) == TROUBLE_MAX_BYTES
    assert shown.startswith("ValueError: x")
    assert shown.endswith("x at feed.py:12")


def test_of_several_troubles_the_first_is_shown_and_how_many_more_there_are(slot: Slot) -> None:
    troubles, shown = Troubles(slot), []
    for key in ("connection 10", "connection 2", "sink", "handler"):
        troubles.set(key, "it failed")
        shown.append(slot.read_trouble())
    for key in ("handler", "connection 2", "sink", "connection 10"):
        troubles.clear(key)
        shown.append(slot.read_trouble())
    assert shown == [
        "connection 10: it failed",
        "connection 2: it failed (and 1 more)",
        "sink: it failed (and 2 more)",
        "handler: it failed (and 3 more)",
        "sink: it failed (and 2 more)",
        "sink: it failed (and 1 more)",
        "connection 10: it failed",
        "",
    ]


def test_a_trouble_that_does_not_change_is_not_written_again(slot: Slot) -> None:
    troubles = Troubles(slot)
    troubles.set("connection 0", "the server answered 401 (permanent)")
    generation = slot.words[TROUBLE_GENERATION]
    troubles.set("connection 0", "the server answered 401 (permanent)")
    troubles.clear("connection 1")
    assert slot.words[TROUBLE_GENERATION] == generation


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\r\nlines\tand  gaps", "sink: two lines and gaps"),
        ("half of a pair \ud83d", "sink: half of a pair ?"),
        ("é" * 200, "sink: " + "é" * 77),
        ("x" + "é" * 200, "sink: x" + "é" * 76),
        ("😀" * 200, "sink: " + "😀" * 38),
    ],
)
def test_a_trouble_is_one_line_of_whole_characters_that_fits_into_a_row(slot: Slot, text: str, shown: str) -> None:
    Troubles(slot).set("sink", text)
    assert slot.read_trouble() == shown
    assert len(shown.encode()) <= TROUBLE_MAX_BYTES


def test_troubles_of_a_thread_and_of_the_loop_do_not_mix(slot: Slot) -> None:
    troubles = Troubles(slot)
    threads = [
        threading.Thread(target=_set_and_clear, args=(troubles, key)) for key in ("handler", "sink", "connection 0")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slot.read_trouble() == ""
    troubles.set("connection 1", "it failed")
    assert slot.read_trouble() == "connection 1: it failed"


def _set_and_clear(troubles: Troubles, key: str) -> None:
    for number in range(2000):
        troubles.set(key, f"failed {number} times")
    troubles.clear(key)
