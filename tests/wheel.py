"""Our package as a user gets it: a wheel, and an environment that it is installed in."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pip(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def built(folder: Path) -> Path:
    """The wheel, in that folder; it is built from a copy, so that nothing is left beside the source."""
    source = folder / "source"
    ignored = shutil.ignore_patterns("*.egg-info", "build", ".*", "__pycache__", "tests")
    shutil.copytree(ROOT, source, ignore=ignored)
    pip("wheel", "--no-deps", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("tenured-*.whl")
    return wheel


def environment(folder: Path, *wheels: Path) -> Path:
    """A fresh one with these; further dependencies are those of the environment that runs the tests. Its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    for wheel in wheels:
        pip("--python", python, "install", "--no-deps", "--no-index", wheel)
    return python
