"""Our package `supervisor` and the one of that name on PyPI live in one environment, in whichever order they came."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
THEIRS = "supervisor>=4.2,<5"


def pip(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both packages as wheels; ours is built from a copy, so that nothing is left beside the source."""
    folder, source = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("source") / "tenured"
    ignored = shutil.ignore_patterns("*.egg-info", "build", ".*", "__pycache__", "tests")
    shutil.copytree(ROOT, source, ignore=ignored)
    pip("wheel", "--no-deps", "--wheel-dir", folder, source)
    pip("wheel", "--no-deps", "--wheel-dir", folder, THEIRS)
    return {wheel.name.partition("-")[0]: wheel for wheel in folder.glob("*.whl")}


@pytest.fixture(params=[("tenured", "supervisor"), ("supervisor", "tenured")], ids=" then ".join)
def environment(request: pytest.FixtureRequest, wheels: dict[str, Path], tmp_path: Path) -> Iterator[Path]:
    """A fresh environment with both; further dependencies are those of the environment that runs the tests."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in request.param:
        pip("--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", wheels[name])
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
