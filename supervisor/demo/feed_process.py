"""The feed as a process of its own: started, asked for its record, ended by its pid.

It has a session of its own, so that a Ctrl-C at a terminal does not reach it before whoever reads its record;
it ends with its starter, because its stdin is a pipe that the starter holds.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from supervisor.demo.record import Connection, FeedRecord, Growing, feed_record

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0


class FeedFailed(Exception):
    """The feed did not start. The text is one sentence."""


class FeedProcess:
    """`with FeedProcess(folder / "feed.jsonl") as feed:` serves on `feed.port` until the block is left."""

    def __init__(self, record: Path, rate: int = 20, port: int = 0) -> None:
        self.path = record
        self._arguments = ["--port", str(port), "--rate", str(rate), "--record", str(record)]
        self._growing = Growing(record)
        self._lines: list[bytes] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.port = port

    def start(self) -> None:
        """Returns when the feed accepts connections. Raises `FeedFailed`."""
        log = self.path.with_suffix(".log")
        with log.open("ab") as stderr:  # a file, because a pipe that nobody reads would stop it
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "supervisor.demo.feed", *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        line = self._first_line(self.process)
        if not line:
            self.process.kill()
            self.process.communicate()
            said = log.read_text(errors="replace").strip()
            raise FeedFailed(said.splitlines()[-1] if said else "the feed did not start within its time")
        self.port = json.loads(line)["port"]

    @staticmethod
    def _first_line(process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            return process.stdout.readline() if selector.select(START_TIMEOUT_S) else b""

    def stop(self) -> None:
        """End it and wait until it is dead; its record is complete afterwards. Harmless when repeated."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def url(self, supervisor: str = "", more: str = "") -> str:
        """The template for a stream's `url`; `more` is appended to the query."""
        return f"ws://127.0.0.1:{self.port}/${{shard}}?epoch=${{epoch}}&supervisor={supervisor}{more}"

    def record(self) -> FeedRecord:
        self._lines += self._growing.lines()
        return feed_record(self._lines)

    def connections(self, shard: str | None = None) -> tuple[Connection, ...]:
        """All connections so far, or those of one shard, in the order in which they were opened."""
        return tuple(each for each in self.record().connections if shard in (None, each.shard))

    def connected(self, shard: str | None = None) -> tuple[Connection, ...]:
        return tuple(each for each in self.connections(shard) if each.closed_ns is None)
