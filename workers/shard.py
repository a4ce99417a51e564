"""A child's one loop: all connections of its shard in one thread, from the epoch's start to the exit code.

What holds:

- the loop turns at least twice a second and says so on the board; nothing that it calls waits, but a handler's methods
  and the sink behind a full queue;
- nothing is delivered at or after the deadline (see `delivery`); `seq` counts from 1 within the epoch;
- a byte of SIGTERM on the wake-up pipe stops: the handler is told, each open connection gets a close frame and a
  second to answer it, then what was received is handed over, the sink flushed and the last checkpoint written to the
  board. A sink that is away is tried three times more, at once, and not waited for.

Exit codes: 0 stopped as asked; 1 the handler or the sink failed; 3 the deadline passed; 78 the task cannot be done
as it is configured. It does not time its own stop: the parent kills what takes too long.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers import doubt, rehearsal
from workers.attempt import Attempt
from workers.blame import file_of, in_words
from workers.board import CONNECTS, HEARTBEAT, LAST_EVENT, OPEN, STARTED, WANT, Slot
from workers.checkpoint import Checkpoint
from workers.clock import real_clock
from workers.connection import NEVER_NS, Connection
from workers.dial import Opened, dial, import_for
from workers.dispatch import Dispatch
from workers.failures import Failures
from workers.farewell import End
from workers.frames import Message
from workers.gaps import Gaps
from workers.handler import BadHandler, Handler, address_of
from workers.handler import Shard as ShardOfHandler
from workers.intake import Intake
from workers.kernel import boottime_ns
from workers.link import UNSATISFIED, Link
from workers.log import Log
from workers.marks import Marks
from workers.means import Means
from workers.outflow import Bell, Outflow
from workers.parser import Parser
from workers.permission import Permissions
from workers.route import Route, found
from workers.session import Policy, Refusal, policy_of
from workers.sinks.condition import Condition
from workers.sinks.interface import BadSink
from workers.spec import Scope, Task
from workers.target import Target, Targets, Templates
from workers.troubles import Troubles

STOPPED, FAILED, BAD_CONFIGURATION = 0, 1, 78
TURN_MAX_NS = 500_000_000
HANDOVER_MAX_NS = 2_000_000_000  # at a stop: for messages that the handler has not seen
_STDERR = 2


def prepare(means: Means, scope: Scope) -> Callable[[Task, Slot, int], int]:
    """Make everything that is alike for all shards of a stream. The result serves one, in a process of its own, until
    it is stopped, and returns the exit code; its last argument is the file that a SIGTERM arrives on."""
    import_for(scope.spec)
    try:
        stream = _Stream(means, scope, Templates(scope.spec), policy_of(scope.spec), Marks(scope.spec))
        Parser(scope.spec.max_message)
    except ValueError as error:
        return functools.partial(_unfit, means, str(error))
    return functools.partial(_serve, stream)


def rehearse() -> None:
    """Called by the fork server before it has children; see `rehearsal`."""
    rehearsal.rehearse(prepare)


@dataclass(frozen=True, slots=True)
class _Stream:
    means: Means
    scope: Scope
    templates: Templates
    policy: Policy
    marks: Marks


def _unfit(means: Means, reason: str, task: Task, slot: Slot, _wakeup_fd: int) -> int:
    Troubles(slot).end(reason)
    Log(means.write_log, task)("child.failed", "ERROR", reason=reason)
    return BAD_CONFIGURATION


def _serve(stream: _Stream, task: Task, slot: Slot, wakeup_fd: int) -> int:
    means = stream.means
    try:
        shard = _Shard(stream, task, slot, _made(means, stream.scope))
    except (BadHandler, BadSink, ValueError) as error:
        return _unfit(means, str(error), task, slot, wakeup_fd)
    try:
        return shard.run(wakeup_fd)
    except Exception as error:
        shard.troubles.end(in_words(error))
        raise
    except BaseException as error:  # of a handler, `SystemExit` for example; what is an Exception, `dispatch` takes
        shard.failed(f"the handler ended the process: {in_words(error)}")
        return FAILED


def _made(means: Means, scope: Scope) -> Handler | None:
    """None: the stream has no handler. Raises `BadHandler`, whatever its module or constructor raises."""
    try:
        kind = means.handler(scope)
        return kind() if kind else None
    except BadHandler:
        raise
    except BaseException as error:  # also `sys.exit` at import
        raise BadHandler(f"handler {scope.spec.handler} cannot be made: {in_words(error)}") from None


class _Shard:
    """The loop, and the home of its connections (see `home`)."""

    def __init__(self, stream: _Stream, task: Task, slot: Slot, handler: Handler | None) -> None:
        self.policy = stream.policy
        self.log = Log(stream.means.write_log, task)
        self.message_max_bytes = stream.scope.spec.max_message
        self.stopping = False
        self._asked_to_stop = False
        self._task, self._slot, self._words = task, slot, slot.words
        self._targets, self._means = Targets(stream.templates, task, os.environ), stream.means
        self._epoll = select.epoll()
        self._ready: dict[int, Callable[[int], object]] = {}  # by file: what to do when epoll reports events of it
        self._bell = Bell()
        self.troubles = Troubles(slot)
        self._outflow = self._begun_outflow(stream)
        self._checkpoint = Checkpoint(task, slot, self._outflow, self.log, stream.templates.carries)
        self._settled: deque[tuple[Connection, Attempt]] = deque()
        self._again: set[Link] = set()
        self.permissions = Permissions(slot.words, task.scope.spec.connect_rate, stream.means.parent_bell_fd)
        self._paused: dict[Link, None] = {}  # in the order in which they wait for room
        self._due_ns = 0
        self._status = STOPPED
        self._connections = [Connection(number, self) for number in range(stream.templates.connections)]
        self._handler = handler
        self._dispatch: Dispatch | None = None
        if handler is not None:
            self._dispatch = handler._outlet = self._dispatched(handler, stream.marks)
        reconnects, resumes = task.scope.spec.on_gap == "reconnect", stream.templates.resuming
        self._gaps = Gaps(slot, self.log, reconnects) if stream.marks.sequence else None
        self._intake = Intake(stream.marks, self._gaps, resumes, self._checkpoint, self._outflow, self._dispatch)

    def _begun_outflow(self, stream: _Stream) -> Outflow:
        """Raises `BadSink` or `BadHandler`."""
        task, slot = self._task, self._slot
        condition = Condition(slot, self.log, self.troubles)
        sink = stream.means.sink(task, condition)
        return Outflow(slot, sink, condition, self.log, task.scope.spec, self._bell, stream.marks)

    def _dispatched(self, handler: Handler, marks: Marks) -> Dispatch:
        failures = Failures(self.log, self._words, self.troubles, file_of(type(handler)))
        errors_max = self._task.scope.spec.handler_errors
        checkpoint = self._checkpoint
        token_of = (lambda seen: checkpoint.fitting(marks.token(seen))) if marks.checkpoint else None
        return Dispatch(handler, self._outflow, failures, self._address, errors_max, real_clock(), token_of)

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self, wakeup_fd: int) -> int:
        with self._epoll:
            self._listen(wakeup_fd, lambda _: self._awoken(wakeup_fd))
            self._outflow.asked_to_stop = lambda: self._awoken(wakeup_fd)
            self._listen(self._bell.fd, lambda _: self._bell.quiet())
            if not self._start():
                return FAILED
            while not self._ended:
                self._turn()
            self._hand_over_rest()
            return self._finish()

    def _listen(self, fd: int, ready: Callable[[int], object]) -> None:
        self._epoll.register(fd, select.EPOLLIN)
        self._ready[fd] = ready

    def _start(self) -> bool:
        task, words = self._task, self._words
        words[WANT] = len(self._connections)
        words[HEARTBEAT] = boottime_ns()
        if self._dispatch is not None and self._handler is not None:
            count = len(self._connections)
            told = ShardOfHandler(task.shard, task.scope.spec.stream, task.index, task.epoch, task.checkpoint, count)
            handler = self._handler
            if not self._dispatch.call(lambda: handler.start(told)):
                self.failed(f"the handler's start raised {self._raised}")
                return False
        words[STARTED] = words[HEARTBEAT] = boottime_ns()
        return True

    def _turn(self) -> None:
        now_ns = boottime_ns()
        self._words[HEARTBEAT] = now_ns
        handler_due_ns = NEVER_NS
        if self._dispatch is not None:
            handler_due_ns = self._dispatch.turn(now_ns)
            if self._dispatch.exhausted and not self.stopping:
                most = self._task.scope.spec.handler_errors
                self._fail(f"the handler raised {most} errors in a row, the last one {self._raised}")
            now_ns = boottime_ns()
        if now_ns >= self._due_ns:
            self._tick(now_ns)
        self._outflow.show(now_ns)
        # in each turn, not when they ring: whoever waited for room in the sink may have heard them instead
        if self._asked_to_stop:
            self._stop()
        if self._outflow.failure and not self.stopping:
            self._fail(f"the sink failed: {self._outflow.failure}")
        if self._paused:
            self._resume(now_ns)
        if self._ended:
            return
        wait_ns = 0 if self._again else min(min(self._due_ns, handler_due_ns) - now_ns, TURN_MAX_NS)
        for fd, events in self._epoll.poll(max(wait_ns, 0) / 1e9):
            if ready := self._ready.get(fd):  # none: it was closed by what another one had to say
                ready(events)
        if self._again:
            again, self._again = self._again, set()
            for link in again:
                link.readable()
        while self._settled:
            connection, attempt = self._settled.popleft()
            connection.settle(attempt, boottime_ns())
            self._checkpoint.tell()

    @property
    def _ended(self) -> bool:
        return self.stopping and all(connection.over for connection in self._connections)

    def _tick(self, now_ns: int) -> None:
        self._due_ns = NEVER_NS
        for connection in self._connections:
            if connection.due_ns <= now_ns:
                connection.tick(now_ns)
            self.wake_at(connection.due_ns)

    def _resume(self, now_ns: int) -> None:
        for link in list(self._paused):
            if not self._blocked(link):  # it may be again when the one before has read
                self._paused.pop(link, None)
                link.resume(now_ns)

    def _awoken(self, wakeup_fd: int) -> bool:
        """Whether this child was asked to stop, now or before; the next turn does so."""
        with contextlib.suppress(BlockingIOError):
            self._asked_to_stop |= signal.SIGTERM in os.read(wakeup_fd, 4096)
        return self._asked_to_stop

    # --- the end --------------------------------------------------------------------------------------------

    @property
    def _raised(self) -> str:
        """The handler's last error."""
        failure = self._dispatch.failure if self._dispatch else None
        return in_words(failure.error, file_of(type(self._handler))) if failure else "an error"

    def failed(self, reason: str) -> None:
        """The last words of this child."""
        self.troubles.end(reason)
        self.log("child.failed", "ERROR", reason=reason)

    def _fail(self, reason: str) -> None:
        self.failed(reason)
        self._status = FAILED
        self._stop()

    def _stop(self) -> None:
        if self.stopping:
            return
        self._outflow.leave()
        if self._dispatch is not None and self._handler is not None:
            self._dispatch.call(self._handler.stop)
        self.stopping = True
        now_ns = boottime_ns()
        for connection in self._connections:
            connection.stop(self._task.scope.spec.close_code, now_ns)

    def _hand_over_rest(self) -> None:
        """What was received before the end is the handler's, as long as that does not take too long."""
        if self._dispatch is None:
            return
        until_ns = boottime_ns() + HANDOVER_MAX_NS
        while (now_ns := boottime_ns()) < until_ns and not (self._dispatch.exhausted or self._outflow.failure):
            self._words[HEARTBEAT] = now_ns
            if self._dispatch.turn(now_ns):
                if not self._dispatch.unfinished:
                    return
                self._outflow.wait_for_room()
        if waiting := self._dispatch.waiting:  # what is left may also be the closing of a connection alone
            reason = f"not handed to the handler before the end, though received: {waiting} messages"
            self.log("child.failed", "ERROR", reason=reason)

    def _finish(self) -> int:
        self._outflow.finish()
        if self._outflow.away:
            reason = f"not all events are in the sink, for which a stop does not wait: {self._outflow.failure}"
            self.log("child.failed", "ERROR", reason=reason)
            return self._status
        if self._outflow.failure and self._status == STOPPED:
            self.failed(f"the sink failed: {self._outflow.failure}")
            return FAILED
        return self._status

    # --- for connections ------------------------------------------------------------------------------------

    def _address(self, number: int) -> tuple[str, dict[str, str]]:
        return self._targets.address(number, self._checkpoint.for_attempt(number))

    def target(self, connection: Connection) -> Target:
        number = connection.number
        checkpoint = self._checkpoint.for_attempt(number)
        headers: Mapping[str, str]
        if self._handler is None:
            url, headers = self._targets.address(number, checkpoint)
        else:
            url, headers = address_of(self._handler, connection)
        return self._targets.target(url, headers, number, checkpoint)

    def route(self, target: Target, deadline_ns: int) -> Route:
        return found(target, deadline_ns)

    def connect(self, route: Route, begin_by_ns: int) -> Opened | Route:
        return dial(route, lambda: self._means.context(self._task.scope), begin_by_ns)

    def settled(self, connection: Connection, attempt: Attempt) -> None:
        self._settled.append((connection, attempt))
        self._bell.ring()

    def watch(self, link: Link, sock: socket.socket, before: int, events: int) -> None:
        fd = sock.fileno()
        if not events:
            self._epoll.unregister(fd)
            del self._ready[fd]
        elif not before:
            self._epoll.register(fd, events)
            self._ready[fd] = link.ready
        else:
            self._epoll.modify(fd, events)

    def wake_at(self, due_ns: int) -> None:
        self._due_ns = min(self._due_ns, due_ns)

    def again(self, link: Link) -> None:
        self._again.add(link)

    def held(self, link: Link) -> bool:
        blocked = self._blocked(link)
        if blocked:
            self._paused.setdefault(link)
        return blocked

    def _blocked(self, link: Link) -> bool:
        return self._outflow.full or self.backlogged(link.connection)

    def backlogged(self, connection: Connection) -> bool:
        return self._dispatch is not None and self._dispatch.busy(connection)

    def count(self, word: int) -> None:
        self._words[word] += 1

    def opened(self, link: Link) -> None:
        self._words[CONNECTS] += 1
        if not link.connection.connected:  # else it is the one that replaces another
            self._words[OPEN] += 1
        if self._dispatch is not None:
            self._dispatch.opened(link.connection)

    def refused(self, connection: Connection, refusal: Refusal, checkpoint: str) -> None:
        if doubt.refuses(refusal):
            self._checkpoint.refused(connection.number, checkpoint, refusal.reason)
        else:
            self._checkpoint.passed(connection.number)

    def received(self, link: Link, messages: list[Message], size: int, now_ns: int) -> None:
        self._words[LAST_EVENT] = now_ns
        fault = self._intake.received(link, link.connection, messages, size, now_ns)
        if fault:
            link.close(End(UNSATISFIED, fault, discard=True), now_ns)

    def closed(self, link: Link, end: End) -> None:
        number = link.connection.number
        short = boottime_ns() - link.opened_ns < self.policy.stable_after_ns
        if end.theirs and not link.heard and short and doubt.closes(end.code):
            self._checkpoint.refused(number, link.checkpoint, end.reason)
        else:
            self._checkpoint.passed(number)
        if not link.connection.connected:
            self._words[OPEN] -= 1
        self._paused.pop(link, None)
        self._again.discard(link)
        if self._gaps is not None:
            self._gaps.closed(link)
        if self._dispatch is not None:
            self._dispatch.closed(link.connection, end.code, end.reason)
