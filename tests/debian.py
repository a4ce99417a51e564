"""Programs that tests want from Debian: installed by apt-get where they are missing, which only root can."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable


def install(package: str, found: Callable[[], str | None]) -> None:
    """`found` says where the program is. Where it cannot be installed it is one sentence, and the tests that want it
    fail."""
    if not found():
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            print(f"{package}: missing, and only root can install it here (apt-get install {package})", flush=True)
            return
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
            subprocess.run(["apt-get", *command], check=True, env=environment, stdout=subprocess.DEVNULL)
    print(f"{package}: {found()}", flush=True)
