"""One connection of a shard: its states, its socket, and what it does when the loop says that something is due.

    waiting -> dialing -> open -> closing -> waiting ...        any -> ended, when the shard stops

What holds:

- nothing here waits: the socket is non-blocking, dialing happens elsewhere, every state has a due time with a way out;
- a turn reads at most `READS_PER_TURN` times, so that a busy connection cannot starve the others;
- a ping is answered at once, several in one read by one pong for the last; what is sent is bounded, a peer that
  does not read is given up;
- reading pauses while the consumer is behind (`Home.held`); meanwhile silence is not held against the peer, and pings
  of ours tell it that we live. Its own pings wait in the socket behind the data, and are answered when they are read;
- a close frame is sent for every end that is ours, and the peer has a second to answer it; the rest is read and thrown
  away meanwhile, since closing a socket with unread bytes would reset it and lose our close frame;
- a reconnect is a due time, never a call from inside another one.
"""

from __future__ import annotations

import enum
import os
import select
import socket
import ssl
from dataclasses import dataclass

from workers import outgoing, session
from workers.dial import STUCK_MAX, Attempt, Opened
from workers.frames import NO_CODE, READ_BYTES, Close, Control, Message, Parsed, Parser, Ping
from workers.home import Home
from workers.kernel import boottime_ns
from workers.outgoing import Outgoing
from workers.session import Dead, Link, Probe, Refusal, Retry
from workers.target import shown

READS_PER_TURN = 4
NEVER_NS = 2**63 - 1
ABNORMAL = 1006  # the end of a connection without a close frame; never sent
_BACKLOG_PAUSE_NS = 10_000_000
_ATTEMPT_SLACK_NS = 500_000_000  # an attempt keeps its timeout itself, begins later, and knows what it waited for


def chance() -> float:
    """From 0 to below 1. Not `random`, which is seeded anew at each fork, in a page that a child would else share."""
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)


class State(enum.Enum):
    WAITING = "waiting"
    DIALING = "dialing"
    OPEN = "open"
    CLOSING = "closing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class _End:
    """How a connection that is closing will have ended."""

    code: int
    reason: str
    discard: bool  # what still comes is not delivered


