"""Calls that block, on threads that get stuck: each has its deadline, and none takes the threads of all others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from supervisor.lanes import STUCK_MAX_PER_KEY, STUCK_MAX_PER_THREAD, Lane, Late, Raised

DEADLINE_S = 0.05


class Bench:
    """A lane of two threads and its loop, which turns only inside `until`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.lane = Lane("test", 2, self.loop)
        self.results: dict[str, list[Any]] = {}
        self.released = threading.Event()
        self.made: list[str] = []

    def call(
        self, name: str, work: Callable[[], Any], key: str = "", timeout_s: float = DEADLINE_S, urgent: bool = False
    ) -> None:
        def note(result: Any, _at_ns: int) -> None:
            self.results.setdefault(name, []).append(result)

        def made() -> Any:
            self.made.append(name)
            return work()

        self.lane.submit(key or name, made, timeout_s, note, urgent)

    def hang(self, name: str, key: str = "") -> None:
        self.call(name, lambda: self.released.wait(10), key)

    def until(self, condition: Callable[[], object], timeout_s: float = 5) -> None:
        limit = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < limit, self.results
            self.loop.run_until_complete(asyncio.sleep(0.002))

    def result(self, name: str) -> Any:
        self.until(lambda: name in self.results)
        return self.results[name][0]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.released.set()
    made.lane.close()
    made.loop.close()


def test_a_result_and_an_exception_come_once(bench: Bench) -> None:
    bench.call("fine", lambda: 7, timeout_s=5)
    error = OSError("no")

    def fail() -> None:
        raise error

    bench.call("bad", fail, timeout_s=5)
    assert bench.result("fine") == 7
    assert bench.result("bad") == Raised(error)
    assert bench.lane.stuck == 0


def test_a_stuck_call_is_late_at_its_deadline_and_its_answer_is_passed_on_when_it_comes(bench: Bench) -> None:
    bench.hang("slow")
    assert bench.result("slow") == Late(unsent=False)
    assert bench.lane.stuck == 1
    bench.released.set()
    bench.until(lambda: len(bench.results["slow"]) == 2)
    assert bench.results["slow"][1] is True
    assert bench.lane.stuck == 0


def test_stuck_calls_are_replaced_up_to_a_bound_beyond_which_no_call_is_made(bench: Bench) -> None:
    most = 2 * (1 + STUCK_MAX_PER_THREAD)
    for number in range(most):
        bench.hang(str(number))
        bench.result(str(number))
    assert bench.lane.stuck == most
    bench.call("beyond", lambda: 1)
    assert bench.result("beyond") == Late(unsent=True)
    assert "beyond" not in bench.made
    bench.released.set()
    bench.until(lambda: bench.lane.stuck == 0)
    bench.call("after", lambda: 2, timeout_s=5)
    assert bench.result("after") == 2


def test_one_keys_stuck_calls_leave_the_threads_to_the_others(bench: Bench) -> None:
    for number in range(50):
        bench.hang(f"bad {number}", key="bad")
        bench.result(f"bad {number}")
        bench.call(f"good {number}", lambda: "answered", key="good", timeout_s=5)
        assert bench.result(f"good {number}") == "answered"
    assert bench.lane.stuck == STUCK_MAX_PER_KEY
    sent = [name for name in bench.made if name.startswith("bad")]
    assert len(sent) == STUCK_MAX_PER_KEY
    assert bench.results["bad 49"] == [Late(unsent=True)]
    bench.released.set()
    bench.until(lambda: bench.lane.stuck == 0)
    bench.call("bad again", lambda: 3, key="bad", timeout_s=5)
    assert bench.result("bad again") == 3


def test_a_call_is_never_made_after_its_deadline_has_passed_in_the_queue(bench: Bench) -> None:
    holding = [f"hold {number}" for number in range(2)]
    for name in holding:
        bench.call(name, lambda: bench.released.wait(10), timeout_s=10)
    bench.until(lambda: len(bench.made) == 2)
    bench.call("queued", lambda: 1)
    assert bench.result("queued") == Late(unsent=True)
    bench.released.set()
    for name in holding:
        bench.result(name)
    assert "queued" not in bench.made


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), UnicodeDecodeError("u", b"", 0, 1, "x")]
)
def test_no_exception_of_any_kind_ends_a_thread(bench: Bench, error: BaseException) -> None:
    def fail() -> None:
        raise error

    for number in range(5):
        bench.call(str(number), fail, timeout_s=5)
    assert [bench.result(str(number)) for number in range(5)] == [Raised(error)] * 5
    bench.call("after", lambda: 1, timeout_s=5)
    assert bench.result("after") == 1
    assert bench.lane.stuck == 0


def test_what_is_urgent_comes_before_all_that_waits_in_its_own_order(bench: Bench) -> None:
    gate = threading.Event()
    for name in ("first", "second"):
        bench.call(name, lambda: gate.wait(10), timeout_s=10)
    bench.until(lambda: len(bench.made) == 2)
    for name in ("claim 1", "claim 2"):
        bench.call(name, lambda: None, timeout_s=10)
    for name in ("renewal 1", "renewal 2"):
        bench.call(name, lambda: None, timeout_s=10, urgent=True)
    gate.set()
    bench.until(lambda: len(bench.results) == 6)
    assert set(bench.made[2:4]) == {"renewal 1", "renewal 2"}


def test_an_urgent_call_that_waits_too_long_is_late_like_any_other(bench: Bench) -> None:
    for name in ("first", "second"):
        bench.call(name, lambda: bench.released.wait(10), timeout_s=10)
    bench.until(lambda: len(bench.made) == 2)
    bench.call("renewal", lambda: None, urgent=True)
    assert bench.result("renewal") == Late(unsent=True)
    assert "renewal" not in bench.made


def test_a_closed_lane_forgets_what_waits_and_breaks_nothing_in_the_loop(bench: Bench) -> None:
    complaints: list[object] = []
    bench.loop.set_exception_handler(lambda _loop, context: complaints.append(context))
    for number in range(2):
        bench.call(f"hold {number}", lambda: bench.released.wait(10), timeout_s=10)
    bench.until(lambda: len(bench.made) == 2)
    bench.call("waiting", lambda: 1)
    bench.lane.close()
    bench.call("too late", lambda: 1)
    assert bench.result("too late") == Late(unsent=True)
    assert "waiting" not in bench.results
    assert bench.made == ["hold 0", "hold 1"]
    assert complaints == []
