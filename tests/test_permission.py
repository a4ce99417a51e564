"""When a child may begin an attempt to connect; the test is the parent and writes the board's words by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from workers.board import ASKED, FLOOR, GRANTED, GRANTED_AT, REFUSED_UNTIL, Board
from workers.permission import ASK_AGAIN_NS, Permissions

S = 1_000_000_000
HOST = "feed.example:443"
AFTER_FLOOR = range(9 * S, 10 * S)


@pytest.fixture
def words() -> memoryview:
    return Board.create().slot(0).words


@pytest.fixture
def bell_fd() -> Iterator[int]:
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    yield fd
    os.close(fd)


def rung(bell_fd: int) -> int:
    try:
        return os.eventfd_read(bell_fd)
    except BlockingIOError:
        return 0


def grant(words: memoryview, at_ns: int) -> None:
    words[GRANTED_AT] = at_ns
    words[GRANTED] = words[ASKED]


def test_without_a_rate_an_attempt_begins_at_once_and_nobody_is_asked(words: memoryview, bell_fd: int) -> None:
    assert Permissions(words, False, bell_fd).look(Mock(), HOST, S) == 0
    assert words[ASKED] == 0
    assert not rung(bell_fd)


def test_with_a_rate_it_asks_once_and_begins_when_the_parent_says(words: memoryview, bell_fd: int) -> None:
    permissions, connection = Permissions(words, True, bell_fd), Mock()
    assert S < permissions.look(connection, HOST, S) <= S + 20_000_000
    assert words[ASKED] == 1
    assert rung(bell_fd) == 1
    for now_ns in range(S, 2 * S, S // 50):
        assert now_ns < permissions.look(connection, HOST, now_ns) <= now_ns + 20_000_000
    assert words[ASKED] == 1
    grant(words, 3 * S)
    assert permissions.look(connection, HOST, 2 * S) == 3 * S
    assert permissions.look(connection, HOST, 3 * S) == 0
    assert permissions.look(connection, HOST, 3 * S) > 3 * S, "the next attempt needs a permission of its own"
    assert words[ASKED] == 2


def test_it_asks_again_when_nobody_answers_and_never_begins_unasked(words: memoryview, bell_fd: int) -> None:
    permissions, connection = Permissions(words, True, bell_fd), Mock()
    for now_ns in range(S, 61 * S, S // 20):
        assert permissions.look(connection, HOST, now_ns) > now_ns
    assert words[ASKED] == 60 * S // ASK_AGAIN_NS
    words[GRANTED_AT], words[GRANTED] = S, words[ASKED] - 1  # to an earlier question: not this one
    assert permissions.look(connection, HOST, 61 * S) > 61 * S
    grant(words, 61 * S)
    assert permissions.look(connection, HOST, 61 * S) == 0


def test_connections_take_turns_with_one_question_at_a_time(words: memoryview) -> None:
    permissions = Permissions(words, True, -1)
    connections = [Mock(name=str(number)) for number in range(3)]
    began = []
    for turn in range(1, 200):
        now_ns = turn * 20_000_000
        if words[ASKED] > words[GRANTED]:
            grant(words, now_ns)
        for connection in connections:
            if connection not in began and permissions.look(connection, HOST, now_ns) == 0:
                began.append(connection)
                assert words[ASKED] == len(began)
    assert began == connections


def test_one_that_leaves_gives_its_turn_to_the_next_which_asks_for_itself(words: memoryview) -> None:
    permissions, first, second = Permissions(words, True, -1), Mock(), Mock()
    permissions.look(first, HOST, S)
    permissions.look(second, HOST, S)
    grant(words, S)
    permissions.leave(first)
    assert permissions.look(second, HOST, S) > S
    assert words[ASKED] == 2


def test_no_attempt_begins_before_the_floor_of_the_parent_with_a_rate_or_without(words: memoryview) -> None:
    words[FLOOR] = 9 * S
    for paced in (False, True):
        assert Permissions(words, paced, -1).look(Mock(), HOST, S) in AFTER_FLOOR
    assert words[ASKED] == 0
    assert Permissions(words, False, -1).look(Mock(), HOST, 9 * S) == 0


def test_a_permission_that_was_not_used_in_time_is_asked_for_anew(words: memoryview) -> None:
    permissions, connection = Permissions(words, 5.0, -1), Mock()
    permissions.look(connection, HOST, S)
    grant(words, 2 * S)
    asked = words[ASKED]
    assert permissions.look(connection, HOST, 4 * S) > 0
    assert permissions.look(connection, HOST, 4 * S) > 4 * S
    assert words[ASKED] == asked + 1
    grant(words, 5 * S)
    assert permissions.look(connection, HOST, 5 * S + S // 10) == 0


def test_a_permission_that_a_floor_has_overtaken_is_asked_for_anew(words: memoryview) -> None:
    permissions, connection = Permissions(words, True, -1), Mock()
    permissions.look(connection, HOST, S)
    grant(words, 2 * S)
    words[FLOOR] = 9 * S
    assert permissions.look(connection, HOST, 2 * S) in AFTER_FLOOR
    assert permissions.look(connection, HOST, 9 * S) > 9 * S
    assert words[ASKED] == 2


def test_what_a_server_asked_for_holds_for_its_host_and_is_told_to_the_parent(words: memoryview, bell_fd: int) -> None:
    permissions = Permissions(words, False, bell_fd)
    permissions.refuse(HOST, 9 * S, S)
    assert permissions.look(Mock(), HOST, S) in AFTER_FLOOR
    assert permissions.look(Mock(), "other.example:443", S) == 0
    assert words[REFUSED_UNTIL] == 9 * S
    assert rung(bell_fd) == 1
    permissions.refuse(HOST, 5 * S, 2 * S)
    assert permissions.look(Mock(), HOST, 5 * S) in AFTER_FLOOR, "the longest of what was asked for"
    assert words[REFUSED_UNTIL] == 9 * S
