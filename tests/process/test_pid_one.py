"""What process 1 owes everybody else: to hear a stop at once, to bury the dead of others, and to need no file."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supervisor.configuration.config import load
from supervisor.configuration.keys import keys_of
from supervisor.demo.feed_process import FeedProcess
from tests.process.host import COMMAND, Host, tenured, wait_streaming
from tests.process.test_namespaces import AS_PID_1, supervisor_of
from tests.wait import until

GRACE_S = 8.0  # stop_timeout's default
DOCKER_STOP_S = 10.0
DOUBLY_FORKED = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); os._exit({code})"


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl", rate=20) as running:
        yield running


def host(folder: Path, feed: FeedProcess, *stream: str, within: tuple[str, ...] = AS_PID_1) -> Host:
    return Host(folder / "a", f"sqlite:///{folder}/leases.db", feed.url("a"), shards=2, stream=stream, within=within)


def connections(feed: FeedProcess) -> dict[str, int]:
    return {each.shard: each.number for each in feed.connected()}


def test_a_stop_ends_process_1_with_0_within_the_grace_and_closes_and_releases_all(
    tmp_path: Path, feed: FeedProcess
) -> None:
    with host(tmp_path, feed) as one:
        wait_streaming(feed, one.shards)
        supervisor_of(one).terminate()
        assert one.wait(GRACE_S) == 0
        assert {line["shard"] for line in one.log("lease.released")} == set(one.shards)
        assert {each.code for each in feed.connections()} == {1001}


STUBBORN = """
import time
from tenured import Handler

class Stubborn(Handler):
    def stop(self):
        time.sleep(60)
