"""`status` and `history` as their user meets them: real processes, on terminals and in pipes, on stores that fail."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from supervisor import exits
from tests.contract.rows import plant
from tests.engines import Engine
from tests.faults import Fault, Hang, TrickleBody
from tests.process.host import COMMAND, tenured
from tests.proxy import FaultProxy
from tests.wait import until

HOUR_MS = 3_600_000
A, B = "host-a:11:aa", "host-b.example:22:bb"
SCREEN = struct.pack("HHHH", 50, 160, 0, 0)


def rows(shards: int = 4) -> list[dict[str, Any]]:
    """Two supervisors that share the shards, all of them held for the next hour."""
    now = time.time_ns() // 1_000_000
    lives = {"beat": 1, "nonce": "n", "duration_ms": HOUR_MS, "since": now - 60_000, "renewed_at": now}
    members = [
        {
            "lease": f"@{each}",
            "fleet": "prod",
            "state": "active",
            "capacity": 100,
            "host": each.split(":")[0],
            "shards": (f"t/0-{shards - 1}",),
            "version": "1",
            "digest": "d",
            "task": "",
            "zone": "",
            **lives,
        }
        for each in (A, B)
    ]
    leases = [
        {
            "lease": f"t/{number}",
            "owner": (A, B)[number % 2],
            "epoch": 7,
            "open": 1,
            "want": 1,
            **lives,
            "history": (f"6 bb {now // 1000 - 90} stopped", f"7 aa {now // 1000 - 60} claimed"),
        }
        for number in range(shards)
    ]
    return [*members, *leases]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "leases.db"
    assert tenured("init", "--store", f"sqlite:///{made}").returncode == exits.OK
    plant(f"sqlite:///{made}", rows())
    return made


@pytest.fixture
def store(path: Path) -> str:
    return f"sqlite:///{path}"


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, timeout=10)
    with connection:
        connection.execute(statement)
    connection.close()


# --- once -------------------------------------------------------------------------------------------------


def test_what_is_shown_and_the_exit_code_are_those_of_what_was_asked_for(path: Path, store: str) -> None:
    change(path, "UPDATE leases SET owner = NULL WHERE lease = 't/3'")
    whole, fine, owned = (
        tenured("status", "--store", store, *options)
        for options in ((), ("--shard", "t/0", "--shard", "t/[12]"), ("--owner", "host-b", "--owner", ":aa"))
    )
    assert (whole.returncode, fine.returncode, owned.returncode) == (exits.NO, exits.OK, exits.OK)
    assert whole.stdout.startswith("fleet prod is degraded: 1 free, 3 held of 4 shards;")
    assert whole.stdout.splitlines()[3].startswith("t/3    free")
    assert "t/3" not in fine.stdout + owned.stdout
    assert fine.stdout.startswith("this part of fleet prod is fine: 3 shards, all held;")
    assert fine.stdout.splitlines()[0].endswith("2 supervisors live")


def test_what_matches_nothing_is_no_and_one_sentence_each(store: str) -> None:
    done = tenured("status", "--json", "--store", store, "--shard", "t/9", "--owner", "zzz")
    assert (done.returncode, done.stdout) == (exits.NO, "")
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["--shard t/9", "--owner zzz"]


def test_an_interval_is_of_a_watch_and_a_watch_is_for_people(store: str) -> None:
    for options in (("--interval", "5s"), ("--watch", "--interval", "999ms"), ("--watch", "--json")):
        done = tenured("status", "--store", store, *options)
        assert (done.returncode, done.stdout) == (exits.USAGE, "")
        assert "--" in done.stderr


def test_a_history_is_told_for_people_and_for_programs(store: str) -> None:
    told, given = tenured("history", "t/1", "--store", store), tenured("history", "t/1", "--json", "--store", store)
    assert (told.returncode, given.returncode) == (exits.OK, exits.OK)
    first, _, _, newest, oldest = told.stdout.splitlines()
    assert first.startswith(f"t/1 is held by {B} under epoch 7, for ")
    assert f"{A}" in newest
    assert "claimed it, it was free" in newest
    assert f"{B}" in oldest
    assert "gave it up, the supervisor was stopped" in oldest
    shown = json.loads(given.stdout)
    assert (shown["shard"], shown["owner"]) == ("t/1", B)
    assert [change["owner"] for change in shown["history"]] == [B, A]
    (same,) = json.loads(tenured("status", "--json", "--shard", "t/1", "--store", store).stdout)["shards"]
    assert shown.keys() == same.keys()


def test_the_history_of_a_shard_that_is_not_there_is_no_with_names_that_are_near(path: Path, store: str) -> None:
    change(path, "UPDATE leases SET epoch = 0 WHERE lease = 't/2'")
    unknown, bad = tenured("history", "t/7", "--store", store), tenured("history", "t/2", "--store", store)
    assert (unknown.returncode, bad.returncode) == (exits.NO, exits.NO)
    assert unknown.stderr.startswith("tenured: there is no shard t/7; did you mean t/")
    assert bad.stderr == "tenured: the row t/2 does not parse: epoch is 0, expected a whole number from 1 to " + (
        f"{2**62}\n"
    )


def test_looking_at_a_table_needs_no_right_but_to_scan_it(ministack: Engine, table: str) -> None:
    with FaultProxy(ministack.port) as proxy:
        assert tenured("init", "--store", ministack.url(table)).returncode == exits.OK
        plant(ministack.url(table), rows())
        for arguments in (("status",), ("status", "--json"), ("history", "t/0")):
            assert tenured(*arguments, "--store", proxy.url(table)).returncode == exits.OK
        assert {each.operation for each in proxy.seen()} == {"Scan"}


@pytest.mark.parametrize("fault", [Hang(), TrickleBody(1)], ids=["silent", "dripping"])
def test_a_table_that_does_not_answer_is_given_up_in_time(ministack: Engine, table: str, fault: Fault) -> None:
    commands = (("status",), ("status", "--watch"), ("history", "t/0"))
    with FaultProxy(ministack.port) as proxy:
        assert tenured("init", "--store", ministack.url(table)).returncode == exits.OK
        plant(ministack.url(table), rows())
        proxy.fault = fault
        began_s = time.monotonic()
        with ThreadPoolExecutor() as pool:
            for done in pool.map(lambda command: tenured(*command, "--store", proxy.url(table)), commands):
                assert (done.returncode, done.stdout) == (exits.STORE, "")
                assert done.stderr.startswith(f"tenured: store {proxy.url(table)} cannot be used: ")
                assert len(done.stderr.splitlines()) == 1
        assert time.monotonic() - began_s < 16, "10 s, and the start of three interpreters"


# --- again and again --------------------------------------------------------------------------------------


class Watching:
    """A `status --watch`, and all that it has written so far."""

    def __init__(self, store: str, stdout: int, reader: int, *options: str) -> None:
        command = [*COMMAND, "status", "--watch", "--interval", "1s", "--store", store, *options]
        environment = os.environ | {"TERM": "xterm"}
        self.process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.STDOUT, env=environment)
        self.text = ""
        os.close(stdout)
        self._reader = threading.Thread(target=self._read, args=[reader], daemon=True)
        self._reader.start()

    def _read(self, reader: int) -> None:
        with open(reader, "rb", buffering=0) as file:
            try:
                while data := file.read(65536):
                    self.text += data.decode()
            except OSError:  # a terminal whose other side was closed
                return

    def until(self, text: str, since: int = 0) -> int:
        """Wait for this text; where it ends."""
        until(lambda: text in self.text[since:], 20)
        return self.text.index(text, since) + len(text)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        code = self.process.wait(20)
        self._reader.join(10)
        assert "Traceback" not in self.text
        return code


@contextmanager
def watching(store: str, terminal: bool, *options: str) -> Iterator[Watching]:
    reader, writer = os.openpty() if terminal else os.pipe()
    if terminal:
        ioctl(writer, termios.TIOCSWINSZ, SCREEN)
    seen = Watching(store, writer, reader, *options)
    try:
        yield seen
    finally:
        seen.process.kill()
        seen.process.wait(10)


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_a_watch_shows_each_change_and_ends_with_the_code_of_its_last_look(
    path: Path, store: str, terminal: bool
) -> None:
    with watching(store, terminal) as seen:
        seen.until("fleet prod is fine: 4 shards, all held;")
        change(path, "UPDATE leases SET owner = NULL WHERE lease = 't/3'")
        seen.until("fleet prod is degraded: 1 free, 3 held of 4 shards;")
        assert seen.end() == exits.NO
        assert seen.text.count("\x1b[?25l") == seen.text.count("\x1b[?25h") == int(terminal)
        assert ("\x1b" in seen.text) == terminal


def test_a_watch_that_is_terminated_leaves_the_terminal_as_it_was(store: str) -> None:
    with watching(store, terminal=True) as seen:
        seen.until("fleet prod is fine")
        assert seen.end(signal.SIGTERM) == exits.OK
        assert seen.text.rindex("\x1b[?25h") > seen.text.rindex("\x1b[?25l")


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_while_the_store_cannot_be_read_the_last_picture_stays_and_says_since_when(
    path: Path, store: str, terminal: bool
) -> None:
    with watching(store, terminal) as seen:
        seen.until("fleet prod is fine")
        path.rename(path.with_name("away.db"))
        failed = seen.until("not read since ")
        seen.until("does not exist", failed)
        seen.until("fleet prod is fine", failed)
        again = seen.until("not read since ", seen.until("not read since ", failed))
        path.with_name("away.db").rename(path)
        until(lambda: "not read since " not in seen.text[seen.text.rindex("fleet prod is fine") - 100 :], 20)
        assert len(seen.text) > again
        assert seen.end() == exits.OK


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_while_an_answer_is_awaited_the_last_picture_says_so(ministack: Engine, table: str, terminal: bool) -> None:
    with FaultProxy(ministack.port) as proxy:
        assert tenured("init", "--store", ministack.url(table)).returncode == exits.OK
        plant(ministack.url(table), rows())
        with watching(proxy.url(table), terminal) as seen:
            seen.until("fleet prod is fine")
            proxy.fault = Hang()
            awaited = seen.until("it has not answered for 2 s", seen.until("not read since "))
            seen.until("it has not answered for 4 s", seen.until("fleet prod is fine", awaited))
            began_s = time.monotonic()
            assert seen.end() == exits.OK
            assert time.monotonic() - began_s < 2, "the end does not wait for the answer"


def test_a_watch_of_a_shard_that_goes_keeps_its_last_picture(path: Path, store: str) -> None:
    plant(store, [rows()[-1] | {"lease": "u"}])
    with watching(store, False, "--shard", "u") as seen:
        seen.until("fleet prod is fine: 1 shard, held;")
        change(path, "DELETE FROM leases WHERE lease = 'u'")
        gone = seen.until("nothing to show since ")
        seen.until("there is no shard u", gone)
        seen.until("fleet prod is fine: 1 shard, held;", gone)
        assert seen.end() == exits.OK


def test_a_watch_that_cannot_even_begin_cannot_tell(tmp_path: Path) -> None:
    done = tenured("status", "--watch", "--store", f"sqlite:///{tmp_path}/none.db")
    assert (done.returncode, done.stdout) == (exits.STORE, "")
    assert len(done.stderr.splitlines()) == 1
