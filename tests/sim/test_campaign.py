"""A short campaign of random faults, and what a campaign says when it finds something."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.core.tenure import Tenure
from tests.sim.campaign import parse, run_campaign, run_world

ROOT = Path(__file__).resolve().parents[2]


def options(text: str) -> argparse.Namespace:
    """In this process alone."""
    return parse([*text.split(), "--processes", "1"])


def test_fleets_under_attack_keep_every_rule_and_serve_every_shard_again_in_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run_campaign(options("--seed 2026 --steps 60000 --faults 1500 --seconds 100"))
    assert code == 0, capsys.readouterr().out


def test_a_campaign_that_does_not_reach_its_goals_in_time_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_campaign(options("--seed 1 --seconds 0.001")) == 1
    assert "2,000,000 steps and 50,000 faults was not reached" in capsys.readouterr().out


def test_a_violation_is_reported_with_its_seed_its_history_and_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Tenure, "deadline_ns", Tenure.expires_ns)  # without the margin
    assert run_campaign(options("--seed 77")) == 1
    first = capsys.readouterr().out
    command = first.strip().splitlines()[-1]
    assert command == "repeat: python -m tests.sim.campaign --seed 77 --worlds 1"
    assert "the deadline of s/" in first
    assert "(seed 77, " in first
    assert "supervisor.ready" in first
    assert run_campaign(options(command.removeprefix("repeat: python -m tests.sim.campaign "))) == 1
    assert _without_time(capsys.readouterr().out) == _without_time(first)


def _without_time(report: str) -> list[str]:
    return [line for line in report.splitlines() if not line.startswith("seconds")]


def test_a_seed_makes_the_same_history_whatever_the_hashes_of_the_process() -> None:
    script = "from tests.sim.campaign import run_world; tally = run_world(5); print(tally.history, tally)"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert run_world(5).history != run_world(6).history
