"""Other people's parents of many children, each of which connects to a feed with websocket-client and waits.

    python -m tests.bench.parents forkserver|popen URL ...

SIGTERM ends the parent, which first ends its children and waits for them, as supervisord does by itself.
"""

from __future__ import annotations

import multiprocessing
import shlex
import signal
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import websocket

from tests import engines
from tests.bench import parents

SUPERVISORD = "supervisor==4.3.0"
CHILD = "import sys, websocket; websocket.create_connection(sys.argv[1]).recv()"


def connect(url: str) -> None:
    websocket.create_connection(url).recv()


def wait_for_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # not before: children would inherit that
    signal.sigwait({signal.SIGTERM})


def forkserver(urls: Sequence[str]) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([parents.__name__])  # as good as it gets: the library is imported once
    processes = [context.Process(target=parents.connect, args=(url,)) for url in urls]
    for process in processes:
        process.start()
    wait_for_sigterm()
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


def popen(urls: Sequence[str]) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", CHILD, url]) for url in urls]
    wait_for_sigterm()
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def install() -> Path:
    """The program supervisord, in an environment of its own: our package bears the name of theirs."""
    folder = engines.FOLDER / SUPERVISORD
    program = folder / "bin" / "supervisord"
    if not program.exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, SUPERVISORD], check=True)
    return program


def supervisord(folder: Path, url: str, count: int) -> tuple[str, ...]:
    """The command of a supervisord with `count` children, of which each connects to the url and its number."""
    child = shlex.join([sys.executable, "-c", CHILD])
    lines = ["[supervisord]", "nodaemon = true", "logfile = /dev/null", f"pidfile = {folder}/supervisord.pid"]
    lines += ["[program:child]", f"command = {child} {url}/%(process_num)d", "process_name = %(process_num)d"]
    lines += [f"numprocs = {count}", "startsecs = 0", "autorestart = false"]
    configuration = folder / "supervisord.conf"
    configuration.write_text("\n".join(lines) + "\n")
    return str(install()), "-c", str(configuration)


if __name__ == "__main__":
    {"forkserver": forkserver, "popen": popen}[sys.argv[1]](sys.argv[2:])
