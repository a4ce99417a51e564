"""A child whose file is on a disk that is full: a real file system, and a real child that waits until there is room."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.child import process, task
from tests.feed import Feed, Peer
from tests.wait import until
from workers.board import DEADLINE, SINK_RETRIES, STARTED, Board
from workers.process.kernel import boottime_ns

MESSAGES = 2000
SMALL_DISK = (
    *("unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount"),
    *("sh", "-c", 'mount -t tmpfs -o size=1m tmpfs "$0" && head -c 960k /dev/zero >"$0/ballast" && exec "$@"'),
)


def behave(peer: Peer) -> None:
    peer.accept()
    for number in range(MESSAGES):
        peer.text(f"{number:0200}")
    peer.serve()


def events(path: Path) -> list[dict[str, Any]]:
    """All of its lines; the last one is whole, like the others."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def test_a_full_disk_is_waited_for_and_each_event_is_in_the_file_once_in_a_whole_line(tmp_path: Path) -> None:
    disk, board = tmp_path / "disk", Board.create()
    disk.mkdir()
    slot = board.slot(0)
    slot.words[DEADLINE] = boottime_ns() + 600 * 10**9
    with Feed(behave) as feed:
        child = process(task(feed.url, sink=f"jsonl:{disk}/events"), board, launcher=[*SMALL_DISK, str(disk)])
        try:
            until(lambda: slot.words[SINK_RETRIES] >= 3, 20)
            path = Path(f"/proc/{child.pid}/root{disk}/events")
            assert slot.words[STARTED] > 0
            until(lambda: (slot.read_trouble() or "").startswith(f"sink: No space left on device at {disk}/events"), 5)
            assert 0 < len(events(path)) < MESSAGES
            path.with_name("ballast").unlink()
            until(lambda: len(events(path)) == MESSAGES, 20)
            assert [event["seq"] for event in events(path)] == list(range(1, MESSAGES + 1))
            until(lambda: not slot.read_trouble(), 5)
            child.send_signal(signal.SIGTERM)
            assert child.wait(10) == 0
        finally:
            child.kill()
