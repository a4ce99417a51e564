"""The service on a machine: installed by the commands of docs/systemd.md, fed by a feed of its own, and looked at."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import Connection
from tests.systemd.image import ROOT, copy_sources
from tests.systemd.machine import Machine
from tests.wait import until
from workers.process.kernel import boottime_ns

PORT = 9100
SHARDS = [f"s/{index}" for index in range(4)]
LEASE_S = 10
STREAMING_TIMEOUT_S = 30.0
RECORD = "/var/lib/feed/record"

FEED = f"""\
[Unit]
Description=feed
[Service]
StateDirectory=feed
ExecStartPre=/bin/rm -f {RECORD}
ExecStart=/opt/tenured/bin/python -P -m supervisor.demo.feed --port {PORT} --record {RECORD}
[Install]
WantedBy=multi-user.target
"""

# It takes a gigabyte when a file says so, in the epoch that the file names.
HANDLER = """\
from pathlib import Path

from tenured import Handler


class Eater(Handler):
    def start(self, shard):
        self.order = f"{shard.name} {shard.epoch}"
        self.every(0.2, self.eat)

    def message(self, connection, message):
        self.emit(message)

    def eat(self):
        file = Path("/etc/tenured/eat")
        if file.exists() and file.read_text() == self.order:
            self.eaten = b"x" * 2**30
"""

DROP_IN = """\
[Service]
LoadCredential=label:/etc/tenured/label
"""
CREDENTIALS = {"CREDENTIALS_DIRECTORY": "/etc/tenured"}
LABEL = "of-a-credential"  # what the feed has to hear, as the name of the supervisor


def configuration(shards: Sequence[str] = SHARDS, store: str = "sqlite:////var/lib/tenured/leases.db") -> str:
    return f"""\
[supervisor]
store = {store}
lease_duration = {LEASE_S}s
[stream:s]
shards = {", ".join(shard.partition("/")[2] for shard in shards)}
url = ws://127.0.0.1:{PORT}/${{shard}}?epoch=${{epoch}}&supervisor=${{credential:label}}
handler = ./eater.py:Eater
sink = jsonl:/var/lib/tenured/events
"""


def page_commands() -> list[str]:
    """The blocks of shell commands of the page, in their order."""
    return re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "systemd.md").read_text(), re.MULTILINE | re.DOTALL)


class Service:
    """`install`, then `start`."""

    def __init__(self, machine: Machine, wheels: Path) -> None:
        self.machine = machine
        self._wheels = wheels
        self._install_block, self._start_block = page_commands()
        self.feed = self._feed_record()

    def install(self) -> None:
        """The page's first block, without a network: pip finds the wheels in a folder."""
        copy_sources(self.machine.root / "root" / "tenured")
        shutil.copytree(self._wheels, self.machine.root / "wheels")
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels", "HOME": "/root"}
        self.machine.run(f"cd /root/tenured\n{self._install_block}", **offline)
        self.machine.run("/opt/tenured/bin/pip install -q websockets", **offline)
        self._configure()

    def _configure(self) -> None:
        machine = self.machine
        machine.run("mkdir -p /etc/systemd/system/tenured.service.d")
        machine.write("/etc/systemd/system/tenured.service.d/credential.conf", DROP_IN)
        machine.write("/etc/tenured/label", LABEL, 0o600)
        machine.write("/etc/tenured/tenured.ini", configuration())
        machine.write("/etc/tenured/eater.py", HANDLER)
        machine.write("/etc/systemd/system/feed.service", FEED)
        machine.run("systemctl daemon-reload && systemctl enable -q --now feed")

    def start(self) -> None:
        """The page's second block, except for `tenured status`, which may come before every shard is held."""
        check, enable, status = self._start_block.splitlines()
        assert status == "tenured status"
        self.machine.run(f"{check}\n{enable}", **CREDENTIALS)

    def answers(self, arguments: str) -> int:
        """The exit code of a command, with the credentials that a command outside of the service does not get."""
        return self.machine.attempt(f"tenured {arguments}", **CREDENTIALS).returncode

    # --- what can be seen ---------------------------------------------------------------------------------

    def _feed_record(self) -> FeedProcess:
        return FeedProcess(self.machine.root / RECORD.lstrip("/"), port=PORT)

    def booted(self) -> None:
        """The feed begins a new record at each boot."""
        self.feed = self._feed_record()

    @property
    def pid(self) -> int:
        """That of the main process, as the machine sees it."""
        return int(self.machine.shows("MainPID"))

    @property
    def restarts(self) -> int:
        return int(self.machine.shows("NRestarts"))

    def wait_streaming(self, shards: Sequence[str] = SHARDS, since_ns: int = 0) -> int:
        """When the last of these shards was connected after `since_ns`, in CLOCK_BOOTTIME."""
        return until(lambda: self._streaming(shards, since_ns), STREAMING_TIMEOUT_S, 0.02)

    def _streaming(self, shards: Sequence[str], since_ns: int) -> int:
        try:
            open_now = [each for each in self.feed.connected() if each.opened_ns > since_ns]
        except ValueError:  # the feed has not begun its record
            return 0
        opened = {each.shard: each.opened_ns for each in open_now}
        return max(opened[shard] for shard in shards) if opened.keys() >= set(shards) else 0

    def newest(self, shard: str) -> Connection:
        return self.feed.connections(shard)[-1]

    def log(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The lines of one event in the journal, of this boot and of all earlier ones."""
        texts = self.machine.run("journalctl -u tenured -o cat --no-pager").splitlines()
        lines = [json.loads(text) for text in texts if text.startswith("{")]
        return [
            line
            for line in lines
            if line.get("event") == event and all(line.get(name) == value for name, value in fields.items())
        ]

    def child_pids(self) -> dict[str, int]:
        return {line["shard"]: line["pid"] for line in self.log("child.started")}


def seconds_since(start_ns: int, end_ns: int | None = None) -> float:
    return ((end_ns or boottime_ns()) - start_ns) / 1e9
