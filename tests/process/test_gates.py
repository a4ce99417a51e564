"""Children that ask their parent when they may connect: real processes, a real board, the bell."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from tests.process.conftest import House
from workers.board import FLOORS, GRANTED
from workers.process.kernel import boottime_ns
from workers.stream import floors


def times(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_attempts_of_all_children_with_one_key_keep_the_rate(house: House, tmp_path: Path) -> None:
    house.children.prepare([], [], [])
    path = tmp_path / "granted"
    for index in range(4):
        house.start(f"trades/{index}", role=f"ask 5 {path}", connect_rate=50.0, connect_key="feed")
    house.until(lambda: len(times(path)) == 20)
    began = sorted(times(path))
    assert all(later - earlier >= 20_000_000 for earlier, later in pairwise(began))
    assert began[-1] - began[0] < 1_500_000_000, "19 spacings of 20 ms, and what the children needed to ask"


def test_another_key_has_a_rate_of_its_own(house: House, tmp_path: Path) -> None:
    house.children.prepare([], [], [])
    slow, other = tmp_path / "slow", tmp_path / "other"
    house.start("trades/0", role=f"ask 2 {slow}", connect_rate=0.01, connect_key="slow")
    house.until(lambda: times(slow))
    house.start("news/0", role=f"ask 3 {other}", connect_rate=1000.0, connect_key="other")
    house.until(lambda: len(times(other)) == 3)
    assert len(times(slow)) == 1


def test_what_a_dead_child_was_granted_is_granted_again(house: House, tmp_path: Path) -> None:
    house.children.prepare([], [], [])
    first, second = tmp_path / "first", tmp_path / "second"
    house.start("trades/0", role=f"ask 2 {first}", connect_rate=1.0, connect_key="feed")
    (began,) = house.until(lambda: times(first))
    house.until(lambda: house.board.slot(0).words[GRANTED] == 2)  # the second time is granted, and lies a second ahead
    house.children.kill("trades/0", 1)
    house.exited("trades/0")
    house.start("trades/1", role=f"ask 1 {second}", connect_rate=1.0, connect_key="feed")
    assert house.until(lambda: times(second)) == [began + 1_000_000_000]


def test_what_one_child_is_told_to_wait_holds_for_all_of_its_key_also_for_those_to_come(
    house: House, tmp_path: Path
) -> None:
    house.children.prepare([], [], [])
    told, other, later, stranger = (tmp_path / name for name in ("told", "other", "later", "stranger"))
    before = boottime_ns()
    house.start("trades/0", connect_key="feed")
    house.started("trades/0")
    house.start("trades/1", role=f"refused 30 {told}", connect_key="feed")
    (floor,) = house.until(lambda: times(told))
    assert before + 30_000_000_000 < floor < boottime_ns() + 30_001_000_000
    assert floors.read(house.board.slot(0).words, FLOORS) == {floors.mark_of("feed"): floor}
    house.start("trades/2", role=f"floor {later}", connect_key="feed")
    house.start("news/0", role=f"floor {stranger}", connect_key="another")
    assert house.until(lambda: times(later)) == [floor]
    assert house.until(lambda: times(stranger)) == [0]
    assert not other.exists()


def test_a_child_that_rings_without_end_costs_the_parent_little(house: House) -> None:
    house.children.prepare([], [], [])
    house.start("trades/0", role="ring")
    house.started("trades/0")
    began_s, used = house.loop.time(), os.times()
    house.until(lambda: house.loop.time() > began_s + 1.0)
    now = os.times()
    assert now.user + now.system - used.user - used.system < 0.5
