"""A place to run what the docs show: a command `tenured` that finds a fleet of two supervisors behind its default file.

`run` is what a reader leaves in another terminal: it goes to the background, and the block goes on when every shard is
held. `--watch` is ended as a reader ends it, with Ctrl-C. What a block started is stopped when the stage is left.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from supervisor.ask import NoAnswer, ask, socket_path
from supervisor.clock import unix_ms
from supervisor.demo.feed_process import FeedProcess
from supervisor.stores.location import open_store
from supervisor.writes import Create
from tests.wait import until

ROOT = Path(__file__).parents[1]
READY_TIMEOUT_S = 60
BLOCK_TIMEOUT_S = 100
SHARDS = 4
_COMMAND = f"""\
#!{sys.executable} -P
import os, signal, subprocess, sys
from supervisor.cli import commands, main
from tests.stage import behind
default = {{name: {{"source": os.environ["STAGE_DEFAULT"]}} for name in commands.commands}}
commands.context_settings["default_map"] = default
if sys.argv[1:2] == ["run"]:
    behind(sys.argv[2:])
elif "--watch" in sys.argv:
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 4)
    main()
else:
    main()
"""
_CONFIG = """\
[supervisor]
store = sqlite:///../leases.db
state_dir = state
run_dir = run
lease_duration = 3s

[stream:trades]
shards = 0-{last}
url = {url}
sink = discard
"""


def _is_gone(process: Path) -> bool:
    """Also if whoever is process 1 here takes its time to reap it."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def tenured(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "supervisor.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=False)


def behind(arguments: list[str]) -> None:
    """Run a supervisor behind us; return when the whole fleet holds its shards."""
    with Path("stage.log").open("ab") as log:
        command = [sys.executable, "-P", "-m", "supervisor.cli", "run", *arguments]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    with Path("stage.pids").open("a") as pids:
        pids.write(f"{process.pid}\n")

    def held() -> bool:
        assert process.poll() is None, Path("stage.log").read_text()
        return tenured("status", *arguments).returncode == 0

    until(held, READY_TIMEOUT_S, 0.1)


class Stage:
    """`with Stage(folder, files) as stage:` `files`, by name, stand where the blocks run; the feed that they name
    becomes a local one."""

    def __init__(self, folder: Path, files: Mapping[str, str], **environment: str) -> None:
        self.folder = folder / "here"
        self._feed = FeedProcess(folder / "feed.jsonl", rate=5)
        self._files = files
        self._hosts = [folder / name for name in ("a", "b")]
        self._running: dict[Path, subprocess.Popen[bytes]] = {}
        self._log = folder / "log"
        paths = [folder / "bin", Path(sys.executable).parent, *os.environ["PATH"].split(":")]
        self._environment = {
            "PATH": ":".join(map(str, paths)),
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "STAGE_DEFAULT": str(self._hosts[0] / "tenured.ini"),
            **environment,
        }
        command = folder / "bin" / "tenured"
        for each in (command.parent, self.folder, *self._hosts):
            each.mkdir()
        command.write_text(_COMMAND)
        command.chmod(0o755)

    def __enter__(self) -> Self:
        self._feed.start()
        url = self._feed.url()
        for name, text in self._files.items():
            (self.folder / name).write_text(re.sub(r"^url = .*$", lambda _: f"url = {url}", text, flags=re.M))
        (self.folder / "token").write_text("a token")
        for host in self._hosts:
            (host / "tenured.ini").write_text(_CONFIG.format(url=url, last=SHARDS - 1))
        return self

    def fleet(self) -> None:
        """Both supervisors behind the default file run, and hold every shard, some of them each."""
        for host in self._hosts:
            if host not in self._running or self._running[host].poll() is not None:
                command = [sys.executable, "-P", "-m", "supervisor.cli", "run", "-c", str(host / "tenured.ini")]
                with self._log.open("ab") as log:
                    self._running[host] = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._settled, READY_TIMEOUT_S, 0.05)
        self._leave_an_old_row()

    def _leave_an_old_row(self) -> None:
        """Of a shard that is in no configuration any more."""
        store = open_store("sqlite:///leases.db", self.folder.parent, 5)
        store.apply(Create("old/0", epoch=1, nonce="", duration_ms=3000, at=unix_ms()), 5)
        store.close()

    def _settled(self) -> bool:
        try:
            replies = [ask(socket_path(host / "run"), "health", 5) for host in self._hosts]
        except NoAnswer:
            return False
        shares = [reply["shards"] for reply in replies if reply["ready"]]
        return len(shares) == len(self._hosts) and sum(shares) == SHARDS and all(shares)

    def run(self, block: str) -> subprocess.CompletedProcess[str]:
        """A block, in a shell that stops at the first command which fails. What it left running is stopped."""
        try:
            return self._run(block)
        finally:
            self._end_what_was_left()

    def _run(self, block: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=BLOCK_TIMEOUT_S,
            check=False,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            process.wait(30)
        self._feed.stop()

    def _end_what_was_left(self) -> None:
        """They are no children of ours, so that a pid may be somebody else's by now."""
        pids = self.folder / "stage.pids"
        for process in [Path("/proc", pid) for pid in (pids.read_text().split() if pids.exists() else ())]:
            if process.exists() and str(self.folder.parent) in (process / "environ").read_text():
                os.kill(int(process.name), signal.SIGTERM)
                until(lambda gone=process: _is_gone(gone), 30)
        pids.unlink(missing_ok=True)