"""


@pytest.mark.alone
def test_children_that_ignore_the_stop_do_not_outlast_what_docker_waits(tmp_path: Path, feed: FeedProcess) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    with host(tmp_path, feed, f"handler = {tmp_path}/stubborn.py:Stubborn") as one:
        wait_streaming(feed, one.shards)
        supervisor_of(one).terminate()
        assert one.wait(DOCKER_STOP_S) == 0
        assert [line["reason"] for line in one.log("child.killed")] == ["stop-timeout"] * 2
        assert len(one.log("lease.released")) == 2


def test_a_hangup_ends_neither_process_1_nor_a_child(tmp_path: Path, feed: FeedProcess) -> None:
    with host(tmp_path, feed) as one:
        wait_streaming(feed, one.shards)
        before = connections(feed)
        for _ in range(10):
            supervisor_of(one).send_signal(signal.SIGHUP)
        supervisor_of(one).send_signal(signal.SIGCHLD)
        seen = len(one.deliveries())
        until(lambda: len(one.deliveries()) > seen + 20, 10)
        assert connections(feed) == before
        supervisor_of(one).terminate()
        assert one.wait() == 0


def test_orphans_of_every_exit_code_that_are_not_ours_change_no_shard_and_leave_no_zombie(
    tmp_path: Path, feed: FeedProcess
) -> None:
    """What `docker exec` leaves behind: its parent is outside, its orphans become those of process 1."""
    with host(tmp_path, feed, within=(*AS_PID_1, "setsid")) as one:  # a container's process 1 leads a session
        wait_streaming(feed, one.shards)
        before, one_self = connections(feed), supervisor_of(one)
        family = {each.pid for each in one_self.children(recursive=True)}
        into = ["nsenter", "--target", str(one_self.pid), "--pid", *(["--user"] if os.geteuid() else [])]
        program = f"import os\nfor code in range(256):\n  os.fork() or exec({DOUBLY_FORKED!r}.format(code=code))"
        subprocess.run([*into, sys.executable, "-c", program], check=True, timeout=60)
        until(lambda: {each.pid for each in one_self.children(recursive=True)} == family, 20)
        assert connections(feed) == before
        assert [line for line in one.log() if line["level"] in ("WARNING", "ERROR")] == []
        assert one.log("child.exited") == []
        one_self.terminate()
        assert one.wait() == 0


def test_a_storm_of_signals_does_not_keep_process_1_from_hearing_a_stop(tmp_path: Path, feed: FeedProcess) -> None:
    with host(tmp_path, feed) as one:
        wait_streaming(feed, one.shards)
        before, process = connections(feed), supervisor_of(one)
        for _ in range(2000):
            for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, signal.SIGPIPE):
                process.send_signal(number)
        assert connections(feed) == before
        process.terminate()
        assert one.wait(GRACE_S) == 0


# --- without a file ---------------------------------------------------------------------------------------

BY_ENVIRONMENT = {
    "fleet": "blue",
    "store": "sqlite:////tmp/by-environment.db",
    "state_dir": "/tmp/by-environment/state",
    "run_dir": "/tmp/by-environment/run",
    "lease_duration": "21s",
    "renew_interval": "6s",
    "poll_interval": "1700ms",
    "call_timeout": "1300ms",
    "margin": "3s",
    "capacity": "17",
    "stop_timeout": "4s",
    "start_timeout": "5s",
    "hang_timeout": "22s",
    "crash_limit": "9",
    "crash_window": "7m",
    "outage_policy": "hold",
    "log_level": "warning",
    "http": "127.0.0.1:9119",
    "http_hosts": "status.example",
    "python_path": "/",
}
STREAM = "[stream:s]\nurl = ws://127.0.0.1:9/\n"
ONLY_IN_A_FILE = {"include"}  # it names further files


def overridable() -> list[str]:
    return [name for name in keys_of("supervisor") if name not in ONLY_IN_A_FILE]


@pytest.mark.parametrize("name", overridable())
def test_each_key_of_the_supervisor_can_be_set_by_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"[supervisor]\nstore = sqlite:////tmp/in-the-file.db\nlease_duration = 20s\n{STREAM}"
    override = {f"TENURED_{name.upper()}": BY_ENVIRONMENT[name]}
    in_the_file, by_environment = (load("env:FILE", {"FILE": text} | more) for more in ({}, override))
    changed = {
        field
        for field in in_the_file.__dataclass_fields__
        if getattr(in_the_file, field) != getattr(by_environment, field)
    }
    alike = {"outage_policy": "streams"}
    assert changed & {name, f"{name}_ms", alike.get(name, name)}, f"{name} changed {changed}"


def test_a_whole_supervisor_needs_no_file(tmp_path: Path, feed: FeedProcess) -> None:
    """All of [supervisor] in variables of its own, the streams in one more."""
    values = {name: value for name, value in BY_ENVIRONMENT.items() if name in overridable() and name != "http"}
    values |= {
        "store": f"sqlite:///{tmp_path}/leases.db",
        "state_dir": f"{tmp_path}/state",
        "run_dir": f"{tmp_path}/run",
        "python_path": str(tmp_path),
    }
    environment = {f"TENURED_{name.upper()}": value for name, value in values.items()}
    environment["STREAMS"] = f"[stream:s]\nshards = 0-1\nurl = {feed.url('a')}\nsink = discard\n"
    command = [*AS_PID_1, *COMMAND, "run", "-c", "env:STREAMS"]
    process = subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.DEVNULL)
    try:
        wait_streaming(feed, ["s/0", "s/1"], timeout_s=20)
        done = tenured("health", "-c", "env:STREAMS", **environment)
        assert (done.returncode, done.stderr) == (0, "")
        psutil.Process(process.pid).children()[0].terminate()
        assert process.wait(GRACE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_health_needs_no_file_where_the_environment_names_the_folder(tmp_path: Path, feed: FeedProcess) -> None:
    """A mistake in a file that a reload refuses must not make a container look ill."""
    with host(tmp_path, feed) as one:
        wait_streaming(feed, one.shards)
        shutil.copy(one.config, tmp_path / "good.ini")
        one.config.write_text("[supervisor\n")
        named = {"TENURED_RUN_DIR": str(one.folder / "run")}
        assert tenured("health", "-c", str(one.config), **named).returncode == 0
        assert tenured("health", "-c", str(one.config)).returncode == 78
        supervisor_of(one).terminate()
        assert one.wait() == 0
