"""The way to the sink: in order, bounded, nothing after the deadline, checkpoints behind their events."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.child import task
from tests.sinks import FORK, batch
from tests.wait import until
from workers.board import DEADLINE, Board, Slot
from workers.delivery import Direct, Lane
from workers.envelope import Batch
from workers.log import Log
from workers.sinks.condition import Condition
from workers.sinks.discard import Discard
from workers.sinks.interface import Sink
from workers.troubles import Troubles

MAX_BYTES = 1024 * 1024


def lane_of(sink: Sink, slot: Slot, wake: Callable[[], object] = lambda: None, **given: Any) -> Lane:
    condition = Condition(slot, Log(lambda line: None, task()), Troubles(slot))
    return Lane(sink, slot, condition, wake, **{"max_bytes": MAX_BYTES, **given})


class Recording:
    """A sink that notes its calls, and waits in `write` while `gate` is closed."""

    inline = False

    def __init__(self, fault: Exception | None = None) -> None:
        self.calls: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self._fault = fault

    def open(self) -> None:
        """Nothing to open."""

    def write(self, batches: Sequence[Batch]) -> None:
        self.gate.wait(10)
        if self._fault:
            raise self._fault
        self.calls += [message for item in batches for message in item.messages]

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def slot() -> Slot:
    slot = Board.create().slot(0)
    slot.words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 600 * 10**9
    return slot


def test_a_lane_delivers_in_order_and_finishes_with_flush_and_close(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    lane = lane_of(sink, slot, woken.set)
    for number in range(100):
        lane.put(batch(str(number)))
    lane.finish()
    assert woken.wait(5)
    assert lane.finished
    assert sink.calls == [*map(str, range(100)), "flush", "close"]


def test_a_lane_is_full_while_its_sink_waits_and_wakes_the_loop_when_there_is_room(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    sink.gate.clear()
    lane = lane_of(sink, slot, woken.set)
    count = 0
    while not lane.full:
        lane.put(batch("x" * 10_000))
        count += 1
    assert MAX_BYTES / 10_600 <= count <= MAX_BYTES / 10_000 + 1
    sink.gate.set()
    assert woken.wait(5)
    until(lambda: not lane.full, 5)
    until(lambda: len(sink.calls) == count, 5)


def test_a_checkpoint_is_committed_only_after_a_flush_behind_the_events_before_it(slot: Slot) -> None:
    sink = Recording()
    sink.gate.clear()
    lane = lane_of(sink, slot)
    lane.put(batch("one"))
    lane.commit("after one")
    assert slot.read_checkpoint() is None
    sink.gate.set()
    until(lambda: slot.read_checkpoint() == "after one", 5)
    assert sink.calls == ["one", "flush"]


def test_many_checkpoints_cost_few_flushes_and_the_last_one_counts(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    lane = lane_of(sink, slot, woken.set)
    for number in range(1000):
        lane.put(batch(str(number)))
        lane.commit(str(number))
    lane.finish()
    assert woken.wait(5)
    assert slot.read_checkpoint() == "999"
    assert sink.calls.count("flush") <= 5


def test_an_error_of_the_sink_is_told_and_nothing_is_committed(slot: Slot) -> None:
    woken = threading.Event()
    lane = lane_of(Recording(OSError(28, "No space left on device")), slot, woken.set)
    lane.put(batch("one"))
    lane.commit("one")
    assert woken.wait(5)
    assert "No space left on device" in lane.failure
    assert lane.finished
    assert slot.read_checkpoint() is None


@pytest.mark.parametrize("kind", ["inline", "lane"])
def test_a_put_at_or_after_the_deadline_ends_the_process_on_the_spot(slot: Slot, kind: str) -> None:
    slot.words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def work() -> None:
        delivery = Direct(Discard(), slot) if kind == "inline" else lane_of(Recording(), slot)
        delivery.put(batch("late"))

    process = FORK.Process(target=work)
    process.start()
    process.join(5)
    assert process.exitcode == 3


def test_a_batch_that_waited_past_the_deadline_is_not_written(slot: Slot) -> None:
    reader, writer = os.pipe()

    class Piping(Recording):
        entered = threading.Event()

        def write(self, batches: Sequence[Batch]) -> None:
            self.entered.set()
            super().write(batches)
            os.write(writer, "".join(map(str, self.calls)).encode())

    def work() -> None:
        sink = Piping()
        sink.gate.clear()
        lane = lane_of(sink, slot)
        lane.put(batch("in time."))
        sink.entered.wait(5)
        lane.put(batch("late."))
        slot.words[DEADLINE] = 1
        sink.gate.set()
        threading.Event().wait(10)

    process = FORK.Process(target=work)
    process.start()
    process.join(5)
    os.close(writer)
    assert process.exitcode == 3
    assert os.read(reader, 100) == b"in time."
