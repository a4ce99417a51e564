"""What waits until events are safe: called behind their flush, in order, once; never for what a sink still holds."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tenured import Connection, Handler, Message, Shard
from tests.child import Child, task
from tests.feed import TEXT, Feed, Peer, frame
from tests.sinks import batch
from tests.test_delivery import Recording, lane_of
from tests.wait import until
from workers.board import DEADLINE, HANDLER_ERRORS, MESSAGES, Board, Slot
from workers.handling.settling import WAITING_MAX
from workers.sinks.delivery import Direct
from workers.sinks.discard import Discard
from workers.testing import Rig


class Acknowledging(Handler):
    """Answers each message when its event is safe."""

    def message(self, connection: Connection, message: Message) -> None:
        self.emit(message)
        self.when_safe(lambda: connection.send(f"ack {message!s}"))


@pytest.fixture
def slot() -> Slot:
    slot = Board.create().slot(0)
    slot.words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 600 * 10**9
    return slot


def test_a_number_is_reached_only_after_a_flush_behind_the_events_before_it_and_the_loop_is_woken(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    sink.gate.clear()
    lane = lane_of(sink, slot, woken.set)
    lane.put(batch("one"))
    lane.settle(1)
    assert sink.entered.wait(5)
    assert lane.settled == 0
    sink.gate.set()
    assert woken.wait(5)
    assert (lane.settled, sink.calls) == (1, ["one", "flush"])


def test_a_number_and_a_checkpoint_behind_the_same_events_need_one_flush(slot: Slot) -> None:
    sink = Recording()
    sink.gate.clear()
    lane = lane_of(sink, slot)
    lane.put(batch("one"))
    lane.settle(1)
    lane.commit("after one")
    lane.settle(2)
    sink.gate.set()
    until(lambda: lane.settled == 2, 5)
    assert slot.read_checkpoint() == "after one"
    assert sink.calls == ["one", "flush"]


def test_many_numbers_cost_few_flushes(slot: Slot) -> None:
    sink = Recording()
    lane = lane_of(sink, slot)
    for number in range(1, 1001):
        lane.put(batch(str(number)))
        lane.settle(number)
    until(lambda: lane.settled == 1000, 5)
    assert sink.calls.count("flush") <= 5


def test_a_sink_that_never_waits_is_safe_at_once(slot: Slot) -> None:
    direct = Direct(Discard(), slot)
    direct.put(batch("one"))
    direct.settle(7)
    assert direct.settled == 7


def test_a_sink_that_fails_settles_nothing(slot: Slot) -> None:
    woken = threading.Event()
    lane = lane_of(Recording(OSError(28, "No space left on device")), slot, woken.set)
    lane.put(batch("one"))
    lane.settle(1)
    assert woken.wait(5)
    assert lane.finished
    assert lane.settled == 0


def test_a_child_acknowledges_what_its_sink_has_flushed_in_order_and_nothing_else(tmp_path: Path) -> None:
    opened, flushed = tmp_path / "open", tmp_path / "flushed"
    (tmp_path / "sink.py").write_text(GATED.format(opened=str(opened), flushed=str(flushed)))

    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(3):
            peer.text(str(number))
        peer.serve()

    stream = {"handler": "test:Handler", "sink": f"{tmp_path}/sink.py:Gated"}
    with Feed(behave) as feed, Child(task(feed.url, **stream), Acknowledging) as child:
        until(flushed.exists, 5)  # it has been asked to, and has not done it
        assert feed.texts == []
        opened.touch()
        until(lambda: [text for _, text in feed.texts] == ["ack 0", "ack 1", "ack 2"], 5)
        assert child.stop() == 0


GATED = """
from pathlib import Path
from tenured import Sink
from tests.wait import until

class Gated(Sink):
    def write(self, events):
        pass

    def flush(self):
        Path({flushed!r}).touch()
        until(Path({opened!r}).exists, 20)
"""


def test_what_waits_and_raises_is_an_error_of_the_handler_and_the_next_one_goes_on(tmp_path: Path) -> None:
    class Failing(Acknowledging):
        def message(self, connection: Connection, message: Message) -> None:
            self.emit(message)
            self.when_safe(lambda: connection.send(1 / int(message) and str(message)))

    rig = Rig(Failing, collect_errors=True)
    rig.opened()
    rig.receive("1", "0", "2")
    assert rig.sent() == ["1", "2"]
    assert [(type(each.error), each.first) for each in rig.errors] == [(ZeroDivisionError, 0)]

    def behave(peer: Peer) -> None:
        peer.accept()
        for text in ("1", "0", "2"):
            peer.text(text)
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url, handler="test:Handler"), Failing) as child:
        child.word(HANDLER_ERRORS, 1)
        until(lambda: [text for _, text in feed.texts] == ["1", "2"], 5)


def test_what_waits_may_emit_and_wait_again() -> None:
    class Chained(Handler):
        def opened(self, connection: Connection) -> None:
            self.emit("first")
            self.when_safe(self.then)

        def then(self) -> None:
            self.emit("second")
            self.when_safe(lambda: self.emit("third"))

    rig = Rig(Chained)
    rig.opened()
    assert rig.events == ["first", "second", "third"]


def test_functions_that_wait_for_a_sink_that_stands_still_stop_the_reading(tmp_path: Path) -> None:
    class Filtering(Handler):
        def start(self, shard: Shard) -> None:
            self.emit("stands in the way")

        def message(self, connection: Connection, message: Message) -> None:
            self.when_safe(lambda: None)

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(frame(TEXT, b"x") * (10 * WAITING_MAX))
        peer.serve()

    (tmp_path / "sink.py").write_text(
        "import pathlib, time\nfrom tenured import Sink\nclass Stands(Sink):\n  def write(self, events):\n"
        f"    while not pathlib.Path('{tmp_path}/go').exists(): time.sleep(0.01)\n"
    )
    spec = {"sink": f"{tmp_path}/sink.py:Stands", "handler": "x"}
    with Feed(behave) as feed, Child(task(feed.url, **spec), Filtering) as child:
        child.word(MESSAGES, WAITING_MAX)
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + 0.5, 5)
        assert child.words[MESSAGES] < 5 * WAITING_MAX
        (tmp_path / "go").touch()
        child.word(MESSAGES, 10 * WAITING_MAX)
        assert child.stop() == 0
