"""What becomes of a configuration that is read again and has a mistake."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from supervisor.configuration.config import load
from supervisor.configuration.settings import Settings
from supervisor.journal import Journal
from supervisor.notify import Notifier
from supervisor.reloader import Reloader


class Owner:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = False
        self.told: list[str] = []

    def reconfigure(self, settings: Settings) -> None:
        self.settings = settings

    def reject(self, reason: str) -> None:
        self.told.append(reason)

    def describe(self) -> str:
        return ""


async def reload(reloader: Reloader, owner: Owner) -> None:
    reloader.request()
    async with asyncio.timeout(20):
        while not owner.told:
            await asyncio.sleep(0.01)


def test_of_a_mistake_the_fleet_is_told_nothing_that_the_file_says_and_the_log_all_that_is_no_secret(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tenured.ini"
    file.write_text("[supervisor]\nstore = sqlite:///l.db\n[stream:a]\nurl = wss://x/\n")
    owner = Owner(load(str(file), {}))
    file.write_text(file.read_text() + "tls_ca = /nowhere/ca.pem\nmax_message = 1MB\n")
    with (tmp_path / "log").open("w") as log:
        journal = Journal("me", "info", log)
        asyncio.run(reload(Reloader(owner, journal, Notifier("", None)), owner))
        journal.close()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["reason"] for line in lines if line["event"] == "config.rejected"] == [
        f"{file}:5: tls_ca: there is no file /nowhere/ca.pem",
        f"{file}:6: max_message is '1MB', expected a size such as 64KiB or 1MiB (did you mean 1MiB?)",
    ]
    assert owner.told == [f"{file}:5: tls_ca: there is no such file (and 1 more)"]
