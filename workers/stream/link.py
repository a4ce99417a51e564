"""One open WebSocket of a connection, from the upgrade to the closed socket.

    open -> closing -> gone

What holds:

- nothing here waits: the socket is non-blocking, and both states have a due time with a way out;
- a turn reads at most `READS_PER_TURN` times, so that a busy link cannot starve the others;
- a ping is answered at once, several in one read by one pong for the last; what is sent is bounded, a peer that
  does not read is given up. `send_rate` holds up messages alone: never a ping, a pong or a close frame;
- reading pauses while the consumer is behind (`Home.held`). Silence of that time is not held against the peer. Its
  pings then stand in the socket behind data for which there is no room, so nobody can answer them; a pong that
  answers none (RFC 6455, 5.5.3) goes out each ping interval instead, so that the peer hears us;
- a close frame is sent for every end that is ours (see `farewell`). What still comes is delivered, or read and thrown
  away, since closing a socket with unread bytes would reset it and lose our close frame.

When it is opened, retried, replaced is decided by its `connection`.
"""

from __future__ import annotations

import select
import socket
import ssl
from typing import TYPE_CHECKING

from workers.board import SILENCES, VIOLATIONS
from workers.process.kernel import boottime_ns
from workers.stream.farewell import ABNORMAL, UNSATISFIED, End, Farewell, end_of
from workers.stream.home import Home
from workers.stream.read_size import ReadSize
from workers.stream.sender import Sender
from workers.stream.session import NEVER_NS, Dead, Idle, Probe
from workers.stream.vigil import Vigil
from workers.websocket import outgoing
from workers.websocket.cause import cause_of
from workers.websocket.dial import Opened
from workers.websocket.frames import Close, Control, Message, Parsed, Ping
from workers.websocket.parser import Parser

if TYPE_CHECKING:
    from workers.stream.connection import Connection

READS_PER_TURN = 4


