"""The command line as a user meets it: real processes, one sentence on stderr, the right code, never a traceback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from supervisor import exits
from supervisor.cli import commands
from supervisor.configuration.example import example
from supervisor.control import serve

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = tuple(sorted(commands.commands))

Tenured = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tenured(tmp_path: Path) -> Tenured:
    """Runs the command line in an empty folder."""

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "supervisor.cli", *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done

    return call


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A valid configuration whose folders are in the temporary one."""
    text = example().replace("/var/lib/tenured", "state").replace("/run/tenured", "run")
    (tmp_path / "tenured.ini").write_text(text)
    return "tenured.ini"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(tenured: Tenured, command: str) -> None:
    done = tenured(command, "--help")
    assert done.returncode == exits.OK
    assert f"Example: tenured {command}" in done.stdout


def test_the_version_and_the_list_of_commands_are_there(tenured: Tenured) -> None:
    assert tenured("--version").stdout.startswith("tenured 0.")
    done = tenured("--help", COLUMNS="80")
    assert all(f"\n  {command} " in done.stdout for command in COMMANDS)
    assert tenured(COLUMNS="80").stdout == done.stdout


def test_no_summary_of_a_command_is_cut_on_a_terminal_of_80_columns() -> None:
    shown = CliRunner().invoke(commands, ["--help"], terminal_width=80).output
    assert shown.count("\n  ") > len(COMMANDS)
    assert re.findall(r"^  .*(?:\.\.\.|…)$", shown, re.M) == []


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["rnu"], "see `tenured --help`"),
        (["check", "--no-such"], "see `tenured check --help`"),
        (["status", "--store"], "see `tenured --help`"),
        (["move"], "see `tenured move --help`"),
        (["example", "nothing"], "see `tenured example --help`"),
        (["status", "--interval", "3"], "see `tenured status --help`"),
        (["check", "bad.ini"], "the configuration is named with -c: tenured check -c FILE"),
    ],
)
def test_a_wrong_command_line_is_exit_2_and_one_line_like_all_others_with_advice(
    tenured: Tenured, arguments: list[str], advice: str
) -> None:
    done = tenured(*arguments)
    assert (done.returncode, done.stdout) == (exits.USAGE, "")
    assert re.fullmatch(rf"tenured: [a-z-].*[^.] \({re.escape(advice)}\)\n", done.stderr)


def test_the_example_is_what_check_accepts(tenured: Tenured, tmp_path: Path) -> None:
    done = tenured("example")
    assert done.stdout == example()
    (tmp_path / "tenured.ini").write_text(done.stdout)
    checked = tenured("check", "-c", "tenured.ini")
    assert checked.returncode == exits.OK
    assert checked.stdout.startswith("tenured.ini: valid, 1 stream, 4 shards\n")
    assert os.listdir(tmp_path) == ["tenured.ini"]


@pytest.mark.parametrize("command", ["run", "check", "init", "status", "health"])
def test_a_missing_file_is_one_sentence_and_exit_78(tenured: Tenured, command: str) -> None:
    done = tenured(command, "-c", "nothing.ini")
    assert done.returncode == exits.CONFIG
    assert done.stderr == "tenured: nothing.ini: no such file; `tenured example` prints one to start from\n"


def test_a_folder_instead_of_a_file_is_one_sentence_and_exit_78(tenured: Tenured) -> None:
    done = tenured("check", "-c", ".")
    assert (done.returncode, done.stderr) == (exits.CONFIG, "tenured: .: cannot be read, is a directory\n")


@pytest.mark.parametrize("where", ["file", "include", "value"])
def test_a_pipe_instead_of_a_file_is_not_waited_for(tenured: Tenured, tmp_path: Path, where: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    names = {"include": "include = pipe\n", "value": "[stream:a]\nurl = ws://x/${file:pipe}\n"}
    (tmp_path / "tenured.ini").write_text("[supervisor]\nstore = sqlite:///x.db\n" + names.get(where, ""))
    done = tenured("check", "-c", "pipe" if where == "file" else "tenured.ini")
    assert done.returncode == exits.CONFIG
    assert "it is a pipe or a device, expected a regular file\n" in done.stderr


def test_closed_standard_files_do_not_end_a_command(tenured: Tenured, config: str, tmp_path: Path) -> None:
    """Without file 0, the configuration would be opened as file 0."""
    command = [sys.executable, "-P", "-m", "supervisor.cli", "check", "-c"]
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        for file, code in ((config, exits.OK), ("none.ini", exits.CONFIG)):
            shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *command, file]
            done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, "Traceback" in done.stderr) == (code, False), closed
            assert (done.stderr == "") == (code == exits.OK or "2>" in closed), closed


