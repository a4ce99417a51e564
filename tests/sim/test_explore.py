"""The exploration finds nothing in a small scope, and finds what was broken on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim.explore.key import Keys
from tests.sim.explore.moves import moves
from tests.sim.explore.search import SCOPES, SHORT, Scope, explore, story
from tests.sim.explore.take import calm, take
from tests.sim.explore.world import fleet, served
from tests.sim.mutants import MUTANTS
from tests.sim.test_mutations import mutate

BROKEN = (
    "the deadline counts from the answer",
    "an epoch above the highest seen, but not above the highest tried",
    "an unknown renewal is taken as applied",
    "a snapshot older than the claim is taken as loss",
    "a release before the death",
)


def run_short(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.sim.explore", "--short"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_no_schedule_of_a_small_fleet_with_a_fault_reaches_a_bad_world() -> None:
    found = [explore(scope) for scope in SHORT]
    bad = [
        f"{result.bad}\n{story(scope, result.path)}" for scope, result in zip(SHORT, found, strict=True) if result.bad
    ]
    assert not bad, "\n".join(bad)
    assert sum(result.states for result in found) >= 10_000


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_and_told_as_a_story(name: str, tmp_path: Path) -> None:
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    mutate(mutant, tmp_path)
    run = run_short(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert lines[-1].startswith("BAD: ")
    assert "begin" in lines


def test_a_calm_fleet_has_few_worlds_and_all_are_found() -> None:
    found = explore(Scope("calm", 2, 0, frozenset(), 200))
    assert found.complete
    assert not found.bad
    assert found.states < 1000


def test_every_fault_that_is_allowed_is_offered_in_some_world() -> None:
    for scope in SCOPES:
        world, offered = scope.begin(), set()
        for _ in range(400):
            possible = moves(world)
            offered |= {kind for kind, _ in possible} & scope.allowed
            world = replace(take(world, possible[0]), faults=scope.faults)
        assert offered == scope.allowed, scope.name


def test_the_same_situation_at_another_time_is_the_same_world() -> None:
    """Beats and instants differ, and nothing else."""
    world = calm(fleet(2, 0, frozenset(), False), 20)
    keys, seen = Keys(), []
    for _ in range(400):
        seen.append(keys.of(world))
        world = take(world, moves(world)[0])
    assert served(world)
    assert len(set(seen[-200:])) < 20
