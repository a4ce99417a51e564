"""What the benchmarks count with."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from tests.bench.figures import Figure, alternating, cpu_s, pss_mib, spread, times

# burns CPU in a thread that has ended by the time it is asked for, and says how much that was
BURNING = """
import sys, threading, time
def burn():
    while time.thread_time() < 0.1:
        sum(range(1000))
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print(time.process_time(), flush=True)
sys.stdin.read()
"""


def test_cpu_is_that_of_all_threads_also_of_those_that_have_ended() -> None:
    command = [sys.executable, "-c", BURNING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as burning:
        assert burning.stdout is not None
        used_s = float(burning.stdout.readline())
        assert used_s > 0.1
        assert used_s <= cpu_s(burning.pid) < used_s + 1
        assert 1 < pss_mib(burning.pid) < 100


def test_a_peer_is_compared_with_ours_of_the_same_round() -> None:
    figure = times("a peer", [10.0, 40.0, 30.0], [1.0, 2.0, 30.0], "us", goal_min=5)
    assert (figure.name, figure.value, figure.unit) == ("a peer, times ours", 10.0, "x")
    assert figure.met
    assert figure.detail.startswith("30 us; ")


def test_runs_take_turns() -> None:
    turns: list[str] = []

    def turn(name: str) -> float:
        turns.append(name)
        return len(turns)

    assert alternating({name: partial(turn, name) for name in "ab"}, 2) == {"a": [1, 3], "b": [2, 4]}
    assert turns == ["a", "b", "a", "b"]


def test_a_spread_says_no_more_than_its_samples_do() -> None:
    assert spread([2.5], "ms") == "1 sample"
    assert spread([3.0, 2.5, 4.0], "ms") == "2.5 to 4 ms of 3"
    assert spread([*range(100)], "ms") == "median 49.5, p99 99, max 99 ms of 100"


def test_what_is_inside_the_noise_is_not_measurable() -> None:
    shown = [Figure("f", value, "us", noise=0.02).measured for value in (-0.016, 0.016, 0.0, 0.25)]
    assert shown == ["not measurable", "not measurable", "0 us", "0.25 us"]
