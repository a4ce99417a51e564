"""When a child may begin an attempt to connect; the test is the parent and writes the board's words by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from tests.far_ends import InThread
from tests.wait import until
from workers.board import ASKED, FLOORS, GRANTED, GRANTED_AT, REFUSED, Board
from workers.process.kernel import boottime_ns
from workers.stream import floors
from workers.stream.permission import Asker, Permissions
from workers.stream.question import ASK_AGAIN_NS, Go, Question, Wait, valid_ns

S = 1_000_000_000
NEVER_NS = 2**63 - 1
HOST, OTHER = "feed.example:443", "other.example:443"
RATE = 5.0
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


class Line:
    """Connections that want to begin, and look whenever they may: at their time, once it is their turn."""

    def __init__(self, permissions: Permissions, count: int) -> None:
        self.permissions = permissions
        self.waiting = [Waiter() for _ in range(count)]
        self.began: list[Waiter] = []
        self.asks = self.looks = 0

    def pass_to(self, now_ns: int) -> None:
        for waiter in list(self.waiting):
            if waiter.question is None and waiter.due_ns <= now_ns:
                self.asks += 1
                waiter.question, waiter.due_ns = self.permissions.ask(waiter), NEVER_NS
            if waiter.question is not None and waiter.look_ns <= now_ns:
                self.looks += 1
                step = waiter.question.look(now_ns)
                if isinstance(step, Wait):
                    assert step.until_ns > now_ns
                    waiter.look_ns = step.until_ns
                else:
                    assert now_ns < step.by_ns
                    self.waiting.remove(waiter)
                    self.began.append(waiter)
                    self.permissions.leave(waiter)


class Waiter:
    def __init__(self) -> None:
        self.question: Question | None = None
        self.due_ns = self.look_ns = 0

    def take_turn(self) -> None:
        self.due_ns = 0


def question_of(permissions: Permissions, asker: Asker) -> Question:
    question = permissions.ask(asker)
    assert question is not None
    return question


def test_without_a_rate_there_is_nothing_to_ask(words: memoryview) -> None:
    assert not Permissions(words, 0, -1).needed
    assert Permissions(words, RATE, -1).needed


def test_with_a_rate_it_asks_once_and_begins_when_the_parent_says(words: memoryview, bell_fd: int) -> None:
    permissions, connection = Permissions(words, RATE, bell_fd), Mock()
    question = question_of(permissions, connection)
    assert isinstance(question.look(S), Wait)
    assert words[ASKED] == 1
    assert rung(bell_fd) == 1
    for now_ns in range(S, 2 * S, S // 50):
        assert isinstance(question.look(now_ns), Wait)
    assert words[ASKED] == 1
    grant(words, 3 * S)
    assert question.look(2 * S) == Wait(3 * S)
    assert question.look(3 * S) == Go(3 * S + valid_ns(RATE))
    permissions.leave(connection)
    assert isinstance(question_of(permissions, connection).look(3 * S), Wait), "each attempt needs one of its own"
    assert words[ASKED] == 2


def test_it_asks_again_when_nobody_answers_and_never_begins_unasked(words: memoryview) -> None:
    question = Question(words, RATE, -1)
    for now_ns in range(S, 61 * S, S // 20):
        assert isinstance(question.look(now_ns), Wait)
    assert words[ASKED] == 60 * S // ASK_AGAIN_NS
    words[GRANTED_AT], words[GRANTED] = S, words[ASKED] - 1  # to an earlier question: not this one
    assert isinstance(question.look(61 * S), Wait)
    grant(words, 61 * S)
    assert isinstance(question.look(61 * S), Go)


def test_connections_take_turns_with_one_question_at_a_time(words: memoryview) -> None:
    line = Line(Permissions(words, RATE, -1), 3)
    order = list(line.waiting)
    for turn in range(1, 200):
        now_ns = turn * 20_000_000
        if words[ASKED] > words[GRANTED]:
            grant(words, now_ns)
        line.pass_to(now_ns)
        assert words[ASKED] <= len(line.began) + 1
    assert line.began == order


def test_who_waits_behind_others_or_for_a_granted_time_does_not_look_in_between(words: memoryview) -> None:
    """Fifty connections at one in a second: a few looks for each, not fifty in each second for each."""
    line = Line(Permissions(words, 1.0, -1), 50)
    at_ns = S
    for now_ns in range(S, 60 * S, 1_000_000):
        if words[ASKED] > words[GRANTED]:
            at_ns = max(at_ns + S, now_ns)
            grant(words, at_ns)
        line.pass_to(now_ns)
    assert len(line.began) == 50
    assert line.asks <= 2 * 50
    assert line.looks <= 5 * 50


def test_a_parent_that_does_not_answer_is_looked_for_less_and_less_often(words: memoryview) -> None:
    line = Line(Permissions(words, 1.0, -1), 10)
    for now_ns in range(S, 11 * S, 1_000_000):
        line.pass_to(now_ns)
    assert 20 <= line.looks <= 60


def test_one_that_leaves_gives_its_turn_to_the_next_which_asks_for_itself(words: memoryview) -> None:
    permissions, first, second = Permissions(words, RATE, -1), Mock(), Mock()
    question_of(permissions, first).look(S)
    assert permissions.ask(second) is None
    grant(words, S)
    permissions.leave(first)
    assert second.take_turn.call_count == 1
    assert isinstance(question_of(permissions, second).look(S), Wait)
    assert words[ASKED] == 2


def test_a_permission_that_was_not_used_in_time_is_asked_for_anew(words: memoryview) -> None:
    question = Question(words, RATE, -1)
    question.look(S)
    grant(words, 2 * S)
    asked = words[ASKED]
    assert isinstance(question.look(2 * S + valid_ns(RATE)), Wait)
    assert words[ASKED] == asked + 1
    grant(words, 5 * S)
    assert isinstance(question.look(5 * S + valid_ns(RATE) - 1), Go)


def test_who_waits_begins_when_the_answer_is_there(words: memoryview) -> None:
    question, told = Question(words, 1.0, -1), []
    waiting = InThread(lambda: told.append(question.wait()))
    until(lambda: words[ASKED], 20)
    for _ in range(20):  # a busy machine may let one run out
        at_ns = boottime_ns()
        grant(words, at_ns)
        until(lambda: not waiting.running or words[ASKED] != words[GRANTED], 20)
        if not waiting.running:
            break
    assert told == [at_ns + valid_ns(1.0)]


def test_who_waits_is_woken_when_its_attempt_is_not_wanted_and_leaves_the_next_answer_to_the_next(
    words: memoryview,
) -> None:
    permissions, first, second, told = Permissions(words, RATE, -1), Mock(), Mock(), []
    question = question_of(permissions, first)
    waiting = InThread(lambda: told.append(question.wait()))
    until(lambda: words[ASKED], 20)
    grant(words, boottime_ns() + 3600 * S)  # it sleeps until then
    permissions.ask(second)
    permissions.leave(first)
    waiting.result()
    permissions.leave(first)
    question_of(permissions, second).look(boottime_ns())
    grant(words, boottime_ns())
    assert [*told, question.wait()] == [0, 0]


# --- floors -------------------------------------------------------------------------------------------------


def test_a_floor_of_the_parent_is_one_for_its_host(words: memoryview) -> None:
    floors.write(words, FLOORS, {floors.mark_of(HOST): 9 * S})
    permissions = Permissions(words, 0, -1)
    assert permissions.held_until(HOST, S) in AFTER_FLOOR
    assert permissions.held_until(OTHER, S) == 0
    assert permissions.held_until(HOST, 9 * S) == 0


def test_what_a_server_asked_for_holds_for_its_host_and_is_told_to_the_parent(words: memoryview, bell_fd: int) -> None:
    permissions = Permissions(words, 0, bell_fd)
    permissions.refuse(HOST, 9 * S, S)
    assert permissions.held_until(HOST, S) in AFTER_FLOOR
    assert permissions.held_until(OTHER, S) == 0
    assert floors.read(words, REFUSED) == {floors.mark_of(HOST): 9 * S}
    assert rung(bell_fd) == 1
    permissions.refuse(HOST, 5 * S, 2 * S)
    permissions.refuse(OTHER, 6 * S, 2 * S)
    assert permissions.held_until(HOST, 5 * S) in AFTER_FLOOR, "the longest of what was asked for"
    assert floors.read(words, REFUSED) == {floors.mark_of(HOST): 9 * S, floors.mark_of(OTHER): 6 * S}
