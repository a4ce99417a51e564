"""One machine: systemd as process 1 of a container, with its own processes, network (loopback alone), mounts and name.

Everything it writes goes into a temporary folder over the image. It dies with the thread that started it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.systemd.image import Image
from tests.wait import until

NEEDED = ("debootstrap", "systemd-nspawn", "nsenter", "unshare", "mount", "setpriv")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
REBOOTED = 133  # how systemd-nspawn ends when its machine wants to be started again
BOOT_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 180.0


def obstacle() -> str:
    """Why no machine can run here, in one sentence; empty: it can."""
    if os.geteuid() != 0:
        return "only root can start a container, and this is not root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install debootstrap systemd-container util-linux"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("low", "up", "work", "all"):
            (Path(folder) / name).mkdir()
        overlay = f"mount -t overlay overlay -o {_layers(Path(folder) / 'low', Path(folder))} {folder}/all"
        isolate = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--fork", "sh", "-c", overlay]
        done = subprocess.run(isolate, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"namespaces or overlay file systems are not to be had: {done.stderr.strip()}"
    if not os.access("/sys/fs/cgroup", os.W_OK):
        return "/sys/fs/cgroup cannot be written to, and systemd needs control groups"
    return ""


def _is_init(pid: int) -> bool:
    """Whether it is systemd as process 1 of a namespace within a namespace of ours."""
    process = Path(f"/proc/{pid}")
    try:
        lines = (process / "status").read_text().splitlines()
        program = os.readlink(process / "exe")
    except OSError:  # gone
        return False
    pids = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
    return pids[2:] == ["1"] and Path(program).name == "systemd"


def _layers(lower: Path, folder: Path) -> str:
    return f"lowerdir={lower},upperdir={folder / 'up'},workdir={folder / 'work'}"


class Machine:
    """`with Machine(image) as machine:` boots, and ends it with the block.

    The container lives in process and mount namespaces of ours: when their first process is killed, the kernel kills
    whatever is in them and takes the mounts away. The init of a container alone would outlive its systemd-nspawn.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._folder = Path(tempfile.mkdtemp(prefix="tenured-systemd-"))
        self._outside: subprocess.Popen[bytes] | None = None
        self._init = 0

    @property
    def root(self) -> Path:
        """Its file system, seen from here."""
        return Path(f"/proc/{self._init}/root")

    def __enter__(self) -> Self:
        for name in ("up", "work", "all"):
            (self._folder / name).mkdir()
        nspawn = [
            *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"),
            *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only"),
            *("--machine=tenured-test", f"--directory={self._folder}/all"),
        ]
        overlay = f"mount -t overlay overlay -o {_layers(self._image.rootfs, self._folder)} {self._folder}/all"
        # At a reboot it removes what it keeps in /run, gives up where that is on a disk, and leaves the rest to us.
        again = f"code={REBOOTED}; while [ $code = {REBOOTED} ]; do code=0; {' '.join(nspawn)} || code=$?; done"
        script = f"{overlay}\nmount -t tmpfs tmpfs /run\n{again}"
        isolate = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
        with self._console.open("wb") as console:
            self._outside = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *isolate, "sh", "-euc", script],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
            )
        self._wait_until_up(before=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._outside is not None
        self._outside.kill()
        self._outside.wait()
        until(lambda: not psutil.pid_exists(self._init), 10)
        shutil.rmtree(self._folder)

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def _console(self) -> Path:
        return self._folder / "console"

    def reboot(self) -> None:
        before = self._init
        self.attempt("systemctl reboot")
        self._wait_until_up(before)

    def _wait_until_up(self, before: int) -> None:
        self._init = until(lambda: self._other_init(before), BOOT_TIMEOUT_S)
        until(lambda: self._up(), BOOT_TIMEOUT_S, 0.1)

    def _other_init(self, before: int) -> int:
        """Process 1 of the container, below `unshare` and `systemd-nspawn`, once it has left our file system."""
        assert self._outside is not None
        if self._outside.poll() is not None:
            raise RuntimeError(f"the container ended: {self._console.read_text(errors='replace')[-2000:]}")
        below = [child.pid for child in psutil.Process(self._outside.pid).children(recursive=True)]
        return next((pid for pid in below if pid != before and _is_init(pid)), 0)

    def _up(self) -> bool:
        return self.attempt("systemctl is-system-running").stdout.strip() in ("running", "degraded")

    # --- commands -----------------------------------------------------------------------------------------

    def attempt(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script in it, as root; whatever comes out."""
        enter = ["nsenter", f"--target={self._init}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        return subprocess.run(
            [*enter, "sh", "-euc", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            env=ENVIRONMENT | environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def run(self, script: str, **environment: str) -> str:
        """The output of a script that succeeds; AssertionError if it does not."""
        done = self.attempt(script, **environment)
        assert done.returncode == 0, f"exit code {done.returncode} of: {script}\n{done.stdout}"
        return done.stdout.strip()

    def shows(self, name: str, unit: str = "tenured") -> str:
        """A property of a unit."""
        return self.run(f"systemctl show --property={name} --value {unit}")

    def pids(self, unit: str) -> list[int]:
        """The processes of a unit, as they are called outside."""
        below = [child.pid for child in psutil.Process(self._init).children(recursive=True)]
        return [pid for pid in below if f"/{unit}.service\n" in Path(f"/proc/{pid}/cgroup").read_text()]

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.root / path.lstrip("/")
        file.write_text(text)
        file.chmod(mode)
