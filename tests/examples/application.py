"""An example as a user has it: a copy of its folder, run by a real supervisor, against a far end on some port."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.process.host import Host
from tests.wait import until

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/tenured.ini"))


def copied(name: str, folder: Path, port: int | None = None) -> Path:
    """The folder of the copy; `port` instead of the one that the example names."""
    copy = folder / name
    shutil.copytree(EXAMPLES / name, copy)
    if port is not None:
        config = copy / "tenured.ini"
        config.write_text(re.sub(r"127\.0\.0\.1:88\d\d", f"127.0.0.1:{port}", config.read_text()))
    return copy


def application(name: str, folder: Path, port: int, environment: Mapping[str, str] = MappingProxyType({})) -> Host:
    copy = copied(name, folder, port)
    text = (copy / "tenured.ini").read_text()
    host = Host(copy, "", "", environment=environment)
    host.config.write_text(text)  # instead of its own
    return host


def events(host: Host) -> list[dict[str, Any]]:
    """The lines that are whole; what the handler emitted stands parsed in `data`."""
    lines = host.events.read_bytes().split(b"\n")[:-1] if host.events.exists() else []
    return [{**line, "data": json.loads(line["data"])} for line in map(json.loads, lines)]


def kill_child(host: Host, shard: str) -> None:
    """kill -9 of the child of a shard; returns when the next one has started."""
    pid = host.child_pid(shard)
    os.kill(pid, signal.SIGKILL)
    until(lambda: host.child_pid(shard) != pid, 15)
