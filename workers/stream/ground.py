"""The ground that all connections of a shard stand on: their targets, the checkpoint, the way of what they receive to
the handler and the sink, and the counters on the board. Their `Home`.

What holds: a connection whose consumer is behind is `held`, and read again in the order in which it came when there is
room. `target`, `route`, `connect` and `tell` are called in the threads of attempts, all else on the loop.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers.blame import file_of
from workers.board import CONNECTS, LAST_EVENT, OPEN, Slot
from workers.handler import Handler, address_of
from workers.handling.clock import real_clock
from workers.handling.dispatch import Dispatch
from workers.handling.failures import Failures
from workers.log import Log
from workers.process.kernel import boottime_ns
from workers.process.means import Means
from workers.resuming import doubt
from workers.resuming.checkpoint import Checkpoint
from workers.resuming.gaps import Gaps
from workers.resuming.marks import Marks
from workers.resuming.watched import Watched
from workers.sinks.condition import Condition
from workers.sinks.outflow import Bell, Outflow
from workers.spec import Scope, Task
from workers.stream.connection import Connection
from workers.stream.farewell import UNSATISFIED, End
from workers.stream.intake import Intake
from workers.stream.link import Link
from workers.stream.permission import Permissions
from workers.stream.poller import Poller
from workers.stream.session import Policy, Refusal
from workers.stream.target import Target, Targets, Templates
from workers.troubles import Troubles
from workers.websocket.dial import Opened, dial
from workers.websocket.frames import Message
from workers.websocket.route import Route, found


@dataclass(frozen=True, slots=True)
class Stream:
    """What is alike for all shards of a stream."""

    means: Means
    scope: Scope
    templates: Templates
    policy: Policy
    marks: Marks


class Ground:
    """Of one shard. `dispatch` None: there is no handler."""

    def __init__(self, stream: Stream, task: Task, slot: Slot, handler: Handler | None) -> None:
        """Raises `BadSink` or `BadHandler`."""
        spec = task.scope.spec
        self.task, self.slot, self.words = task, slot, slot.words
        self.policy = stream.policy
        self.log = Log(stream.means.write_log, task)
        self.message_max_bytes = spec.max_message
        self.stopping = False
        self.poller, self.bell = Poller(), Bell()
        self.troubles = Troubles(slot)
        self.permissions = Permissions(slot.words, spec.connect_rate, stream.means.parent_bell_fd)
        self._targets, self._means = Targets(stream.templates, task, os.environ), stream.means
        marks: Marks | Watched = stream.marks
        if stream.marks.wanted:
            marks = Watched(stream.marks, spec, self.log, self.troubles, boottime_ns)
        self.outflow = self._begun_outflow(stream, marks)
        self._checkpoint = Checkpoint(task, slot, self.outflow, self.log, stream.templates.carries)
        self._told: deque[Callable[[int], object]] = deque()
        self._paused: dict[Link, None] = {}  # in the order in which they wait for room
        self.connections: list[Connection] = []
        for number in range(stream.templates.connections):
            self.connections.append(Connection(number, self))
        self.handler = handler
        self.dispatch: Dispatch | None = None
        if handler is not None:
            self.dispatch = handler._outlet = self._dispatched(handler, marks, stream.marks.checkpoint)
        self._gaps = Gaps(slot, self.log, spec.on_gap == "reconnect") if stream.marks.sequence else None
        resumes = stream.templates.resuming
        self._intake = Intake(marks, self._gaps, resumes, self._checkpoint, self.outflow, self.dispatch)

    def _begun_outflow(self, stream: Stream, marks: Marks | Watched) -> Outflow:
        task, slot = self.task, self.slot
        condition = Condition(slot, self.log, self.troubles)
        sink = stream.means.sink(task, condition)
        return Outflow(slot, sink, condition, self.log, task.scope.spec, self.bell, marks)

    def _dispatched(self, handler: Handler, marks: Marks | Watched, tokens: bool) -> Dispatch:
        failures = Failures(self.log, self.words, self.troubles, file_of(type(handler)))
        errors_max = self.task.scope.spec.handler_errors
        checkpoint = self._checkpoint
        token_of = (lambda seen: checkpoint.fitting(marks.token(seen))) if tokens else None
        return Dispatch(handler, self.outflow, failures, self._address, errors_max, real_clock(), token_of)

    # --- for the loop ---------------------------------------------------------------------------------------

    def settle_attempts(self) -> None:
        """What attempts came to since the last turn."""
        while self._told:
            self._told.popleft()(boottime_ns())
            self._checkpoint.tell()

    def resume(self, now_ns: int) -> None:
        """Read on where there is room now."""
        for link in list(self._paused):
            if not self._blocked(link):  # it may be again when the one before has read
                self._paused.pop(link, None)
                link.resume(now_ns)

    # --- for connections ------------------------------------------------------------------------------------

    def _address(self, number: int) -> tuple[str, dict[str, str]]:
        return self._targets.address(number, self._checkpoint.for_attempt(number))

    def target(self, connection: Connection) -> Target:
        number = connection.number
        checkpoint = self._checkpoint.for_attempt(number)
        headers: Mapping[str, str]
        if self.handler is None:
            url, headers = self._targets.address(number, checkpoint)
        else:
            url, headers = address_of(self.handler, connection)
        return self._targets.target(url, headers, number, checkpoint)

    def route(self, target: Target, deadline_ns: int) -> Route:
        return found(target, deadline_ns)

    def connect(self, route: Route, begin_by_ns: int) -> Opened | Route:
        return dial(route, self._context, begin_by_ns)

    def _context(self) -> ssl.SSLContext:
        return self._means.context(self.task.scope)

    def tell(self, heard: Callable[[int], object]) -> None:
        self._told.append(heard)
        self.bell.ring()

    def watch(self, link: Link, sock: socket.socket, before: int, events: int) -> None:
        self.poller.watch(sock.fileno(), link.ready, before, events)

    def wake_at(self, due_ns: int) -> None:
        self.poller.wake_at(due_ns)

    def again(self, link: Link) -> None:
        self.poller.again(link)

    def held(self, link: Link) -> bool:
        blocked = self._blocked(link)
        if blocked:
            self._paused.setdefault(link)
        return blocked

    def _blocked(self, link: Link) -> bool:
        return self.outflow.full or self.backlogged(link.connection)

    def backlogged(self, connection: Connection) -> bool:
        return self.dispatch is not None and self.dispatch.busy(connection)

    def count(self, word: int) -> None:
        self.words[word] += 1

    def opened(self, link: Link) -> None:
        self.words[CONNECTS] += 1
        if not link.connection.connected:  # else it is the one that replaces another
            self.words[OPEN] += 1
        if self.dispatch is not None:
            self.dispatch.opened(link.connection)

    def refused(self, connection: Connection, refusal: Refusal, checkpoint: str) -> None:
        if doubt.refuses(refusal):
            self._checkpoint.refused(connection.number, checkpoint, refusal.reason)
        else:
            self._checkpoint.passed(connection.number)

    def received(self, link: Link, messages: list[Message], size: int, now_ns: int) -> None:
        self.words[LAST_EVENT] = now_ns
        fault = self._intake.received(link, link.connection, messages, size, now_ns)
        if fault:
            link.close(End(UNSATISFIED, fault, discard=True), now_ns)

    def closed(self, link: Link, end: End) -> None:
        number = link.connection.number
        short = boottime_ns() - link.opened_ns < self.policy.stable_after_ns
        if end.theirs and not link.data_ns and short and doubt.closes(end.code):
            self._checkpoint.refused(number, link.checkpoint, end.reason)
        else:
            self._checkpoint.passed(number)
        if not link.connection.connected:
            self.words[OPEN] -= 1
        self._paused.pop(link, None)
        self.poller.forget(link)
        if self._gaps is not None:
            self._gaps.closed(link)
        if self.dispatch is not None:
            self.dispatch.closed(link.connection, end.code, end.reason)
