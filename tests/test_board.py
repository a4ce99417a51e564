from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from workers import board as words_of
from workers.board import CHECKPOINT_MAX_BYTES, SLOTS, TROUBLE_MAX_BYTES, WORDS, Board, Slot


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board.create()
    yield made
    os.close(made.fd)


def test_every_slot_is_its_own(board: Board) -> None:
    for number in (0, 1, SLOTS - 1):
        slot = board.slot(number)
        slot.write_checkpoint("x" * CHECKPOINT_MAX_BYTES)
        slot.write_checkpoint("y" * CHECKPOINT_MAX_BYTES)
        for word in range(words_of.GENERATION):
            slot.words[word] = -(2**63) + number
    for number in (0, 1, SLOTS - 1):
        assert board.slot(number).read_checkpoint() == "y" * CHECKPOINT_MAX_BYTES
        assert board.slot(number).words[: words_of.GENERATION].tolist() == [-(2**63) + number] * words_of.GENERATION
    assert board.slot(2).words.tolist() == [0] * WORDS


def test_another_mapping_of_the_same_file_shows_the_same_numbers(board: Board) -> None:
    board.slot(7).words[words_of.DEADLINE] = 2**62
    assert Board.attach(board.fd).slot(7).words[words_of.DEADLINE] == 2**62


def test_a_cleared_slot_says_nothing_of_its_last_child(board: Board) -> None:
    slot = board.slot(3)
    slot.words[words_of.EPOCH] = 5
    slot.write_checkpoint("token")
    slot.clear()
    assert slot.words.tolist() == [0] * WORDS
    assert slot.read_checkpoint() is None


@pytest.mark.parametrize("token", ["", "a", "ä€😀", "x" * CHECKPOINT_MAX_BYTES])
def test_a_checkpoint_comes_back_as_it_was_written(board: Board, token: str) -> None:
    slot = board.slot(0)
    assert slot.read_checkpoint() is None
    slot.write_checkpoint("before")
    slot.write_checkpoint(token)
    assert slot.read_checkpoint() == token


def test_a_checkpoint_that_is_too_long_is_refused_and_the_last_one_stays(board: Board) -> None:
    slot = board.slot(0)
    slot.write_checkpoint("short")
    with pytest.raises(ValueError, match="2049 bytes, at most 2048"):
        slot.write_checkpoint("x" * (CHECKPOINT_MAX_BYTES - 1) + "ä")
    assert slot.read_checkpoint() == "short"


def test_a_child_that_dies_while_it_writes_a_checkpoint_leaves_the_one_before(board: Board) -> None:
    slot = board.slot(0)
    slot.write_checkpoint("first")
    slot.write_checkpoint("second")
    generation = slot.words[words_of.GENERATION]
    slot.write_checkpoint("third")
    slot.words[words_of.GENERATION] = generation  # as if the last store had not been made
    assert slot.read_checkpoint() == "second"


def test_a_checkpoint_whose_bytes_do_not_match_is_not_taken_for_one(board: Board) -> None:
    slot = board.slot(0)
    slot.write_checkpoint("token")
    side = slot.words[words_of.GENERATION] % 2
    slot.words[16 + side] ^= 1 << 20
    assert slot.read_checkpoint() is None


def test_a_trouble_stands_beside_the_checkpoint_and_goes_with_the_child(board: Board) -> None:
    slot = board.slot(3)
    assert slot.read_trouble() is None
    slot.write_checkpoint("c" * CHECKPOINT_MAX_BYTES)
    slot.write_checkpoint("d" * CHECKPOINT_MAX_BYTES)
    for text in ("x" * TROUBLE_MAX_BYTES, "y" * TROUBLE_MAX_BYTES, "", "sink: no answer"):
        slot.write_trouble(text)
        assert slot.read_trouble() == text
    assert slot.read_checkpoint() == "d" * CHECKPOINT_MAX_BYTES
    assert board.slot(2).read_trouble() is board.slot(4).read_trouble() is None
    slot.clear()
    assert slot.read_trouble() is None


def test_a_trouble_that_is_too_long_is_cut_at_a_character(board: Board) -> None:
    slot = board.slot(0)
    slot.write_trouble("x" + "ä" * TROUBLE_MAX_BYTES)
    assert slot.read_trouble() == "x" + "ä" * ((TROUBLE_MAX_BYTES - 1) // 2)


def _write_for_ever(slot: Slot) -> None:
    number = 0
    while True:
        number += 1
        slot.words[words_of.DEADLINE] = number * 0x0101010101
        slot.write_checkpoint(f"{number}:" + chr(ord("a") + number % 26) * (number % 2000))


def test_a_reader_beside_a_writer_never_sees_half_a_word_or_half_a_checkpoint(board: Board) -> None:
    slot = board.slot(0)
    writer = os.fork()
    if writer == 0:
        try:
            _write_for_ever(slot)
        finally:
            os._exit(1)
    try:
        last = seen = reads = 0
        while seen < 100 or reads < 20_000:
            reads += 1
            deadline = slot.words[words_of.DEADLINE]
            assert deadline % 0x0101010101 == 0
            token = slot.read_checkpoint()
            if token is None:
                continue
            number, _, rest = token.partition(":")
            assert rest == chr(ord("a") + int(number) % 26) * (int(number) % 2000)
            assert int(number) >= last
            seen += int(number) > last
            last = int(number)
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
