"""The last good look at the fleet, for many who ask at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from supervisor.serving.latest import FRESH_S, Latest
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


@pytest.fixture
def hanging(script: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """Whoever begins a look waits for nothing, and it ends when the gate is opened."""
    monkeypatch.setattr("supervisor.serving.latest.WAIT_S", 0.0)
    yield script
    script.gate.set()


def begin_a_look_that_hangs(script: Script) -> None:
    script.entered.clear()
    script.gate.clear()
    script.now_s += FRESH_S
    with contextlib.suppress(Unavailable):
        script.latest.get()
    assert script.entered.wait(30)


def test_while_a_look_hangs_no_second_one_begins_and_everybody_gets_the_last(hanging: Script) -> None:
    until(lambda: tried(hanging) == b"look 1", 10)
    begin_a_look_that_hangs(hanging)
    for ago_s, error in ((1.0, ""), (4.0, ""), (5.5, "no answer for 6 s"), (60.0, "no answer for 60 s")):
        hanging.now_s = 100 + FRESH_S + ago_s
        look = hanging.latest.get()
        assert (look.body, look.age_s, look.error) == (b"look 1", pytest.approx(FRESH_S + ago_s), error)
    assert hanging.calls == 2
    hanging.gate.set()
    until(lambda: tried(hanging) == b"look 2", 10)
    assert hanging.latest.get().error == ""


def test_while_the_first_look_hangs_the_answer_is_that_there_is_none_yet(hanging: Script) -> None:
    begin_a_look_that_hangs(hanging)
    for waited_s, reason in ((1.0, "no answer yet"), (9.0, "no answer for 9 s")):
        hanging.now_s = 100 + FRESH_S + waited_s
        with pytest.raises(Unavailable, match=f"^{reason}$"):
            hanging.latest.get()
    assert hanging.calls == 1


def tried(script: Script) -> bytes:
    try:
        return script.latest.get().body
    except Unavailable:
        return b""


def test_a_look_that_breaks_is_logged_and_blocks_no_later_one(caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    broken = [True]

    def look() -> tuple[bytes, float]:
        if broken[0]:
            raise ZeroDivisionError
        return b"well", 0.0

    latest = Latest(look, lambda: script.now_s)
    with pytest.raises(Unavailable, match="looking broke: ZeroDivisionError"):
        latest.get()
    assert [record.message for record in caplog.records] == ["a look at the fleet broke"]
    broken[0] = False
    script.now_s += FRESH_S
    assert latest.get().body == b"well"
