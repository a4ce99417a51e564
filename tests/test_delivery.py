"""The way to the sink: in order, bounded, nothing after the deadline, checkpoints behind their events."""

from __future__ import annotations

import json
import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.child import task
from tests.sinks import FORK, batch
from tests.wait import until
from workers.board import (
    DEADLINE,
    EVENTS_DROPPED,
    SINK_RETRIES,
    SINK_STALLED,
    SINK_WAITING,
    Board,
    Slot,
)
from workers.log import Log
from workers.process.kernel import boottime_ns
from workers.resuming.marks import Marks
from workers.sinks.condition import Condition
from workers.sinks.delivery import Direct
from workers.sinks.discard import Discard
from workers.sinks.envelope import Batch
from workers.sinks.interface import Sink
from workers.sinks.lane import SLICE_BYTES, Lane, weight
from workers.sinks.outflow import Bell, Outflow
from workers.spec import StreamSpec
from workers.troubles import Troubles
from workers.websocket.frames import Message

MAX_BYTES = 1024 * 1024


def lane_of(sink: Sink, slot: Slot, wake: Callable[[], object] = lambda: None, **given: Any) -> Lane:
    condition = Condition(slot, Log(lambda line: None, task()), Troubles(slot))
    return Lane(sink, slot, condition, wake, **{"max_bytes": MAX_BYTES, **given})


class Recording:
    """A sink that notes its calls, and waits in `write` while `gate` is closed, but for so many as are let through."""

    inline = False

    def __init__(self, fault: Exception | None = None) -> None:
        self.calls: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.sizes: list[int] = []  # of each write
        self._permits = threading.Semaphore(0)
        self._fault = fault

    def let_through(self, writes: int) -> None:
        self._permits.release(writes)

    def open(self) -> None:
        """Nothing to open."""

    def write(self, batches: Sequence[Batch]) -> None:
        self.sizes.append(sum(map(weight, batches)))
        self.entered.set()
        while not self.gate.is_set() and not self._permits.acquire(timeout=0.01):
            continue
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


def test_a_checkpoint_waits_for_the_events_before_it_and_for_none_behind_it(slot: Slot) -> None:
    sink = Recording()
    sink.gate.clear()
    lane = lane_of(sink, slot)
    large = "x" * lane_slice_bytes()
    lane.put(batch("one" + large))
    lane.put(batch("two" + large))
    lane.commit("after two")
    lane.put(batch("three" + large))
    sink.let_through(1)
    until(lambda: len(sink.calls) == 1, 5)
    assert slot.read_checkpoint() is None
    sink.let_through(1)
    until(lambda: slot.read_checkpoint() == "after two", 5)
    assert [call[:5] for call in sink.calls] == ["onexx", "twoxx", "flush"]
    sink.gate.set()


