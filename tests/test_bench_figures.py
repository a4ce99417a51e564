"""What the benchmarks count with."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from tests.bench.figures import alternating, cpu_s, pss_mb, times

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
        assert 1 < pss_mb(burning.pid) < 100


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
