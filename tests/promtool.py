"""promtool, which checks metrics and alert rules, out of Debian's package `prometheus`; nothing else is kept of it.

`tests.engines` installs it with the engines; a test that needs it fails where it is not installed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

VERSION = "promtool of Debian's prometheus"
TIMEOUT_S = 60


def install_into(folder: Path) -> None:
    """One that is there already does; else the version is what apt offers, whose lists are fetched only if need be."""
    folder.mkdir(parents=True)
    if present := shutil.which("promtool"):
        (folder / "promtool").symlink_to(present)
        return
    if shutil.which("apt-get") is None:
        raise RuntimeError("promtool is not on the path and there is no apt-get to get it with: install Prometheus")
    with tempfile.TemporaryDirectory() as scratch:
        download = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "prometheus"]
        if subprocess.run(download, cwd=scratch, check=False).returncode:
            subprocess.run(["apt-get", "update", "-qq"], check=True)
            subprocess.run(download, cwd=scratch, check=True)
        package = next(Path(scratch).glob("prometheus_*.deb"))
        subprocess.run(["dpkg", "-x", package, Path(scratch) / "tree"], check=True)
        shutil.copy(Path(scratch) / "tree" / "usr" / "bin" / "promtool", folder / "promtool")


def promtool(folder: Path, *arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run it on `given` as its standard input; stdout and stderr come together."""
    command = [folder / "promtool", *arguments]
    return subprocess.run(
        command, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False
    )
