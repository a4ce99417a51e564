"""The image without an engine: the steps of the Dockerfile by hand, and its command in namespaces of its own.

What is as in a container: the sources are those that the Dockerfile copies, installed as a wheel under /opt/tenured;
the command is process 1 of its own process namespace, under the image's number, without any capability, with the
image's environment and nothing else; every file system but the two volumes is read-only. What is not: the rest of the
root file system and the network are the host's, and so are Python and the dependencies.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests import dockerfile
from tests.dockerfile import ROOT
from tests.wait import until

# Process 1 until it becomes the command. The host's folders under these names are hidden from it.
INSIDE = """
set -eu
mount --make-rprivate /
mount --bind "$PYTHON" "$IMAGE/python"
mount --bind "$DEPENDENCIES" "$IMAGE/dependencies"
for folder in "$HIDING" /opt /var/lib /run; do
  mount -t tmpfs -o mode=755 none "$folder"
done
mkdir -p "$PYTHON" /opt/tenured /opt/dependencies /var/lib/tenured /run/tenured
mount --bind "$IMAGE/python" "$PYTHON"
mount --bind "$IMAGE/dependencies" /opt/dependencies
mount --bind "$IMAGE/tenured" /opt/tenured
mount --bind "$VOLUMES/state" /var/lib/tenured
mount --bind "$VOLUMES/run" /run/tenured
while read -r _ _ _ _ point options _; do
  case $point,$options in
    *,ro|*,ro,*|/var/lib/tenured,*|/run/tenured,*|/proc*|/sys*|/dev*) ;;
    *) mount -o "remount,bind,ro${options#rw}" "$point" ;;  # what it forbids already may not be allowed again
  esac
done </proc/self/mountinfo
cd /etc
exec "$@"
"""
UID, GID = dockerfile.user()
IS_ROOT = os.geteuid() == 0
LAUNCHERS = ("sh", "unshare", "setpriv", "env")
# Who is not root gets a namespace in which he is, for the mounts, and in it another in which he is the image's user.
MOUNTING = ["unshare", *([] if IS_ROOT else ["--user", "--map-root-user"]), "--mount", "--pid", "--fork"]
AS_ITS_USER = (
    [
        *("setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups"),
        *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
    ]
    if IS_ROOT
    else ["unshare", "--user", f"--map-user={UID}", f"--map-group={GID}", "setpriv", "--no-new-privs"]
)


def build(folder: Path) -> Path:
    """What is /opt in the image."""
    source, wheels, image = folder / "source", folder / "wheels", folder / "opt"
    source.mkdir()
    for name in dockerfile.sources():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    _pip("wheel", "--no-deps", "--wheel-dir", wheels, source)
    venv = image / "tenured"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
    _pip("--python", venv / "bin" / "python", "install", "--no-deps", "--no-index", *wheels.glob("*.whl"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (venv / "lib" / version / "site-packages" / "dependencies.pth").write_text("/opt/dependencies\n")
    program = venv / "bin" / "tenured"
    program.write_text(program.read_text().replace(str(venv), "/opt/tenured"))
    for name in ("python", "dependencies"):
        (image / name).mkdir()
    return image


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, slots=True)
class Volumes:
    """The two volumes, owned by the image's user; they outlive a container."""

    folder: Path

    def __post_init__(self) -> None:
        for path in (self.state, self.run):
            path.mkdir(parents=True, mode=0o700)
            if IS_ROOT:
                os.chown(path, UID, GID)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def run(self) -> Path:
        return self.folder / "run"


class Container:
    """`with Container(image, volumes, command, environment) as container:` runs one until the block is left."""

    def __init__(self, image: Path, volumes: Volumes, command: list[str], environment: Mapping[str, str]) -> None:
        self._environment = dockerfile.environment() | environment
        python = Path(sys.base_prefix)
        mounts = {
            "IMAGE": image,
            "VOLUMES": volumes.folder,
            "DEPENDENCIES": sysconfig.get_path("purelib"),
            "PYTHON": python,
            # Where it is in a home the user of the image could not reach it: that folder is then replaced as well.
            "HIDING": "/opt" if python.is_relative_to("/usr") else Path(*python.parts[:2]),
        }
        given = [f"{name}={value}" for name, value in self._environment.items()]
        within = [*MOUNTING, "--mount-proc", "--kill-child", "sh", "-c", INSIDE, "sh"]
        self._command = [*within, *AS_ITS_USER, "env", "-i", *given, *command]
        self._mounts = {name: str(path) for name, path in mounts.items()}
        self._log = volumes.folder / "log"

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._unshare = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | self._mounts
            )
        until(lambda: self._unshare.poll() is not None or self._is_settled(), 10)
        return self

    def _is_settled(self) -> bool:
        """Whether process 1 has become the command, so that all is mounted."""
        words = [word for each in psutil.Process(self._unshare.pid).children() for word in each.cmdline()[:1]]
        return bool(words) and Path(words[0]).name not in LAUNCHERS

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unshare.poll() is None:
            self._unshare.kill()
            self._unshare.wait()
        if kind is not None:
            print(self._log.read_text()[-6000:])

    @property
    def process(self) -> psutil.Process:
        """Process 1, as the host sees it."""
        return psutil.Process(self._unshare.pid).children()[0]

    @property
    def ended(self) -> int | None:
        """The exit code of process 1; None: it runs."""
        return self._unshare.poll()

    def stop(self, timeout_s: float) -> int:
        """As `docker stop`; the exit code of process 1."""
        self.process.terminate()
        return self._unshare.wait(timeout_s)

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """As `docker exec` and health checks run one: inside, with the image's user and environment."""
        given = [f"{name}={value}" for name, value in self._environment.items()]
        # Of the namespaces those of `unshare` itself, which may be entered by whoever started it.
        into = [
            "nsenter",
            "--target",
            str(self._unshare.pid),
            *([] if IS_ROOT else ["--user", "--preserve-credentials"]),
        ]
        into += ["--mount", f"--pid=/proc/{self.process.pid}/ns/pid"]
        return subprocess.run(
            [*into, *AS_ITS_USER, "env", "-i", *given, *command],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def log(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]
