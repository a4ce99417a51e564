"""A resumable feed, real supervisors, random kills. More of them: python -m tests.process.resume --kills 30"""

from __future__ import annotations

from pathlib import Path

from tests.process.resume import run

KILLS = 7


def test_kills_of_children_supervisors_and_hosts_lose_nothing_and_each_copy_of_an_event_has_a_higher_epoch(
    tmp_path: Path,
) -> None:
    outcome = run(tmp_path, KILLS, seed=28)  # draws each kind of strike
    print(outcome)
    assert not outcome.wrong
    assert outcome.epochs > KILLS
