"""The simulation is worth what it notices: every deliberate break of a rule must make it fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.sim.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
TESTS_FAILED = 1  # pytest's exit code; others mean that it could not run them


def mutate(mutant: Mutant, folder: Path) -> None:
    """A copy of the core with the mutant in it, and of the simulation."""
    shutil.copytree(ROOT / "supervisor", folder / "supervisor", ignore=shutil.ignore_patterns("__pycache__", "demo"))
    shutil.copytree(ROOT / "tests" / "sim", folder / "tests" / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "__init__.py").touch()
    (folder / "pytest.ini").write_text("[pytest]\n")
    path = folder / "supervisor" / mutant.file
    source = path.read_text()
    times = source.count(mutant.old)
    assert times == 1, f"{mutant.name!r}: its old text stands {times} times in {mutant.file}, expected once"
    path.write_text(source.replace(mutant.old, mutant.new))


def simulate(mutant: Mutant, folder: Path) -> tuple[int, str]:
    """Run the tests that must catch it, on the mutated core alone."""
    mutate(mutant, folder)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:timeout"]
    command += [
        f"tests/sim/test_{name}.py" for name in ("fleet", "rows", "sharing", "unwell", "operators", "reload")
    ] + [
        "-k",
        mutant.caught_by,
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return run.returncode, run.stdout[-1000:] + run.stderr[-1000:]


@pytest.mark.timeout(300)
def test_every_break_of_a_rule_is_noticed_by_the_simulation(tmp_path: Path) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = [tmp_path / str(number) for number in range(len(MUTANTS))]
        results = list(pool.map(simulate, MUTANTS, folders))
    survivors = [
        f"{mutant.name} (exit {code}): {output}"
        for mutant, (code, output) in zip(MUTANTS, results, strict=True)
        if code != TESTS_FAILED
    ]
    assert not survivors, "\n".join(survivors)


def test_a_mutant_whose_text_is_gone_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="stands 0 times"):
        mutate(Mutant("stale", "core/lease.py", "a text that stands nowhere", ""), tmp_path)