def lane_slice_bytes() -> int:
    return min(SLICE_BYTES, MAX_BYTES // 4)


def test_a_sink_gets_what_waits_in_slices(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    sink.gate.clear()
    lane = lane_of(sink, slot, woken.set)
    while not lane.full:
        lane.put(batch(*["x" * 100] * 50))
    sink.gate.set()
    lane.finish()
    assert woken.wait(5)
    until(lambda: lane.finished, 5)
    assert max(sink.sizes) <= lane_slice_bytes()
    assert len(sink.sizes) <= MAX_BYTES / lane_slice_bytes() + 3, "the slices are needlessly small"
    assert lane.waiting_bytes == 0


@pytest.mark.parametrize(
    "text", ["", "x", "y" * 100, "z" * 5000, "grüße" * 20, "プライス" * 20, "one 🎉 makes all of it wide" * 20]
)
@pytest.mark.parametrize("kind", ["text", "bytes", "with ids"])
def test_what_waits_counts_as_what_it_takes_in_memory(slot: Slot, text: str, kind: str) -> None:
    def made(number: int) -> Batch:
        texts = [f"{number:06}{position:03}{text}" for position in range(20)]
        messages: list[Message] = [one.encode() for one in texts] if kind == "bytes" else [*texts]
        ids: list[str | None] | None = [f"{number:06}{position}" for position in range(20)] if "ids" in kind else None
        return Batch(0, 1, 1, messages, 1, ids)

    sink = Recording()
    sink.gate.clear()
    lane = lane_of(sink, slot)
    lane.put(made(0))
    tracemalloc.start()
    try:
        before, counted_before = tracemalloc.get_traced_memory()[0], lane.waiting_bytes
        while not lane.full:
            lane.put(made(1))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    counted = lane.waiting_bytes - counted_before
    assert 0.7 < taken / counted < 1.1  # the allocator adds a little that is not traced
    sink.gate.set()


def test_many_small_checkpoints_that_wait_count_as_well(slot: Slot) -> None:
    sink = Recording()
    sink.gate.clear()
    lane = lane_of(sink, slot)
    for number in range(1000):
        lane.put(batch("x"))
        lane.commit(f"{number:02000}")
        if lane.full:
            break
    assert number < MAX_BYTES / 2000
    sink.gate.set()


# --- dropping -----------------------------------------------------------------------------------------------


def test_a_lane_that_drops_is_never_full_and_loses_the_oldest_that_wait_and_counts_each(slot: Slot) -> None:
    sink, woken = Recording(), threading.Event()
    sink.gate.clear()
    lane = lane_of(sink, slot, woken.set, drops=True)
    lane.put(batch("first, which the sink has already"))
    until(lambda: sink.entered.is_set(), 5)
    for number in range(1000):
        lane.put(batch(f"{number:05}" + "x" * 5000, f"{number:05}" + "y" * 5000))
        assert not lane.full
        assert lane.waiting_bytes <= MAX_BYTES + 11_000
    dropped = lane.dropped
    assert dropped % 2 == 0
    sink.gate.set()
    lane.finish()
    assert woken.wait(5)
    numbers = [int(call[:5]) for call in sink.calls[1:-2]]
    assert numbers == sorted([*range(dropped // 2, 1000)] * 2)
    assert sink.calls[0].startswith("first")
    assert len(numbers) + dropped == 2000
    assert len(numbers) > MAX_BYTES / 6000


def test_the_newest_batch_stays_however_large_it_is(slot: Slot) -> None:
    sink = Recording()
    sink.gate.clear()
    lane = lane_of(sink, slot, drops=True)
    lane.put(batch("taken"))
    until(lambda: sink.entered.is_set(), 5)
    lane.put(batch("small"))
    lane.put(batch("x" * 2 * MAX_BYTES))
    assert lane.dropped == 1
    sink.gate.set()
    until(lambda: len(sink.calls) == 2, 5)


def test_the_checkpoint_of_a_dropped_event_is_committed_behind_what_was_taken_before_it(slot: Slot) -> None:
    sink = Recording()
    sink.gate.clear()
    lane = lane_of(sink, slot, drops=True)
    lane.put(batch("taken"))
    until(lambda: sink.entered.is_set(), 5)
    lane.put(batch("dropped"))
    lane.commit("after dropped")
    lane.put(batch("x" * 2 * MAX_BYTES))
    assert lane.dropped == 1
    assert slot.read_checkpoint() is None
    sink.gate.set()
    until(lambda: slot.read_checkpoint() == "after dropped", 5)
    assert sink.calls[0] == "taken"


# --- how it fares -------------------------------------------------------------------------------------------


class Seen:
    """A condition, and what the loop shows of it."""

    def __init__(self, slot: Slot) -> None:
        self.records: list[dict[str, Any]] = []
        log = Log(lambda line: self.records.append(json.loads(line)), task())
        self.condition, self._slot = Condition(slot, log, Troubles(slot)), slot
        self.now_ns = boottime_ns()

    def after(self, seconds: float, waiting: int = 100) -> tuple[list[str], str, bool]:
        """So long after now: events logged so far, the trouble, and whether the board says that it is stalled."""
        self.condition.show(waiting, self.now_ns + int(seconds * 1e9))
        words = self._slot.words
        assert words[SINK_WAITING] == waiting
        return [record["event"] for record in self.records], self._slot.read_trouble() or "", words[SINK_STALLED] > 0


def test_a_call_that_lasts_five_seconds_is_a_stall_and_its_end_is_told(slot: Slot) -> None:
    seen = Seen(slot)
    seen.condition.begun()
    assert seen.after(4.9) == ([], "", False)
    assert seen.after(5.5) == (["sink.stalled"], "sink: takes nothing for 5 s", True)
    assert seen.after(60.5) == (["sink.stalled"], "sink: takes nothing for 60 s", True)
    seen.condition.ended()
    assert seen.after(61.5, 0) == (["sink.stalled", "sink.resumed"], "", False)
    stalled, resumed = seen.records
    assert (stalled["level"], stalled["waiting_bytes"]) == ("WARNING", 100)
    assert (resumed["level"], resumed["stalled_ms"] // 1000) == ("INFO", 61)


def test_nothing_to_do_is_no_stall(slot: Slot) -> None:
    seen = Seen(slot)
    assert seen.after(3600, 0) == ([], "", False)


def test_what_is_retried_is_shown_from_the_first_failure_on_and_until_something_goes_through(slot: Slot) -> None:
    seen = Seen(slot)
    seen.condition.begun()
    seen.condition.retrying("no answer from collector.example:443")
    assert seen.after(0.5) == ([], "sink: no answer from collector.example:443 for 0 s", False)
    seen.condition.retrying("HTTP 503 from collector.example:443")
    assert seen.after(12.5) == (["sink.stalled"], "sink: HTTP 503 from collector.example:443 for 12 s", True)
    assert seen.records[0]["reason"] == "HTTP 503 from collector.example:443"
    assert slot.words[SINK_RETRIES] == 2
    seen.condition.fine()
    assert seen.after(1) == (["sink.stalled", "sink.resumed"], "", False)


def test_a_long_write_that_makes_progress_is_no_stall(slot: Slot) -> None:
    seen = Seen(slot)
    seen.condition.begun()
    begun_ns = boottime_ns()
    until(lambda: boottime_ns() - begun_ns > 20_000_000, 5)
    seen.condition.fine()
    seen.now_ns = begun_ns
    assert seen.after(5.01) == ([], "", False)
    assert seen.after(5.5)[2]


def test_dropped_events_are_counted_at_once_and_logged_at_most_every_ten_seconds(slot: Slot) -> None:
    records: list[dict[str, Any]] = []
    log = Log(lambda line: records.append(json.loads(line)), task())
    sink = Recording()
    sink.gate.clear()
    condition, spec = Condition(slot, log, Troubles(slot)), StreamSpec("", sink_buffer=65_536, overflow="drop_oldest")
    outflow = Outflow(slot, sink, condition, log, spec, Bell(), Marks(StreamSpec("")))

    def counts() -> list[int]:
        return [record["count"] for record in records if record["event"] == "events.dropped"]

    now_ns = boottime_ns()
    outflow.deliver(0, ["taken"], 5, 1)
    until(lambda: sink.entered.is_set(), 5)
    for second in range(25):
        outflow.deliver(0, ["x" * 70_000], 70_000, 1)
        outflow.show(now_ns + second * 10**9)
        assert slot.words[EVENTS_DROPPED] == second
    assert counts() == [1, 10, 10]
    sink.gate.set()
    outflow.finish()
    assert counts() == [1, 10, 10, 3]
    assert records[-1]["total"] == 24
