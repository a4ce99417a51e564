"""At a terminal the lines of the supervisor and those of its children are one log of text."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import COMMAND, Host
from tests.wait import until


def test_lines_of_children_are_text_like_those_of_the_supervisor(tmp_path: Path) -> None:
    with FeedProcess(tmp_path / "feed.jsonl") as feed:
        host = Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", feed.url("a"), shards=1)
        control, terminal = pty.openpty()
        command = [*COMMAND, "run", "-c", str(host.config)]
        with subprocess.Popen(command, stderr=terminal, stdout=subprocess.DEVNULL) as process:
            os.close(terminal)
            text = b""

            def shown(event: str) -> bool:
                nonlocal text
                if select.select([control], [], [], 0)[0]:
                    text += os.read(control, 65_536)
                return event.encode() in text

            try:
                until(lambda: shown("connection.opened"), 30)
            finally:
                process.terminate()
            until(lambda: shown("supervisor.stopped"), 30)
            assert process.wait(30) == 0
        os.close(control)
    lines = text.decode().splitlines()
    assert not [line for line in lines if line.startswith("{")]
    assert any(" INFO    connection.opened s/0 epoch=" in line for line in lines)
