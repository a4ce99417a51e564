"""Run a handler in a test: no supervisor, no socket, no process, no waiting. (For a sink: `SinkRig`, see `sinks.rig`.)

    from workers.testing import Rig

    def test_each_trade_is_passed_on():
        rig = Rig(Trades, shard="trades/7", checkpoint="41")
        rig.opened()
        rig.receive('{"seq": 42}', '{"seq": 43}')
        assert rig.events == ['{"seq": 42}', '{"seq": 43}']
        assert rig.checkpoints[-1] == "43"

What holds: calls reach the handler by the code that calls it in a child (`dispatch`), so order, batches, numbers of
messages, errors and timers are the same. Time stands still but in `advance`. An exception of the handler is raised
again, with a note of the message it was about; with `collect_errors` it stands in `errors` instead, the next message
goes on, and `handler_errors` in a row of one kind of call end the handler, all as in a child.

Not as in a child: `target` is called in the thread of the test, a connection opens and closes only when the test says
so, the sink is never full, and its flush takes no time, so that each token is committed at the end of the call in
which it was given, behind the events before it, and what waits for them to be safe is called right after that. Of
several tokens in one call the last one counts, here and there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from workers.handler import Handler, Shard, address_of, unusable
from workers.handling.clock import Clock
from workers.handling.dispatch import Dispatch
from workers.handling.failures import Failure
from workers.sinks.rig import SinkRig
from workers.spec import StreamSpec
from workers.websocket import outgoing
from workers.websocket.frames import Message

__all__ = ["Line", "Rig", "SinkRig"]

H = TypeVar("H", bound=Handler)

_BEGIN_UNIX_NS = 1_767_225_600_000_000_000  # 2026-01-01
_ABNORMAL, _STOPPED = 1006, StreamSpec("").close_code


class Line:
    """A connection as the handler sees it, and what it did with it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.links = 0  # open, as the test says; two while one replaces the other
        self.closing: int | None = None  # the code with which the handler began to close it
        self.sent: list[Message] = []
        self.close_codes: list[int] = []

    def send(self, data: Message) -> bool:
        outgoing.encoded(data)
        if not self.links or self.closing is not None:
            return False
        self.sent.append(data)
        return True

    def close(self, code: int = 1000) -> None:
        outgoing.check_code(code)
        if self.links and self.closing is None:
            self.closing = code
            self.close_codes.append(code)


class _Exit:
    """A sink without a limit."""

    full = False
    settled = 0

    def __init__(self) -> None:
        self.events: list[Message] = []
        self.tokens: list[str] = []

    def deliver(self, connection: int | None, messages: list[Message], size: int, at_ns: int) -> None:
        self.events += messages

    def commit(self, token: str) -> None:
        self.tokens.append(token)

    def settle(self, number: int) -> None:
        self.settled = number

    def wait_for_room(self) -> None:
        """There always is."""

    def handled(self, messages: int, size: int) -> None:
        """Nobody counts."""


class _Witness:
    def __init__(self) -> None:
        self.failures: list[Failure] = []

    def failed(self, failure: Failure, now_ns: int) -> None:
        self.failures.append(failure)

    def turned(self, now_ns: int) -> None:
        """Nothing is due."""


