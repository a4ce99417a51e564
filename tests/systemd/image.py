"""What a machine is made of: a Debian in a folder, and the wheels that an installation in it wants.

Both are fetched once, by debootstrap and pip, into `.engines/systemd/`, and kept until what they are made of changes. A
machine never writes into them, so that each begins with the same.
"""

from __future__ import annotations

import configparser
import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.engines import FOLDER

ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
PYTHON = "3.11"  # that of the suite
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "procps")
BUILD = ("setuptools>=68", "wheel")
SOURCES = (
    "supervisor",
    "workers",
    "tenured-stubs",
    "tenured.py",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)


@dataclass(frozen=True, slots=True)
class Image:
    """`rootfs` is read only for us; `wheels` is a folder for pip's --find-links."""

    rootfs: Path
    wheels: Path


def requirements() -> list[str]:
    """What an installation with the extra `demo`, whose feed we use, takes from an index."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg")
    lists = parser["options"]["install_requires"], parser["options.extras_require"]["demo"]
    return [line for text in lists for line in text.split("\n") if line] + list(BUILD)


def prepare() -> Image:
    """The image, fetched if it is missing or stale. Concurrent calls wait for each other."""
    folder = FOLDER / "systemd"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rootfs = _made(folder / "rootfs", [SUITE, *PACKAGES], _debootstrap)
        wheels = _made(folder / "wheels", requirements(), _download)
    return Image(rootfs, wheels)


def _made(folder: Path, of: list[str], make: Callable[[Path], None]) -> Path:
    stamp = folder.with_suffix(".installed")
    if not (stamp.exists() and stamp.read_text() == "\n".join(of)):
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"making {folder}", flush=True)
        make(folder)
        stamp.write_text("\n".join(of))
    return folder


def _debootstrap(folder: Path) -> None:
    include = f"--include={','.join(PACKAGES)}"
    command = ["debootstrap", "--variant=minbase", include, SUITE, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"debootstrap failed: {done.stdout[-2000:]}")


def _download(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--only-binary=:all:", f"--python-version={PYTHON}", "--dest", str(folder)]
    subprocess.run([*pip, *options, *requirements()], check=True)


def copy_sources(to: Path) -> None:
    """What a clone of this repository has of what an installation needs."""
    to.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to / name)
