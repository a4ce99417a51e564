"""A sink of the user's own: one class, named in the file as `sink = FILE.py:CLASS` or `MODULE:CLASS`.

    from tenured import Sink

    class Table(Sink):
        def write(self, events):
            self.insert([(event.shard, event.epoch, event.seq, event.data) for event in events])

What holds: it is made and called in one thread, which is not the handler's, from the first events on; so what it makes
(a connection to a database, say) belongs to that thread. `write` gets events in order, at most `sink_batch` (500) at a
time. An exception ends the child, which starts again from the last checkpoint; `Retry` asks for the same call again
after a wait, as often as it takes, and is seen in `status` meanwhile; a stop ends the wait, and three more tries later
goes on without. A method that does not return is seen too, and nothing is lost meanwhile; only a stop does not wait for
it longer than `stop_timeout`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from workers.blame import file_of, in_words
from workers.chance import chance
from workers.handler import BadHandler, Shard, load
from workers.sinks.envelope import Batch
from workers.sinks.interface import BadSink, SinkContext, SinkFailed
from workers.spec import Scope
from workers.websocket.frames import Message

_EVENTS_MAX = 500
AFTER_MAX_S = 3600.0
_REASON_MAX_CHARS = 300
_WAIT_MIN_S, _WAIT_MAX_S = 0.1, 30.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """`(shard, epoch, seq)` names it for ever; `connection` is None for what a handler emitted outside of a message;
    `id` is the feed's own, where the file says where to find it."""

    shard: str
    epoch: int
    seq: int
    connection: int | None
    received_at_ns: int  # unix
    data: Message
    id: str | None = None

    @property
    def received_at(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.received_at_ns // 1000)


class Retry(Exception):
    """Raised by a sink's method: call it again with the same events, after `after_s` seconds or a wait that grows."""

    after_s = 0.0

    def __init__(self, reason: str, after_s: float = 0.0) -> None:
        if not 0 <= after_s <= AFTER_MAX_S:
            raise ValueError(f"Retry got after_s={after_s}, expected seconds from 0 to {AFTER_MAX_S:g}")
        super().__init__(reason)
        self.after_s = after_s


class Sink:
    """Override `write`, and of the others what you need."""

    def open(self, shard: Shard) -> None:
        """Once, before the first events."""

    @abstractmethod
    def write(self, events: Sequence[Event]) -> None:
        """Take events, in order. They may be held back until `flush`."""

    def flush(self) -> None:
        """Return when all that was written is safe: a checkpoint behind it is committed then."""

    def close(self) -> None:
        """Once, behind the last `flush` of an orderly stop."""


def loaded(reference: str, scope: Scope) -> type[Sink]:
    """The class that a configuration names. Raises `BadHandler` or `BadSink`."""
    try:
        return load(reference, scope.base, scope.python_path, (Sink,))
    except BadHandler:
        raise
    except BaseException as error:  # of its module, also `sys.exit`
        raise BadSink(f"sink {reference} cannot be imported: {in_words(error)}") from None


class Own:
    """From batches to the methods of a user's sink. It is made, as all of it, in the sink's thread."""

    inline = False

    def __init__(self, kind: type[Sink], context: SinkContext) -> None:
        self._kind, self._context = kind, context
        self.sink: Sink | None = None  # there from the first write on
        self._events_max = context.task.scope.spec.sink_batch or _EVENTS_MAX

    def open(self) -> None:
        """The first write does: it is another thread's."""

    def write(self, batches: Sequence[Batch]) -> None:
        sink = self._opened()
        for events in self._portions(batches):
            self._insist(lambda events=events: sink.write(events))  # type: ignore[misc]

    def flush(self) -> None:
        if self.sink is not None:
            self._insist(self.sink.flush)

    def close(self) -> None:
        if self.sink is not None:
            self._insist(self.sink.close)

    def _opened(self) -> Sink:
        if self.sink is None:
            task, spec = self._context.task, self._context.task.scope.spec
            told = Shard(task.shard, spec.stream, task.index, task.epoch, task.checkpoint, len(spec.url) or 1)
            made: list[Sink] = []
            self._insist(lambda: made.append(self._kind()))
            self._insist(lambda: made[0].open(told))
            self.sink = made[0]
        return self.sink

    def _portions(self, batches: Sequence[Batch]) -> Iterator[tuple[Event, ...]]:
        """What a sink cannot change: it may be asked to take the same again."""
        events: list[Event] = []
        for batch in batches:
            for event in self._events(batch):
                events.append(event)
                if len(events) == self._events_max:
                    yield tuple(events)
                    events = []
        if events:
            yield tuple(events)

    def _events(self, batch: Batch) -> Iterator[Event]:
        shard, epoch = self._context.task.shard, self._context.task.epoch
        connection, at_ns, first_seq, ids = batch.connection, batch.received_at_ns, batch.first_seq, batch.ids
        for position, message in enumerate(batch.messages):
            name = None if ids is None else ids[position]
            yield Event(shard, epoch, first_seq + position, connection, at_ns, message, name)

    def _insist(self, call: Callable[[], object]) -> None:
        """Until it returns, or raises something other than `Retry`."""
        report, tries = self._context.report, 0
        while True:
            report.fenced()
            try:
                call()
            except Retry as error:
                report.retrying(str(error)[:_REASON_MAX_CHARS] or "the sink asks for another try")
                report.pause(max(error.after_s, _wait_s(tries)))
                tries += 1
            except BaseException as error:  # `sys.exit` as well
                raise SinkFailed(in_words(error, file_of(self._kind))) from error
            else:
                report.fine()
                return


def _wait_s(tries: int) -> float:
    """Between half and all of what doubles each time."""
    longest_s = min(_WAIT_MAX_S, _WAIT_MIN_S * 2.0 ** min(tries, 20))
    return longest_s * (0.5 + chance() / 2)