def test_every_mistake_of_a_file_is_a_line_on_stderr_and_exit_78(tenured: Tenured, tmp_path: Path) -> None:
    (tmp_path / "bad.ini").write_text("[supervisor]\nstor = x\n[stream:a]\nurl = x\n")
    done = tenured("run", "-c", "bad.ini")
    assert done.returncode == exits.CONFIG
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["bad.ini:1", "bad.ini:2", "bad.ini:4"]
    assert done.stdout == ""


def test_the_configuration_may_come_from_a_variable(tenured: Tenured) -> None:
    text = "[supervisor]\nstore = sqlite:///x.db\n[stream:a]\nurl = ws://x\n"
    assert "env:CONF: valid, 1 stream, 1 shard\n" in tenured("check", "-c", "env:CONF", CONF=text).stdout
    assert tenured("check", "-c", "env:CONF").returncode == exits.CONFIG


@pytest.mark.parametrize("package", ["workers/__init__.py", "workers.py"])
def test_a_foreign_package_that_hides_ours_is_named_and_exit_78(tenured: Tenured, tmp_path: Path, package: str) -> None:
    foreign = tmp_path / "foreign" / package
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    done = tenured("check", PYTHONPATH=str(tmp_path / "foreign"))
    assert done.returncode == exits.CONFIG
    assert done.stderr.startswith(f"tenured: {foreign} hides a package of tenured")


def test_init_creates_the_store_once_and_status_reads_it(tenured: Tenured, config: str, tmp_path: Path) -> None:
    first, second = tenured("init", "-c", config), tenured("init", "--store", "sqlite:///leases.db")
    assert (first.returncode, second.returncode) == (exits.OK, exits.OK)
    assert first.stdout != second.stdout
    status = tenured("status", "--json", "-c", config)
    whole = json.loads(status.stdout)
    assert status.returncode == exits.NO
    assert whole["fleet"] == "default"
    assert [(shard["shard"], shard["state"]) for shard in whole["shards"]] == [
        (f"trades/{n}", "free") for n in range(4)
    ]
    plain = tenured("status", "--store", f"sqlite:///{tmp_path}/leases.db")
    assert plain.returncode == exits.OK
    assert "is empty: no supervisor, no shard" in plain.stdout


def test_status_creates_nothing_and_a_missing_store_is_exit_69(tenured: Tenured, tmp_path: Path) -> None:
    done = tenured("status", "--store", "sqlite:///none.db")
    assert done.returncode == exits.STORE
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_no_store_is_exit_69(tenured: Tenured, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database" * 100)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE leases (x)").connection.close()
    for name in ("text.db", "other.db"):
        done = tenured("status", "--store", f"sqlite:///{name}")
        assert done.returncode == exits.STORE, name
        assert len(done.stderr.splitlines()) == 1


def test_a_misspelt_override_is_told_by_every_command_that_reads_the_file(tenured: Tenured, tmp_path: Path) -> None:
    (tmp_path / "tenured.ini").write_text("[supervisor]\nstore = sqlite:///leases.db\n[stream:a]\nurl = ws://x\n")
    for command in (["init"], ["status"], ["pause", "a"]):
        done = tenured(*command, "-c", "tenured.ini", TENURED_STROE="sqlite:///x.db", TENURED_SERVICE_HOST="10.0.0.1")
        first = done.stderr.splitlines()[0]
        assert first == "tenured: warning: TENURED_STROE: overrides nothing, did you mean TENURED_STORE?"
        assert "SERVICE_HOST" not in done.stderr


@pytest.mark.parametrize("command", ["init", "status"])
def test_a_store_url_that_is_none_is_a_mistake_of_the_command_line(tenured: Tenured, command: str) -> None:
    done = tenured(command, "--store", "redis://x")
    assert done.returncode == exits.USAGE
    assert done.stderr.startswith("tenured: store has the unknown scheme redis://")


