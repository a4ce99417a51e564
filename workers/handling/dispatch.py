"""The calls of a handler: what happened on its connections, timers, and what it calls itself; a slice at a time.

What holds:

- what happened reaches the handler in the order of `inbox`;
- a turn lasts about `SLICE_NS`: a slow handler delays pings and heartbeats by one call of its own, not by a whole
  read. While messages wait, their connection is read no further;
- a handler with a method `messages` gets what arrived together in one call, `BATCH_MAX` messages at most;
- messages are numbered from 1 within the epoch over all connections (events by their `seq`); an exception is passed on
  with the numbers of the messages that the call was about;
- `errors_max` in a row exhaust the handler. Each kind of call has its own row: a timer that works forgives no message,
  and no message a timer;
- what is emitted is a batch for the sink at the end of each slice; a token is committed behind what was emitted
  before it. One that the file points to is taken of messages that the handler returned from, never of those that it
  failed at;
- a function that waits for what was emitted to be safe is called in a turn of its own after that, never at once;
- the clocks are passed in, so that a handler can be run without a child (see `testing`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from workers.board import CHECKPOINT_MAX_BYTES
from workers.handler import Connection, Handler, Timer
from workers.handling.clock import Clock
from workers.handling.failures import Failure
from workers.handling.inbox import Closed, Inbox, Item, Opened, Received
from workers.handling.settling import Settling
from workers.handling.timers import Timers
from workers.websocket.frames import Message

SLICE_NS = 50_000_000
BATCH_MAX = 1000
_EMITTED_MAX_BYTES = 65_536

Kind = Literal["message", "opened", "closed", "timer", "safe", "once"]  # of a call; `once`: start and stop


class Exit(Protocol):
    """Where emitted events leave for the sink."""

    def deliver(self, connection: int | None, messages: list[Message], size: int, at_ns: int) -> None: ...

    def commit(self, token: str) -> None: ...

    def settle(self, number: int) -> None:
        """Let `settled` reach a number once all that was delivered before is safe."""

    @property
    def settled(self) -> int: ...

    @property
    def full(self) -> bool: ...

    def wait_for_room(self) -> None:
        """Keep the child alive until the sink has room."""

    def handled(self, messages: int, size: int) -> None:
        """Count messages that the handler has seen."""


class Witness(Protocol):
    """Who is told of the handler's exceptions; see `failures`."""

    def failed(self, failure: Failure, now_ns: int) -> None: ...

    def turned(self, now_ns: int) -> None: ...


