"""Between the connections and a handler: what happened waits in order, and is handed over a slice at a time.

What holds:

- what happened on a connection (opened, messages, closed) reaches the handler in that order; connections take turns;
- a turn lasts about `SLICE_NS`: a slow handler delays pings and heartbeats by one message of its own, not by a whole
  read. While messages wait, their connection is read no further;
- an exception is logged with the number of the message, counted from 1 within the epoch over all connections (events
  are numbered by their `seq`), and counted; `HANDLER_ERRORS_MAX` in a row, without a success between them, exhaust the
  handler;
- what is emitted is a batch for the sink at the end of each slice; a token is committed behind what was emitted
  before it.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from workers.board import CHECKPOINT_MAX_BYTES
from workers.connection import NEVER_NS, Connection
from workers.frames import Message
from workers.handler import Handler
from workers.kernel import boottime_ns
from workers.log import Log

SLICE_NS = 50_000_000
HANDLER_ERRORS_MAX = 10
_EMITTED_MAX_BYTES = 65_536


class Exit(Protocol):
    """Where emitted events leave for the sink."""

    def deliver(self, connection: int | None, messages: list[Message], size: int, at_ns: int) -> None: ...

    def commit(self, token: str) -> None: ...

    @property
    def full(self) -> bool: ...

    def wait_for_room(self) -> None:
        """Keep the child alive until the sink has room."""

    def handled(self, messages: int, size: int) -> None:
        """Count messages that the handler has seen."""


@dataclass(frozen=True, slots=True)
class _Opened:
    pass


@dataclass(frozen=True, slots=True)
class _Received:
    messages: list[Message]
    size: int
    at_ns: int  # unix


@dataclass(frozen=True, slots=True)
class _Closed:
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Timer:
    due_ns: int
    interval_ns: int
    function: Callable[[], object]


class Dispatch:
    """One handler's inbox, timers and outlet."""

    def __init__(
        self, handler: Handler, exit_: Exit, log: Log, address: Callable[[int], tuple[str, dict[str, str]]]
    ) -> None:
        self._handler = handler
        self._exit = exit_
        self._log = log
        self.address = address
        self._inboxes: dict[Connection, deque[_Opened | _Received | _Closed]] = {}
        self._position = 0  # in the first batch of the inbox whose turn it is
        self._timers: list[_Timer] = []
        self._emitted: list[Message] = []
        self._emitted_bytes = 0
        self._token: str | None = None
        self._source: int | None = None
        self._at_ns = 0
        self._number = 0  # of the message that was handed over last
        self._errors = 0
        self.exhausted = False  # for good, whatever succeeds afterwards

    @property
    def waiting(self) -> int:
        """How many messages the handler has not seen yet."""
        items = [item for inbox in self._inboxes.values() for item in inbox]
        return sum(len(item.messages) for item in items if isinstance(item, _Received)) - self._position

    @property
    def unfinished(self) -> bool:
        return bool(self._inboxes)

    def busy(self, connection: Connection) -> bool:
        """Not all that happened on this connection was handed over."""
        return connection in self._inboxes

    # --- from the loop --------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        self._inboxes.setdefault(connection, deque()).append(_Opened())

    def received(self, connection: Connection, messages: list[Message], size: int, at_ns: int) -> None:
        self._inboxes.setdefault(connection, deque()).append(_Received(messages, size, at_ns))

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        self._inboxes.setdefault(connection, deque()).append(_Closed(code, reason))

    def turn(self, now_ns: int) -> int:
        """Hand over for about a slice; returns when the next turn is due."""
        self._fire_timers(now_ns)
        until_ns = now_ns + SLICE_NS
        while self._inboxes and not self.exhausted and not self._exit.full:
            connection = next(iter(self._inboxes))
            inbox = self._inboxes[connection]
            done = self._hand_over(connection, inbox[0], until_ns)
            self._flush()
            if done:
                inbox.popleft()
                del self._inboxes[connection]
                if inbox:
                    self._inboxes[connection] = inbox  # behind the others
            if boottime_ns() >= until_ns:
                break
        timer_ns = min((timer.due_ns for timer in self._timers), default=NEVER_NS)
        return 0 if self._inboxes and not self._exit.full else timer_ns

    def call(self, function: Callable[[], object]) -> bool:
        """A method of the handler without a message. False: it raised."""
        self._source, self._at_ns = None, time.clock_gettime_ns(time.CLOCK_REALTIME)
        succeeded = self._guarded(function, None)
        self._flush()
        return succeeded

    # --- from the handler (see `Handler`) -------------------------------------------------------------------

    def emit(self, data: Message) -> None:
        if not isinstance(data, str | bytes):
            raise TypeError(f"emit got {type(data).__name__}, expected str or bytes; json.dumps makes a str")
        self._emitted.append(data)
        self._emitted_bytes += len(data)
        if self._emitted_bytes >= _EMITTED_MAX_BYTES:
            self._flush()
            if self._exit.full:
                self._exit.wait_for_room()

    def commit(self, token: str) -> None:
        size = len(token.encode())
        if size > CHECKPOINT_MAX_BYTES:
            raise ValueError(f"a checkpoint has {size} bytes, at most {CHECKPOINT_MAX_BYTES} are possible")
        self._token = token

    def every(self, seconds: float, function: Callable[[], object]) -> None:
        if seconds <= 0:
            raise ValueError(f"every got {seconds} seconds, expected more than 0")
        interval_ns = int(seconds * 1e9)
        self._timers.append(_Timer(boottime_ns() + interval_ns, interval_ns, function))

    # --- inside ---------------------------------------------------------------------------------------------

    def _fire_timers(self, now_ns: int) -> None:
        for number, timer in enumerate(list(self._timers)):
            if timer.due_ns <= now_ns:
                self._timers[number] = replace(timer, due_ns=now_ns + timer.interval_ns)
                self.call(timer.function)

    def _hand_over(self, connection: Connection, item: _Opened | _Received | _Closed, until_ns: int) -> bool:
        """False: the slice is over, or the sink is full, and the rest of the item has to wait."""
        handler = self._handler
        self._source = connection.number
        if isinstance(item, _Received):
            self._at_ns = item.at_ns
            return self._hand_over_messages(connection, item, until_ns)
        self._at_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        if isinstance(item, _Opened):
            self._guarded(lambda: handler.opened(connection), connection.number)
        else:
            self._guarded(lambda: handler.closed(connection, item.code, item.reason), connection.number)
        return True

    def _hand_over_messages(self, connection: Connection, item: _Received, until_ns: int) -> bool:
        message, messages = self._handler.message, item.messages
        begin = position = self._position
        while position < len(messages):
            try:
                message(connection, messages[position])
                self._errors = 0
            except Exception as error:
                self._failed(error, connection.number, self._number + position - begin + 1)
            position += 1
            if boottime_ns() >= until_ns or self.exhausted or self._exit.full:
                break
        done = position == len(messages)
        self._position = 0 if done else position
        self._number += position - begin
        self._exit.handled(position - begin, item.size if done else 0)
        return done

    def _guarded(self, function: Callable[[], object], connection: int | None) -> bool:
        try:
            function()
        except Exception as error:
            self._failed(error, connection)
            return False
        self._errors = 0
        return True

    def _failed(self, error: Exception, connection: int | None, number: int | None = None) -> None:
        self._errors += 1
        self.exhausted = self.exhausted or self._errors >= HANDLER_ERRORS_MAX
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        reason = f"{type(error).__name__}: {error}"
        fields = {"connection": connection, "message_number": number, "where": where, "in_a_row": self._errors}
        self._log("handler.failed", "ERROR", reason=reason, **fields)

    def _flush(self) -> None:
        emitted, self._emitted = self._emitted, []
        size, self._emitted_bytes = self._emitted_bytes, 0
        if emitted:
            self._exit.deliver(self._source, emitted, size, self._at_ns)
        if self._token is not None:
            self._exit.commit(self._token)
            self._token = None
