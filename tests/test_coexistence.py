"""Our package `supervisor` and the one of that name on PyPI live in one environment, in whichever order they came."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wheel import environment as installed
from tests.wheel import pip

THEIRS = "supervisor>=4.2,<5"


@pytest.fixture(scope="module")
def wheels(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    pip("wheel", "--no-deps", "--wheel-dir", folder, THEIRS)
    (theirs,) = folder.glob("*.whl")
    return {"tenured": wheel, "supervisor": theirs}


@pytest.fixture(params=[("tenured", "supervisor"), ("supervisor", "tenured")], ids=" then ".join)
def environment(request: pytest.FixtureRequest, wheels: dict[str, Path], tmp_path: Path) -> Iterator[Path]:
    """A fresh environment with both."""
    folder = tmp_path / "venv"
    installed(folder, *(wheels[name] for name in request.param))
    yield folder
    shutil.rmtree(folder)


def said(environment: Path, program: str) -> str:
    command = [environment / "bin" / program, "--version"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_both_programs_run_in_one_environment(environment: Path) -> None:
    assert said(environment, "supervisord").startswith("4.")
    assert said(environment, "tenured").startswith("tenured ")


def test_modules_come_from_the_one_folder_that_both_share(environment: Path) -> None:
    script = (
        "import supervisor.cli, supervisor.options; print(supervisor.cli.__file__); print(supervisor.options.__file__)"
    )
    command = [environment / "bin" / "python", "-c", script]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, check=True)
    assert {Path(line).parent.parent.parent.parent.parent for line in done.stdout.splitlines()} == {environment}


def test_ours_goes_on_when_theirs_is_removed(environment: Path) -> None:
    pip("--python", environment / "bin" / "python", "uninstall", "--yes", "supervisor")
    assert said(environment, "tenured").startswith("tenured ")
    example = subprocess.run([environment / "bin" / "tenured", "example"], cwd="/", capture_output=True, check=True)
    assert example.stdout.startswith(b"; The configuration of tenured.")
