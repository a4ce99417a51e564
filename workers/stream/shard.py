"""What serves a shard, from what is alike for all shards of its stream to the exit code of one child.

Exit codes: 0 stopped as asked; 1 the handler or the sink failed; 3 the deadline passed; 78 the task cannot be done
as it is configured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from workers.blame import in_words
from workers.board import Slot
from workers.handler import BadHandler, Handler
from workers.log import Log
from workers.process import rehearsal
from workers.process.means import Means
from workers.resuming.marks import Marks
from workers.sinks.interface import BadSink
from workers.spec import Scope, Task
from workers.stream.ground import Ground, Stream
from workers.stream.loop import FAILED, Loop
from workers.stream.session import policy_of
from workers.stream.target import Templates
from workers.troubles import Troubles
from workers.websocket.dial import import_for
from workers.websocket.parser import Parser

BAD_CONFIGURATION = 78


def prepare(means: Means, scope: Scope) -> Callable[[Task, Slot, int], int]:
    """Make everything that is alike for all shards of a stream. The result serves one, in a process of its own, until
    it is stopped, and returns the exit code; its last argument is the file that a SIGTERM arrives on."""
    import_for(scope.spec)
    try:
        stream = Stream(means, scope, Templates(scope.spec), policy_of(scope.spec), Marks(scope.spec))
        Parser(scope.spec.max_message)
    except ValueError as error:
        return functools.partial(_unfit, means, str(error))
    return functools.partial(_serve, stream)


def rehearse() -> None:
    """Called by the fork server before it has children; see `rehearsal`."""
    rehearsal.rehearse(prepare)


def _unfit(means: Means, reason: str, task: Task, slot: Slot, _wakeup_fd: int) -> int:
    Troubles(slot).end(reason)
    Log(means.write_log, task)("child.failed", "ERROR", reason=reason)
    return BAD_CONFIGURATION


def _serve(stream: Stream, task: Task, slot: Slot, wakeup_fd: int) -> int:
    means = stream.means
    try:
        loop = Loop(Ground(stream, task, slot, _made(means, stream.scope)))
    except (BadHandler, BadSink, ValueError) as error:
        return _unfit(means, str(error), task, slot, wakeup_fd)
    try:
        return loop.run(wakeup_fd)
    except Exception as error:
        Troubles(slot).end(in_words(error))
        raise
    except BaseException as error:  # of a handler, `SystemExit` for example; what is an Exception, `dispatch` takes
        loop.failed(f"the handler ended the process: {in_words(error)}")
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
