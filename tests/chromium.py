"""Debian's Chromium, in which the status page is tested: where it is, and how it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess

PACKAGE = "chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def path() -> str:
    """Raises RuntimeError when there is none."""
    if found := _found():
        return found
    raise RuntimeError(
        f"chromium is not installed; run: python -m tests.engines install (as root), or install {PACKAGE}"
    )


def install() -> None:
    """By apt-get where it is missing, which only root can; otherwise a sentence, and the tests of the page fail."""
    if not _found():
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            print(f"chromium: missing, and only root can install it here (apt-get install {PACKAGE})", flush=True)
            return
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", PACKAGE]):
            subprocess.run(["apt-get", *command], check=True, env=environment, stdout=subprocess.DEVNULL)
    print(f"chromium: {path()}", flush=True)


def _found() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)