def test_a_store_that_cannot_be_reached_is_exit_69(tenured: Tenured) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true"}
    url = "dynamodb://leases?region=eu-west-1&endpoint_url=http://127.0.0.1:1"
    done = tenured("status", "--store", url, **keys)
    assert done.returncode == exits.STORE
    assert len(done.stderr.splitlines()) == 1


def test_health_says_no_where_nobody_runs(tenured: Tenured, config: str, tmp_path: Path) -> None:
    done = tenured("health", "-c", config)
    assert done.returncode == exits.NO
    assert done.stderr == f"tenured: no supervisor is running at {tmp_path}/run/control.sock\n"


def test_health_asks_the_loop_and_ready_asks_for_more(tenured: Tenured, config: str, tmp_path: Path) -> None:
    reply: dict[str, Any] = {"supervisor": "h:1:x", "ready": False, "reason": "the store cannot be reached"}

    async def asked() -> list[subprocess.CompletedProcess[str]]:
        control = await serve(tmp_path / "run", {"health": lambda request: reply})
        try:
            alive = await asyncio.to_thread(tenured, "health", "-c", config)
            unready = await asyncio.to_thread(tenured, "health", "--ready", "-c", config)
            reply.update(ready=True, rejected="x.ini:3: no", troubles={"s/0": "connection 0: bye \x9b2J"})
            return [alive, unready, await asyncio.to_thread(tenured, "health", "--ready", "-c", config)]
        finally:
            await control.close()

    alive, unready, ready = asyncio.run(asked())
    assert (alive.returncode, alive.stdout) == (exits.OK, "h:1:x is alive\n")
    assert (unready.returncode, unready.stderr) == (
        exits.NO,
        "tenured: h:1:x is not ready: the store cannot be reached\n",
    )
    assert ready.returncode == exits.OK
    assert ready.stdout.splitlines() == [
        "h:1:x is ready",
        "it rejected its last reload: x.ini:3: no",
        "s/0 is in trouble: connection 0: bye \\x9b2J",
    ]


def test_a_file_that_may_not_be_read_is_exit_77(tmp_path: Path) -> None:
    """The test may run as root, who may read everything: then the command becomes another user first."""
    (tmp_path / "secret.ini").touch(mode=0)
    tmp_path.chmod(0o755)
    script = (
        "import os, sys\n"
        "from supervisor.cli import main\n"
        "sys.argv = ['tenured', 'check', '-c', 'nothing.ini']\n"
        "try: main()\n"  # imports everything, which may lie where only root may read
        "except SystemExit: print(file=sys.stderr)\n"
        "os.getuid() or os.setresuid(65534, 65534, 65534)\n"
        "sys.argv[-1] = 'secret.ini'\n"
        "main()\n"
    )
    arguments = [sys.executable, "-c", script]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == exits.NOT_PERMITTED
    assert done.stderr.splitlines()[2:] == ["tenured: secret.ini: cannot be read, permission denied"]


def test_output_that_nobody_reads_ends_the_command_quietly(config: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-P", "-m", "supervisor.cli", "example"]
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (exits.NO, "")


def test_commands_that_only_ask_do_not_load_the_daemon_or_boto3(tenured: Tenured, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom supervisor.cli import commands\n"
        "commands.main(['init', '--store', 'sqlite:///x.db'], standalone_mode=False)\n"
        "commands.main(['status', '--store', 'sqlite:///x.db'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name in ('boto3', 'asyncio', 'supervisor.daemon', 'websocket')])\n"
    )
    arguments = [sys.executable, "-c", script]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_credential_of_the_service_is_no_mistake_outside_of_it(tmp_path: Path) -> None:
    file = tmp_path / "t.ini"
    file.write_text(
        "[supervisor]\nstore = sqlite:///l.db\n"
        "[stream:a]\nurl = ws://x/\nheader.A = ${credential:token}\nsink = discard\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "CREDENTIALS_DIRECTORY"}

    def ended(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "supervisor.cli", *arguments, "-c", str(file)]
        return subprocess.run(command, capture_output=True, text=True, env=environment | more, timeout=30, check=False)

    checked = ended("check")
    assert checked.returncode == 0
    assert "credential:token" in checked.stderr
    assert ended("init").returncode == 0
    assert ended("status").returncode == 1
    assert ended("check", CREDENTIALS_DIRECTORY=str(tmp_path)).returncode == 78
    assert ended("run").returncode == 78