class Dispatch:
    """One handler's inbox, timers and outlet."""

    def __init__(
        self,
        handler: Handler,
        exit_: Exit,
        witness: Witness,
        address: Callable[[int], tuple[str, dict[str, str]]],
        errors_max: int,
        clock: Clock,
        token_of: Callable[[list[Message]], str | None] | None = None,
    ) -> None:
        """`token_of`: the newest resume token in messages, where the file says that they hold one."""
        self._handler = handler
        self._hand_over_some = self._together if type(handler).messages is not Handler.messages else self._one_by_one
        self._exit = exit_
        self._witness = witness
        self.address = address
        self._errors_max = errors_max
        self._clock = clock
        self._token_of = token_of
        self._inbox = Inbox()
        self._timers = Timers()
        self._settling = Settling()
        self._emitted: list[Message] = []
        self._emitted_bytes = 0
        self._emit_max_bytes = _EMITTED_MAX_BYTES  # before they are handed on, and room for more is waited for
        self._token: str | None = None
        self._source: int | None = None
        self._at_ns = 0
        self._number = 0  # of the message that was handed over last
        self._in_a_row: dict[Kind, int] = {}  # failures, of kinds whose last call failed
        self._failed_at: set[int] = set()  # numbers of messages, as far as a token may be taken of them
        self.failure: Failure | None = None  # the last one
        self.exhausted = False  # for good, whatever succeeds afterwards

    @property
    def waiting(self) -> int:
        """How many messages the handler has not seen yet."""
        return self._inbox.messages

    @property
    def unfinished(self) -> bool:
        return bool(self._inbox)

    def busy(self, connection: Connection) -> bool:
        """Not all that happened on this connection was handed over."""
        return connection in self._inbox

    # --- from the loop --------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        self._inbox.put(connection, Opened())

    def received(self, connection: Connection, messages: list[Message], size: int, at_ns: int) -> None:
        self._inbox.put(connection, Received(messages, size, at_ns))

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        self._inbox.put(connection, Closed(code, reason))

    def turn(self, now_ns: int) -> int:
        """Hand over for about a slice; returns when the next turn is due."""
        self._witness.turned(now_ns)
        for function in self._timers.due(now_ns):
            if not self.exhausted:
                self.call(function, "timer")
        until_ns = now_ns + SLICE_NS
        if self._settling.waits(self._exit.settled):
            self._call_settled(until_ns)
        while self._inbox and not self.exhausted and not self._held:
            done = self._hand_over(*self._inbox.next, until_ns)
            self._flush()
            if done:
                self._inbox.done()
            if self._clock.boottime_ns() >= until_ns:
                break
        if (self._inbox and not self._held) or self._settling.waits(self._exit.settled):
            return 0
        return self._timers.due_ns

    @property
    def _held(self) -> bool:
        """Nothing more should be handed over: the sink is behind with what came of it."""
        return self._exit.full or self._settling.crowded

    def call(self, function: Callable[[], object], kind: Kind = "once") -> bool:
        """A function of the handler without a message. False: it raised."""
        self._source, self._at_ns = None, self._clock.unix_ns()
        # it is called also while the sink is full: then each event waits for room
        self._emit_max_bytes = 0 if self._exit.full else _EMITTED_MAX_BYTES
        succeeded = self._guarded(function, kind, None)
        self._emit_max_bytes = _EMITTED_MAX_BYTES
        self._flush()
        return succeeded

    # --- from the handler (see `Handler`) -------------------------------------------------------------------

    def emit(self, data: Message) -> None:
        if not isinstance(data, str | bytes):
            raise TypeError(f"emit got {type(data).__name__}, expected str or bytes; json.dumps makes a str")
        self._emitted.append(data)
        self._emitted_bytes += len(data)
        if self._emitted_bytes >= self._emit_max_bytes:
            self._flush()
            if self._exit.full:
                self._exit.wait_for_room()

    def commit(self, token: str) -> None:
        if not isinstance(token, str):
            raise TypeError(f"checkpoint got {type(token).__name__}, expected str")
        if not token:
            raise ValueError("a checkpoint is empty, expected a token; to begin anew, commit one that says so")
        size = len(token.encode())
        if size > CHECKPOINT_MAX_BYTES:
            raise ValueError(f"a checkpoint has {size} bytes, at most {CHECKPOINT_MAX_BYTES} are possible")
        self._token = token

    def every(self, seconds: float, function: Callable[[], object]) -> Timer:
        return self._timers.every(seconds, function, self._clock.boottime_ns())

    def when_safe(self, function: Callable[[], object]) -> None:
        self._settling.add(function)

    # --- inside ---------------------------------------------------------------------------------------------

    def _hand_over(self, connection: Connection, item: Item, until_ns: int) -> bool:
        """False: the slice is over, or the sink is full, and the rest of the item has to wait."""
        handler = self._handler
        self._source = connection.number
        if isinstance(item, Received):
            self._at_ns = item.at_ns
            return self._hand_over_messages(connection, item, until_ns)
        self._at_ns = self._clock.unix_ns()
        if isinstance(item, Opened):
            self._guarded(lambda: handler.opened(connection), "opened", connection.number)
        else:
            self._guarded(lambda: handler.closed(connection, item.code, item.reason), "closed", connection.number)
        return True

    def _hand_over_messages(self, connection: Connection, item: Received, until_ns: int) -> bool:
        begin = self._inbox.position
        position = self._hand_over_some(connection, item.messages, begin, until_ns)
        if self._token_of is not None:
            self._take_token(self._token_of, item.messages[begin:position])
        done = position == len(item.messages)
        self._inbox.position = position
        self._number += position - begin
        self._exit.handled(position - begin, item.size if done else 0)
        return done

    def _take_token(self, token_of: Callable[[list[Message]], str | None], messages: list[Message]) -> None:
        """Of the messages that the handler returned from; they are the next ones to be numbered."""
        if self._failed_at:
            numbered = enumerate(messages, self._number + 1)
            messages = [message for number, message in numbered if number not in self._failed_at]
            self._failed_at.clear()
        token = token_of(messages)
        if token is not None:
            self._token = token

    def _one_by_one(self, connection: Connection, messages: list[Message], begin: int, until_ns: int) -> int:
        """As many as fit into the slice; how far it got."""
        message, boottime_ns, in_a_row = self._handler.message, self._clock.boottime_ns, self._in_a_row
        # that there is room in the sink is looked at where something is handed to it, not for each message
        for position, one in enumerate(messages[begin:] if begin else messages, begin + 1):
            try:
                message(connection, one)
                if in_a_row:
                    in_a_row.pop("message", None)
            except Exception as error:
                number = self._number + position - begin
                self._failed(error, "message", connection.number, number, number)
                if self.exhausted:
                    return position
            if boottime_ns() >= until_ns:
                return position
        return len(messages)

    def _together(self, connection: Connection, messages: list[Message], begin: int, until_ns: int) -> int:
        """The same for a handler that takes several at a time."""
        position = begin
        while position < len(messages):
            batch = messages[position : position + BATCH_MAX]  # the handler may keep and change it
            first = self._number + position - begin + 1
            position += len(batch)
            try:
                self._handler.messages(connection, batch)
                self._in_a_row.pop("message", None)
            except Exception as error:
                self._failed(error, "message", connection.number, first, self._number + position - begin)
            if self._clock.boottime_ns() >= until_ns or self.exhausted:
                break
        return position

    def _call_settled(self, until_ns: int) -> None:
        for function in self._settling.ready(self._exit.settled):
            self.call(function, "safe")
            if self.exhausted or self._clock.boottime_ns() >= until_ns:
                break

    def _guarded(self, function: Callable[[], object], kind: Kind, connection: int | None) -> bool:
        try:
            function()
        except Exception as error:
            self._failed(error, kind, connection, 0, 0)
            return False
        self._in_a_row.pop(kind, None)
        return True

    def _failed(self, error: Exception, kind: Kind, connection: int | None, first: int, last: int) -> None:
        in_a_row = self._in_a_row[kind] = self._in_a_row.get(kind, 0) + 1
        self.exhausted = self.exhausted or in_a_row >= self._errors_max
        if self._token_of is not None and first:
            self._failed_at.update(range(first, last + 1))
        self.failure = Failure(error, connection, first, last, in_a_row)
        self._witness.failed(self.failure, self._clock.boottime_ns())

    def _flush(self) -> None:
        emitted, self._emitted = self._emitted, []
        size, self._emitted_bytes = self._emitted_bytes, 0
        if emitted:
            self._exit.deliver(self._source, emitted, size, self._at_ns)
        if self._token is not None:
            self._exit.commit(self._token)
            self._token = None
        if number := self._settling.wanted():
            self._exit.settle(number)
