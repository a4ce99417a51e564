"""The last good look at the fleet, for many who ask at once."""

from __future__ import annotations

import threading

import pytest

from supervisor.latest import FRESH_S, Latest
from supervisor.stores.interface import Unavailable
from tests.wait import until


class Script:
    """A look whose answers and time a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls = 0
        self.error = ""
        self.age_s = 0.0
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.latest = Latest(self.look, lambda: self.now_s)

    def look(self) -> tuple[bytes, float]:
        self.calls += 1
        self.entered.set()
        assert self.gate.wait(30)
        if self.error:
            raise Unavailable(self.error)
        return b"look %d" % self.calls, self.age_s


@pytest.fixture
def script() -> Script:
    return Script()


def test_a_look_is_shared_while_it_is_fresh(script: Script) -> None:
    assert script.latest.get().body == b"look 1"
    script.now_s += FRESH_S * 0.9
    look = script.latest.get()
    assert (look.body, look.error, script.calls) == (b"look 1", "", 1)
    assert look.age_s == pytest.approx(FRESH_S * 0.9)
    script.now_s += FRESH_S * 0.2
    assert script.latest.get().body == b"look 2"


def test_the_age_that_a_look_brings_along_counts(script: Script) -> None:
    script.age_s = 5.0
    assert script.latest.get().age_s == pytest.approx(5.0)


def test_when_a_look_fails_the_last_good_one_is_given_with_its_age_and_the_reason(script: Script) -> None:
    script.latest.get()
    script.now_s += 40
    script.error = "it timed out"
    look = script.latest.get()
    assert (look.body, look.age_s, look.error) == (b"look 1", pytest.approx(40.0), "it timed out")
    script.now_s += FRESH_S
    script.error = ""
    look = script.latest.get()
    assert (look.body, look.error) == (b"look 3", "")


def test_while_there_never_was_a_good_look_the_reason_is_raised_and_the_store_is_not_pressed(script: Script) -> None:
    script.error = "it timed out"
    for _ in range(5):
        with pytest.raises(Unavailable, match="it timed out"):
            script.latest.get()
    assert script.calls == 1


def test_only_one_looks_and_nobody_waits_for_him(script: Script) -> None:
    script.latest.get()
    script.now_s += 10
    script.entered.clear()
    script.gate.clear()
    slow = threading.Thread(target=script.latest.get)
    slow.start()
    assert script.entered.wait(30)
    try:
        assert [script.latest.get().body for _ in range(20)] == [b"look 1"] * 20
        assert script.calls == 2
    finally:
        script.gate.set()
        slow.join(30)
    until(lambda: script.latest.get().body == b"look 2", 5)


def test_a_look_that_breaks_is_not_taken_for_one_that_failed_and_blocks_no_later_one(script: Script) -> None:
    broken = [True]

    def look() -> tuple[bytes, float]:
        if broken[0]:
            raise RuntimeError("a bug")
        return b"well", 0.0

    latest = Latest(look, lambda: script.now_s)
    with pytest.raises(RuntimeError, match="a bug"):
        latest.get()
    broken[0] = False
    script.now_s += FRESH_S
    assert latest.get().body == b"well"
