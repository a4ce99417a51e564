"""A child's one loop: all connections of its shard in one thread, from the epoch's start to its end.

What holds:

- the loop turns at least twice a second and says so on the board; nothing that it calls waits, but a handler's methods
  and the sink behind a full queue;
- nothing is delivered at or after the deadline (see `delivery`); `seq` counts from 1 within the epoch;
- a byte of SIGTERM on the wake-up pipe stops: the handler is told, each open connection gets a close frame and a
  second to answer it, then what was received is handed over, the sink flushed and the last checkpoint written to the
  board. A sink that is away is tried three times more, at once, and not waited for.

It does not time its own stop: the parent kills what takes too long.
"""

from __future__ import annotations

import contextlib
import os
import signal

from workers.blame import file_of, in_words
from workers.board import HEARTBEAT, STARTED, WANT
from workers.handler import Shard
from workers.process.kernel import boottime_ns
from workers.stream.ground import Ground
from workers.stream.poller import NEVER_NS

STOPPED, FAILED = 0, 1
TURN_MAX_NS = 500_000_000
HANDOVER_MAX_NS = 2_000_000_000  # at a stop: for messages that the handler has not seen


class Loop:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._connections, self._dispatch, self._handler = ground.connections, ground.dispatch, ground.handler
        self._outflow, self._poller = ground.outflow, ground.poller
        self._task, self._words = ground.task, ground.words
        self._asked_to_stop = False
        self._wakeup_fd = -1
        self._status = STOPPED

    def run(self, wakeup_fd: int) -> int:
        """The exit code: `STOPPED` or `FAILED`."""
        bell = self._ground.bell
        with contextlib.closing(self._poller):
            self._wakeup_fd = wakeup_fd
            self._poller.listen(wakeup_fd, self._awoken)
            self._outflow.asked_to_stop = self._awoken
            self._poller.listen(bell.fd, bell.quiet)
            if not self._start():
                return FAILED
            while not self._ended:
                self._turn()
            self._hand_over_rest()
            return self._finish()

    def _start(self) -> bool:
        task, words = self._task, self._words
        words[WANT] = len(self._connections)
        words[HEARTBEAT] = boottime_ns()
        if self._dispatch is not None and self._handler is not None:
            count = len(self._connections)
            told = Shard(task.shard, task.scope.spec.stream, task.index, task.epoch, task.checkpoint, count)
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
            if self._dispatch.exhausted and not self._ground.stopping:
                most = self._task.scope.spec.handler_errors
                self._fail(f"the handler raised {most} errors in a row, the last one {self._raised}")
            now_ns = boottime_ns()
        if now_ns >= self._poller.due_ns:
            self._tick(now_ns)
        self._outflow.show(now_ns)
        # in each turn, not when they ring: whoever waited for room in the sink may have heard them instead
        if self._asked_to_stop:
            self._stop()
        if self._outflow.failure and not self._ground.stopping:
            self._fail(f"the sink failed: {self._outflow.failure}")
        self._ground.resume(now_ns)
        if self._ended:
            return
        self._poller.wait(min(min(self._poller.due_ns, handler_due_ns) - now_ns, TURN_MAX_NS))
        self._ground.settle_attempts()

    @property
    def _ended(self) -> bool:
        return self._ground.stopping and all(connection.over for connection in self._connections)

    def _tick(self, now_ns: int) -> None:
        self._poller.due_ns = NEVER_NS
        for connection in self._connections:
            if connection.due_ns <= now_ns:
                connection.tick(now_ns)
            self._poller.wake_at(connection.due_ns)

    def _awoken(self, _events: int = 0) -> bool:
        """Whether this child was asked to stop, now or before; the next turn does so."""
        with contextlib.suppress(BlockingIOError):
            self._asked_to_stop |= signal.SIGTERM in os.read(self._wakeup_fd, 4096)
        return self._asked_to_stop

    # --- the end --------------------------------------------------------------------------------------------

    @property
    def _raised(self) -> str:
        """The handler's last error."""
        failure = self._dispatch.failure if self._dispatch else None
        return in_words(failure.error, file_of(type(self._handler))) if failure else "an error"

    def failed(self, reason: str) -> None:
        """The last words of this child."""
        self._ground.troubles.end(reason)
        self._ground.log("child.failed", "ERROR", reason=reason)

    def _fail(self, reason: str) -> None:
        self.failed(reason)
        self._status = FAILED
        self._stop()

    def _stop(self) -> None:
        if self._ground.stopping:
            return
        self._outflow.leave()
        if self._dispatch is not None and self._handler is not None:
            self._dispatch.call(self._handler.stop)
        self._ground.stopping = True
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
            self._ground.log("child.failed", "ERROR", reason=reason)

    def _finish(self) -> int:
        self._outflow.finish()
        if self._outflow.away:
            reason = f"not all events are in the sink, for which a stop does not wait: {self._outflow.failure}"
            self._ground.log("child.failed", "ERROR", reason=reason)
            return self._status
        if self._outflow.failure and self._status == STOPPED:
            self.failed(f"the sink failed: {self._outflow.failure}")
            return FAILED
        return self._status
