"""What tests of sinks that talk to a far end have in common: events by number, naps, and a report that remembers."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests import sinks
from tests.sinks import batch
from workers.log import Value
from workers.sinks.envelope import Batch
from workers.sinks.interface import SinkContext


class Enough(Exception):
    """So many naps were to be taken and no more."""


@dataclass
class Naps:
    """In place of a sleep: remembers, and does not wait. With `most` it ends what would go on for ever."""

    most: int = 1_000_000
    seconds: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        if len(self.seconds) == self.most:
            raise Enough
        return True


@dataclass
class Told:
    """A `Report`; it is never fenced, and no child stops."""

    pause: Callable[[float], bool] = field(default_factory=Naps)
    retries: list[str] = field(default_factory=list)
    fines: int = 0
    looks: int = 0  # at the fence
    lost: int = 0

    def retrying(self, reason: str) -> None:
        self.retries.append(reason)

    def fine(self) -> None:
        self.fines += 1

    def dropped(self, events: int) -> None:
        self.lost += events

    def fenced(self) -> None:
        self.looks += 1

    def log(self, event: str, level: str = "INFO", **fields: Value) -> None:
        raise AssertionError(f"nothing was expected in the log: {event}")


def context(
    report: Told, shard: str = "trades/7", environment: dict[str, str] | None = None, **spec: Any
) -> SinkContext:
    """Other keywords are of its `StreamSpec`; relative files are in the root folder."""
    made = sinks.context(shard=shard, report=report, **spec)
    return dataclasses.replace(made, environment=environment or {})


def batches(count: int, each: int = 7, size: int = 20) -> list[Batch]:
    """So many events, `each` at a time; the text of each begins with its number."""
    texts = [f"{number} ".ljust(size, "x") for number in range(1, count + 1)]
    return [batch(*texts[start : start + each], first_seq=start + 1) for start in range(0, count, each)]


def names(lines: list[bytes]) -> list[tuple[str, int, int]]:
    """Shard, epoch and seq of each line."""
    events = [json.loads(line) for line in lines]
    return [(event["shard"], event["epoch"], event["seq"]) for event in events]


def numbers(lines: list[bytes]) -> list[int]:
    return [seq for _, _, seq in names(lines)]


class InThread:
    """A call that may take long; `result` waits for it."""

    def __init__(self, call: Any) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Any) -> None:
        try:
            call()
        except BaseException as error:  # `result` raises it
            self._error = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self, timeout_s: float = 20.0) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the call did not end"
        if self._error is not None:
            raise self._error
