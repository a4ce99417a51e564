"""Debian's Chromium, in which the status page is tested: where it is, and how it is installed."""

from __future__ import annotations

import shutil

from tests import debian

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
    debian.install(PACKAGE, _found)


def _found() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)