class Connection:
    """`due_ns` is when `tick` has something to do. Handlers use `number`, `send` and `close`."""

    _parser: Parser  # of a socket, as the two below
    _out: Outgoing

    __slots__ = (
        "_attempt", "_end", "_events", "_frame_ns", "_heard_ns", "_home", "_host", "_opened_ns", "_out", "_parser",
        "_paused", "_pinged_ns", "_retry", "_sock", "_stuck", "_url", "due_ns", "number", "state",
    )  # fmt: skip

    def __init__(self, number: int, home: Home) -> None:
        self.number = number
        self.state = State.WAITING
        self.due_ns = 0
        self._home = home
        self._retry = Retry()
        self._attempt: Attempt | None = None
        self._stuck: list[Attempt] = []
        self._host = self._url = ""
        self._sock: socket.socket | None = None
        self._events = 0
        self._paused = False
        self._end: _End | None = None
        self._opened_ns = self._heard_ns = self._pinged_ns = self._frame_ns = 0

    # --- for handlers ---------------------------------------------------------------------------------------

    def send(self, data: Message) -> bool:
        if self.state is not State.OPEN:
            return False
        opcode, payload = (outgoing.TEXT, data.encode()) if isinstance(data, str) else (outgoing.BINARY, data)
        self._queue(opcode, payload)
        return self.state is State.OPEN

    def close(self, code: int = 1000) -> None:
        if code not in (1000, 1001) and not 3000 <= code < 5000:
            raise ValueError(f"close code {code} may not be sent, expected 1000, 1001 or 3000 to 4999")
        if self.state is State.OPEN:
            self._begin_close(_End(code, "closed by the handler", discard=False), boottime_ns())

    # --- what is due ----------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Something is due."""
        if self.state is State.WAITING:
            self._begin_attempt(now_ns)
        elif self.state is State.DIALING:
            self._give_up_attempt()
            self._refused(Refusal("no connection in time: resolution or target() took too long"), now_ns)
        elif self.state is State.OPEN:
            self._watch_link(now_ns)
        elif self._end is not None:
            self._finish(self._end.code, self._end.reason, now_ns)

    def _set_due(self, due_ns: int) -> None:
        self.due_ns = due_ns
        self._home.wake_at(due_ns)

    def _begin_attempt(self, now_ns: int) -> None:
        floor_ns = self._home.floor_ns(self._host)
        if floor_ns > now_ns:
            return self._set_due(floor_ns)
        if self._home.backlogged(self):
            return self._set_due(now_ns + _BACKLOG_PAUSE_NS)
        self._retry = session.begun(self._retry, now_ns)
        if self._stuck:
            self._stuck = [attempt for attempt in self._stuck if attempt.stuck]
        if len(self._stuck) >= STUCK_MAX:
            return self._refused(Refusal(f"{len(self._stuck)} earlier attempts still hang"), now_ns)
        home = self._home
        self.state = State.DIALING
        self._set_due(now_ns + home.policy.connect_timeout_ns + _ATTEMPT_SLACK_NS)
        self._attempt = Attempt(lambda: home.target(self), home.connect, lambda done: home.settled(self, done))
        return None

    def _give_up_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.abandon()
            self._stuck.append(self._attempt)
            self._attempt = None

    def settle(self, attempt: Attempt, now_ns: int) -> None:
        """An attempt has its outcome; one that was given up has no say."""
        if attempt is not self._attempt:
            return
        self._attempt = None
        if attempt.target is not None:
            self._url = shown(attempt.target.url)
            self._host = self._url.partition("://")[2]
        if isinstance(attempt.outcome, Opened):
            self._open(attempt.outcome, now_ns)
        elif attempt.outcome is not None:
            self._refused(attempt.outcome, now_ns)

    def _refused(self, refusal: Refusal, now_ns: int) -> None:
        """An attempt failed, or an open connection ended: when to try again."""
        self._retry, until_ns = session.failed(self._home.policy, self._retry, refusal, now_ns, chance())
        if refusal.floor_s:
            self._home.set_floor(self._host, now_ns + int(refusal.floor_s * 1e9))
        self.state = State.WAITING
        self._set_due(until_ns)
        if not self._opened_ns:
            self._log_closed(None, refusal.reason, now_ns, refusal.permanent)
        self._opened_ns = 0

    def _log_closed(self, code: int | None, reason: str, now_ns: int, permanent: bool = False) -> None:
        retry_ms = None if self.due_ns == NEVER_NS else max(self.due_ns - now_ns, 0) // 1_000_000
        level = "ERROR" if permanent else "INFO" if self._home.stopping else "WARNING"
        fields = {"url": self._url or None, "code": code, "retry_ms": retry_ms, "permanent": permanent or None}
        self._home.log("connection.closed", level, connection=self.number, reason=reason, **fields)

    # --- an open connection ---------------------------------------------------------------------------------

    def _open(self, opened: Opened, now_ns: int) -> None:
        self.state = State.OPEN
        self._sock = opened.sock
        self._parser = Parser(self._home.message_max_bytes)
        self._out = Outgoing()
        self._events, self._paused, self._end = 0, False, None
        self._opened_ns = self._heard_ns = now_ns
        self._pinged_ns = self._frame_ns = 0
        self._set_due(now_ns + self._home.policy.ping_interval_ns)
        self._home.log("connection.opened", connection=self.number, url=self._url)
        self._home.opened(self)
        for text in opened.target.subscriptions:
            self._out.queue(outgoing.TEXT, text.encode())
        self._flush()
        if opened.rest and self.state is State.OPEN:
            self._take(self._parser.feed(opened.rest), now_ns)

    def ready(self, events: int) -> None:
        """What epoll reports of the socket: an error concerns whatever it was asked for."""
        asked = self._events
        if asked & select.EPOLLOUT and events & ~select.EPOLLIN:
            self._flush()
        if asked & select.EPOLLIN and events & ~select.EPOLLOUT:
            self.readable()

    def readable(self) -> None:
        """Read a bounded number of times, parse, hand over."""
        for number in range(READS_PER_TURN):
            sock = self._sock
            if sock is None:
                return
            if self._home.held(self):
                if number == 0:  # else it was just read, and often there is room again by the next turn
                    self._pause()
                return
            space = self._parser.space()
            try:
                if space is None:
                    data = sock.recv(READ_BYTES)
                    count = len(data)
                else:
                    data = b""
                    count = sock.recv_into(space)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                self._lost(error.strerror or type(error).__name__)
                return
            if not count:
                self._lost("the peer ended the connection without a close frame")
                return
            now_ns = boottime_ns()
            self._take(self._parser.feed(data) if space is None else self._parser.filled(count), now_ns)
            if count < READ_BYTES and not isinstance(sock, ssl.SSLSocket):
                return
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            self._home.again(self)  # decrypted already, so epoll will not report it

    def _take(self, parsed: Parsed, now_ns: int) -> None:
        self._heard_ns = now_ns
        if self._pinged_ns:  # the answer, so the next silence begins
            self._pinged_ns = 0
            self._set_due(now_ns + self._home.policy.ping_interval_ns)
        if not self._parser.begun:
            self._frame_ns = 0
        elif parsed.advanced or not self._frame_ns:
            self._frame_ns = now_ns
            end_ns = now_ns + self._home.policy.frame_timeout_ns
            if end_ns < self.due_ns:
                self._set_due(end_ns)
        end = self._end
        if parsed.messages and not (end and end.discard):
            self._home.received(self, parsed.messages, parsed.size, now_ns)
        if parsed.controls:
            self._obey(parsed.controls, now_ns)
        if parsed.failure and self.state is State.OPEN:
            self._begin_close(_End(parsed.failure.code, parsed.failure.reason, discard=True), now_ns)

    def _obey(self, controls: list[Control], now_ns: int) -> None:
        pings = [control for control in controls if isinstance(control, Ping)]
        if pings and self.state is State.OPEN:
            self._queue(outgoing.PONG, pings[-1].data)
        for control in controls:
            if not isinstance(control, Close):
                continue
            if self.state is State.OPEN:
                reason = f"the peer closed it: {control.reason}" if control.reason else "the peer closed it"
                self._begin_close(_End(control.code, reason, discard=True), now_ns)
            elif self.state is State.CLOSING and self._end is not None:
                self._finish(self._end.code, self._end.reason, now_ns)

    def _watch_link(self, now_ns: int) -> None:
        policy = self._home.policy
        link = Link(self._opened_ns, self._heard_ns, self._pinged_ns, self._frame_ns)
        step = session.watch(policy, link, now_ns)
        if isinstance(step, Probe):
            self._pinged_ns = now_ns
            self._set_due(now_ns + policy.ping_timeout_ns)
            self._queue(outgoing.PING, b"")
        elif not isinstance(step, Dead):
            self._set_due(step.until_ns)
        elif self._paused:  # it may well have spoken: we did not listen
            self._forgive(now_ns)
        else:
            if step.silent:
                self._home.log("connection.silent", "WARNING", connection=self.number, reason=step.reason)
            self._finish(ABNORMAL, step.reason, now_ns)

    def _forgive(self, now_ns: int) -> None:
        self._heard_ns = now_ns
        self._pinged_ns = 0
        self._frame_ns = now_ns if self._frame_ns else 0
        self._set_due(now_ns + min(self._home.policy.ping_interval_ns, self._home.policy.frame_timeout_ns))

    def _pause(self) -> None:
        self._paused = True
        self._update_interest()

    def resume(self, now_ns: int) -> None:
        """The consumer has caught up."""
        if self._paused and self._sock is not None:
            self._paused = False
            if self.state is State.OPEN:
                self._forgive(now_ns)
            self._update_interest()

    # --- sending --------------------------------------------------------------------------------------------

    def _queue(self, opcode: int, payload: bytes) -> None:
        """Send as much as goes now, keep the rest for when the socket takes it."""
        if self._out.overflowing:
            self._lost(f"the peer does not read: {len(self._out)} bytes wait to be sent")
        else:
            self._out.queue(opcode, payload)
            self._flush()

    def _flush(self) -> None:
        if self._sock is None:
            return
        try:
            self._out.flush(self._sock)
        except OSError as error:
            self._lost(error.strerror or type(error).__name__)
        else:
            self._update_interest()

    def _update_interest(self) -> None:
        events = (0 if self._paused else select.EPOLLIN) | (select.EPOLLOUT if self._out else 0)
        if self._sock is not None and events != self._events:
            self._home.watch(self, self._sock, self._events, events)
            self._events = events

    # --- the end --------------------------------------------------------------------------------------------

    def stop(self, code: int, now_ns: int) -> None:
        """The shard stops: say good-bye, or just end."""
        if self.state is State.OPEN:
            self._begin_close(_End(code, "stopped", discard=False), now_ns)
        elif self.state is not State.CLOSING:
            self._give_up_attempt()
            self.state, self.due_ns = State.ENDED, NEVER_NS

    def _begin_close(self, end: _End, now_ns: int) -> None:
        self.state, self._end = State.CLOSING, end
        self._set_due(now_ns + session.CLOSE_TIMEOUT_NS)
        payload = b"" if end.code == NO_CODE else end.code.to_bytes(2, "big")
        self._out.queue(outgoing.CLOSE, payload)
        self._flush()

    def _lost(self, reason: str) -> None:
        end = self._end or _End(ABNORMAL, reason, discard=True)
        self._finish(end.code, end.reason, boottime_ns())

    def _finish(self, code: int, reason: str, now_ns: int) -> None:
        if self._sock is None:
            return
        if self._events:
            self._home.watch(self, self._sock, self._events, 0)
        self._sock.close()
        self._sock, self._events, self._out = None, 0, Outgoing()
        link = Link(self._opened_ns, self._heard_ns)
        self._retry = session.ended(self._home.policy, link, self._retry, now_ns)
        if self._home.stopping:
            self.state, self.due_ns = State.ENDED, NEVER_NS
        else:
            self._refused(Refusal(reason), now_ns)
        self._log_closed(code, reason, now_ns)
        self._home.closed(self, code, reason)