class Rig(Generic[H]):
    """`handler` is the class; the rig makes one and calls its `start`. Whatever is about a connection takes its number
    as `connection`, 0 unless given.

    Drive it with `opened`, `receive`, `closed`, `advance`, `stop`, `target`; then look at `events`, `checkpoints`,
    `sent`, `close_codes`, `errors`, `ended`, and at `handler` itself.
    """

    def __init__(
        self,
        handler: Callable[[], H],
        shard: str = "stream/0",
        checkpoint: str | None = None,
        epoch: int = 1,
        connections: int = 1,
        url: str = "wss://feed.example",
        headers: Mapping[str, str] | None = None,
        handler_errors: int = StreamSpec("").handler_errors,
        collect_errors: bool = False,
    ) -> None:
        """`url` and `headers` are what the file would say, for all connections."""
        self.handler = handler()
        if problem := unusable(type(self.handler)):
            raise TypeError(problem)
        self.ended = False
        self._collect = collect_errors
        self._now_ns = 0
        self._exit, self._witness = _Exit(), _Witness()
        self._raised = 0  # how many failures the test has seen as exceptions
        self._lines = [Line(number) for number in range(connections)]
        address = (url, dict(headers or {}))
        clock = Clock(lambda: self._now_ns, lambda: _BEGIN_UNIX_NS + self._now_ns)
        self._dispatch = Dispatch(self.handler, self._exit, self._witness, lambda _: address, handler_errors, clock)
        self.handler._outlet = self._dispatch
        stream, _, index = shard.partition("/")
        told = Shard(shard, stream, index, epoch, checkpoint, connections)
        if not self._dispatch.call(lambda: self.handler.start(told)):
            raise self._noted(self._witness.failures[0])

    # --- to drive it ----------------------------------------------------------------------------------------

    def opened(self, connection: int = 0) -> None:
        """Once more while it is open: as with `max_age`, where a new link opens before the old one goes."""
        line = self._line(connection)
        line.links, line.closing = line.links + 1, None
        self._dispatch.opened(line)
        self._run()

    def receive(self, *messages: Message, connection: int = 0) -> None:
        """Messages that arrive together."""
        line = self._open_line(connection)
        self._dispatch.received(line, list(messages), sum(map(len, messages)), _BEGIN_UNIX_NS + self._now_ns)
        self._run()

    def closed(self, code: int | None = None, reason: str = "", connection: int = 0) -> None:
        """Without a code: the one with which the handler closed it, else 1006, as if the peer had vanished."""
        line = self._open_line(connection)
        if code is None:
            code = _ABNORMAL if line.closing is None else line.closing
        self._close(line, code, reason)
        self._run()

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire when they are due."""
        if seconds < 0:
            raise ValueError(f"advance got {seconds} seconds, expected 0 or more")
        self._must_run()
        until_ns = self._now_ns + int(seconds * 1e9)
        while (due_ns := self._run()) <= until_ns and not self.ended:
            self._now_ns = max(self._now_ns, due_ns)
        self._now_ns = until_ns

    def stop(self) -> None:
        """As a planned stop of the shard: `stop` is called, then `closed` for each open connection."""
        self._must_run()
        self._end()
        self._raise_what_is_new()

    def target(self, connection: int = 0) -> tuple[str, dict[str, str]]:
        """Url and headers of the next attempt to connect."""
        return address_of(self.handler, self._line(connection))

    # --- to look at -----------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Message]:
        """What was emitted, in order."""
        return self._exit.events

    @property
    def checkpoints(self) -> list[str]:
        """The tokens that were committed, in order."""
        return self._exit.tokens

    @property
    def errors(self) -> list[Failure]:
        """The handler's exceptions, each with the numbers of its messages, counted from 1."""
        return self._witness.failures

    def sent(self, connection: int = 0) -> list[Message]:
        """What the handler sent while the connection was open."""
        return self._lines[connection].sent

    def close_codes(self, connection: int = 0) -> list[int]:
        """With which codes the handler closed it."""
        return self._lines[connection].close_codes

    # --- inside ---------------------------------------------------------------------------------------------

    def _line(self, connection: int) -> Line:
        self._must_run()
        return self._lines[connection]

    def _open_line(self, connection: int) -> Line:
        line = self._line(connection)
        if not line.links:
            raise ValueError(f"connection {connection} is not open: call opened() first")
        return line

    def _must_run(self) -> None:
        if self.ended:
            raise ValueError("the handler has ended: make a new Rig")

    def _run(self) -> int:
        """Hand over all that there is; when the next timer is due."""
        due_ns = 0
        while not due_ns and not self._dispatch.exhausted:
            due_ns = self._dispatch.turn(self._now_ns)
        if self._dispatch.exhausted:
            self._end()
        self._raise_what_is_new()
        return due_ns

    def _close(self, line: Line, code: int, reason: str) -> None:
        line.links -= 1
        self._dispatch.closed(line, code, reason)

    def _end(self) -> None:
        self._dispatch.call(self.handler.stop)
        for line in [each for each in self._lines for _ in range(each.links)]:
            self._close(line, _STOPPED if line.closing is None else line.closing, "stopped")
        while not self._dispatch.exhausted and self._dispatch.unfinished:
            self._dispatch.turn(self._now_ns)
        self.ended = True

    def _raise_what_is_new(self) -> None:
        failures = self._witness.failures[self._raised :]
        self._raised += len(failures)
        if failures and not self._collect:
            raise self._noted(failures[0])

    @staticmethod
    def _noted(failure: Failure) -> Exception:
        about = f" {failure.first}" if failure.first == failure.last else f"s {failure.first} to {failure.last}"
        what = f"about message{about} of" if failure.first else "on"
        if failure.connection is not None:
            failure.error.add_note(f"{what} connection {failure.connection}")
        return failure.error
