"""Run a sink of one's own in a test: no supervisor, no process, no waiting.

    from workers.testing import SinkRig

    def test_a_retry_makes_no_copy():
        rig = SinkRig(Table, shard="trades/7", epoch=12)
        rig.write("one", "two")
        rig.stop()

What holds: calls reach the sink by the code that calls it in a child (`own`), so order, portions, numbers and what is
called again after a `Retry` are the same. An exception of the sink is raised again, and so is a `Retry`, unless
`on_retry` says what happens in the wait: it is called in its place, and then the sink again with the same events.

Not as in a child: all is called in the thread of the test, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from workers.handler import unusable
from workers.log import Value
from workers.sinks.envelope import Batch, Envelope
from workers.sinks.interface import SinkAway, SinkContext, SinkFailed
from workers.sinks.own import Own, Sink
from workers.spec import Scope, StreamSpec, Task
from workers.websocket.frames import Message

S = TypeVar("S", bound=Sink)

_AT_UNIX_NS = 1_767_225_600_000_000_000  # 2026-01-01
_TRIES_MAX = 100  # of one call, so that a test of a sink which is never content ends


class _Report:
    def __init__(self, on_retry: Callable[[], object] | None) -> None:
        self.retries: list[str] = []
        self._on_retry = on_retry
        self._in_a_row = 0

    def retrying(self, reason: str) -> None:
        self.retries.append(reason)

    def pause(self, seconds: float) -> bool:
        self._in_a_row += 1
        if self._on_retry is None or self._in_a_row == _TRIES_MAX:
            raise SinkAway(self.retries[-1])
        self._on_retry()
        return True

    def fine(self) -> None:
        self._in_a_row = 0

    def dropped(self, events: int) -> None:
        """A sink of one's own drops nothing by itself."""

    def fenced(self) -> None:
        """There is no deadline."""

    def log(self, event: str, level: str = "INFO", **fields: Value) -> None:
        """Nor a log."""


class SinkRig(Generic[S]):
    """`sink` is the class; the rig makes one and calls its `open`. Drive it with `write`, `flush` and `stop`; look at
    `sink` itself, and at `retries`."""

    def __init__(
        self,
        sink: type[S],
        shard: str = "stream/0",
        checkpoint: str | None = None,
        epoch: int = 1,
        sink_batch: int = StreamSpec("").sink_batch,
        on_retry: Callable[[], object] | None = None,
    ) -> None:
        if problem := unusable(sink):
            raise TypeError(problem)
        stream, _, index = shard.partition("/")
        scope = Scope(StreamSpec(stream, sink_batch=sink_batch), "test", "localhost", "/")
        task = Task(scope, shard, index, epoch, 0, checkpoint, {})
        self._report = _Report(on_retry)
        self._own = Own(sink, SinkContext(task, Envelope(shard, epoch), self._report, {}, -1))
        self._seq = 0
        self._call(lambda: self._own.write([]))

    def write(self, *messages: Message, connection: int | None = 0, ids: list[str | None] | None = None) -> None:
        """The next events. `ids`: the feed's own, one for each, as `id = /pointer` finds them."""
        batch = Batch(connection, self._seq + 1, _AT_UNIX_NS, list(messages), sum(map(len, messages)), ids)
        self._seq += len(messages)
        self._call(lambda: self._own.write([batch]))

    def flush(self) -> None:
        """As before a checkpoint is committed."""
        self._call(self._own.flush)

    def stop(self) -> None:
        """As an orderly stop: `flush`, then `close`."""
        self._call(self._own.flush)
        self._call(self._own.close)

    @property
    def sink(self) -> S:
        """The object itself."""
        return cast(S, self._own.sink)

    @property
    def retries(self) -> list[str]:
        """The texts of all `Retry`, in order."""
        return self._report.retries

    @staticmethod
    def _call(method: Callable[[], object]) -> None:
        """Raises what the sink raised, without what a child makes of it."""
        try:
            method()
        except SinkAway as error:
            raised = error.__context__
        except SinkFailed as error:
            raised = error.__cause__
        else:
            return
        assert raised is not None  # both are raised because of another one
        raise raised