class Link:
    """`due_ns` is when `tick` has something to do; `subscribed_ns` when its subscriptions were out, 0 before;
    `checkpoint` the one that it was asked to go on from."""

    __slots__ = (
        "_events", "_farewell", "_home", "_parser", "_read_size", "_sender", "_sock", "_vigil",
        "checkpoint", "connection", "due_ns", "opened_ns", "paused", "subscribed_ns",
    )  # fmt: skip

    def __init__(self, connection: Connection, home: Home, opened: Opened, now_ns: int) -> None:
        self.connection = connection
        self._home = home
        self._sock: socket.socket | None = opened.sock
        self._parser = Parser(home.message_max_bytes, opened.inflater)
        self._sender = Sender(opened.sock, home.policy.send_interval_ns)
        self._read_size = ReadSize(deflated=opened.inflater is not None)
        self._farewell: Farewell | None = None
        self._vigil = Vigil(home.policy, now_ns)
        self.checkpoint = opened.target.checkpoint
        self.opened_ns = now_ns
        self.subscribed_ns = self._events = 0
        self.paused, self.due_ns = False, NEVER_NS

    @property
    def open(self) -> bool:
        """The close handshake has not begun."""
        return self._farewell is None and self._sock is not None

    @property
    def data_ns(self) -> int:
        """When the last message came; 0: none has come."""
        return self._vigil.data_ns

    @property
    def idle(self) -> bool:
        return self._vigil.idle

    def begin(self, opened: Opened, now_ns: int) -> None:
        """Subscribe, and take what came with the answer to the upgrade."""
        self._sender.begin(opened.target.subscriptions)
        self._sooner(min(self._send_due(now_ns), self._vigil.first_ns))
        self._update_interest()
        if opened.rest and self.open:
            self._take(self._parser.feed(opened.rest), now_ns)
        self._read_decrypted()  # what came in one record with the answer

    # --- what is due ----------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Something is due."""
        if self._farewell is not None:
            self._tick_farewell(self._farewell, now_ns)
            return
        until_ns = self._pause_until(now_ns) if self.paused else self._watch_until(now_ns)
        if self.open:
            self.due_ns = min(until_ns, self._send_due(now_ns))

    def _sooner(self, due_ns: int) -> None:
        if due_ns < self.due_ns:
            self.due_ns = due_ns
            self._home.wake_at(due_ns)

    def _watch_until(self, now_ns: int) -> int:
        while self.open:
            step = self._vigil.step(now_ns)
            if isinstance(step, Probe):
                self._queue(outgoing.PING, b"")
            elif isinstance(step, Idle):
                self._tell_silence("data", step.reason)
                self.connection.silent(self, step.reason)
                if self._home.policy.idle_reconnects:
                    self.close(End(UNSATISFIED, step.reason, discard=True), now_ns)
            elif isinstance(step, Dead):
                if step.silent:
                    self._tell_silence("peer", step.reason)
                self._sender.queue(outgoing.CLOSE, UNSATISFIED.to_bytes(2, "big"), last=True)  # it may just be slow
                self._finish(End(ABNORMAL, step.reason), now_ns)
            else:
                return step.until_ns
        return self.due_ns

    def _tell_silence(self, kind: str, reason: str) -> None:
        self._home.count(SILENCES)
        self._home.log("connection.silent", "WARNING", connection=self.connection.number, kind=kind, reason=reason)

    # --- reading --------------------------------------------------------------------------------------------

    def ready(self, events: int) -> None:
        """What epoll reports of the socket: an error concerns whatever it was asked for."""
        asked = self._events
        if asked & select.EPOLLOUT and events & ~select.EPOLLIN:
            self._sender.flush()
            self._update_interest()
        if asked & select.EPOLLIN and events & ~select.EPOLLOUT:
            self.readable()

    def readable(self) -> None:
        """Read a bounded number of times, parse, hand over."""
        for number in range(READS_PER_TURN):
            sock = self._sock
            if sock is None:
                return
            if not self._discards and self._home.held(self):
                self._hold_up(boottime_ns() if self._farewell else 0)
                if number:  # it was just read, and often there is room again by the next turn
                    break
                self.paused = True
                self._update_interest()
                return
            began_ns = boottime_ns()
            size = self._read_size.bytes
            try:
                data = sock.recv(size)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                self._lost(cause_of(error))
                return
            if not data:
                self._lost("the peer ended the connection without a close frame", theirs=True)
                return
            if self._farewell is not None:
                self._farewell.heard(len(data))
            now_ns = boottime_ns()
            self._take(self._parser.feed(data), now_ns)
            self._read_size.took(boottime_ns() - began_ns)
            if len(data) < size and not isinstance(sock, ssl.SSLSocket):
                return
        self._read_decrypted()

    def _read_decrypted(self) -> None:  # in the next turn: it has left the socket, so epoll will not report it
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            self._home.again(self)

    def _take(self, parsed: Parsed, now_ns: int) -> None:
        self._sooner(self._vigil.heard(self._parser.begun, parsed.advanced, now_ns))
        if parsed.messages:
            self._take_messages(parsed, now_ns)
        if parsed.controls:
            self._obey(parsed.controls, now_ns)
        if parsed.failure and self.open:
            self._home.count(VIOLATIONS)
            self.close(End(parsed.failure.code, parsed.failure.reason, discard=True), now_ns)

    def _take_messages(self, parsed: Parsed, now_ns: int) -> None:
        if self._vigil.spoke(now_ns):
            self.connection.clear_trouble()
            self._sooner(now_ns + self._home.policy.idle_timeout_ns)
        if not self._discards:
            self._home.received(self, parsed.messages, parsed.size, now_ns)

    def _obey(self, controls: list[Control], now_ns: int) -> None:
        pings = [control for control in controls if isinstance(control, Ping)]
        if pings and self.open:
            self._queue(outgoing.PONG, pings[-1].data)
        for control in controls:
            if isinstance(control, Close) and self._farewell is not None:
                self._finish(self._farewell.end, now_ns)
            elif isinstance(control, Close):
                self.close(end_of(control), now_ns)

    # --- pauses ---------------------------------------------------------------------------------------------

    def _pause_until(self, now_ns: int) -> int:
        """It may well speak: we do not listen."""
        if now_ns >= self._vigil.pong_ns():
            self._vigil.ponged(now_ns)
            self._queue(outgoing.PONG, b"")
        return self._vigil.pong_ns()

    def resume(self, now_ns: int) -> None:
        """The consumer has caught up. What came meanwhile is read first: only if there is nothing was it a silence."""
        if self.paused and self._sock is not None:
            self.paused = False
            self._hold_up(now_ns)
            self._update_interest()
            self.readable()
            self._sooner(now_ns)

    # --- sending --------------------------------------------------------------------------------------------

    def send(self, data: Message) -> bool:
        """False: it is not open, or too much waits for its turn already."""
        opcode, payload = outgoing.encoded(data)
        if not self.open or self._sender.broken or self._sender.full:
            return False
        self._sent(self._sender.put(opcode, payload))
        self._sooner(self._sender.due_ns)
        return self.open

    def _send_due(self, now_ns: int) -> int:
        """Send what may be sent by now; returns when there is more to do."""
        self._sent(self._sender.send_due(now_ns))
        if not self.subscribed_ns and not self._sender.in_turn:
            self.subscribed_ns = now_ns
        return self._sender.due_ns

    def _queue(self, opcode: int, payload: bytes) -> None:
        self._sent(self._sender.queue(opcode, payload))

    def _sent(self, taken: bool) -> None:
        if taken:
            self._update_interest()
        else:
            self._lost(f"the peer does not read: {self._sender.waiting} bytes wait to be sent")

    def _update_interest(self) -> None:
        events = (0 if self.paused else select.EPOLLIN) | (select.EPOLLOUT if self._sender.waiting else 0)
        if self._sock is not None and events != self._events:
            self._home.watch(self, self._sock, self._events, events)
            self._events = events

    # --- the end --------------------------------------------------------------------------------------------

    def close(self, end: End, now_ns: int) -> None:
        """Say good-bye. Not a second time."""
        if not self.open:
            return
        self._farewell = Farewell(end, now_ns)
        self.due_ns = self._farewell.due_ns
        self._home.wake_at(self.due_ns)
        self._sender.queue(outgoing.CLOSE, end.payload, last=True)
        self._update_interest()

    @property
    def _discards(self) -> bool:
        return self._farewell is not None and self._farewell.end.discard

    def _hold_up(self, now_ns: int) -> None:
        if self._farewell is not None and not self._home.stopping:
            self._farewell.held_up(now_ns)

    def _tick_farewell(self, farewell: Farewell, now_ns: int) -> None:
        if now_ns >= farewell.due_ns:
            if farewell.over(now_ns, self.paused, self._home.stopping):
                self._finish(farewell.end, now_ns)
            elif self._home.stopping:
                self.paused = False
                self._update_interest()
                self._read_decrypted()
        self.due_ns = farewell.due_ns

    def _lost(self, reason: str, theirs: bool = False) -> None:
        self._finish(self._farewell.end if self._farewell else End(ABNORMAL, reason, theirs=theirs), boottime_ns())

    def _finish(self, end: End, now_ns: int) -> None:
        if self._sock is None:
            return
        if self._events:
            self._home.watch(self, self._sock, self._events, 0)
        self._sock.close()
        self._sock, self._events = None, 0
        self.connection.ended(self, end, now_ns)
