"""One step of an attempt to connect, in a thread of its own: finding the way (`route`), or going it (`dial`).

What holds: the loop never waits for an attempt. It abandons one soon after the connect timeout; what an abandoned
attempt still achieves is closed by its thread. Only name resolution and a handler's `target` can keep a thread longer
than that, and a connection with `STUCK_MAX` such threads starts no further one.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable

from workers.stream.session import Refusal
from workers.stream.target import Target
from workers.template import TemplateError
from workers.websocket.cause import without_source
from workers.websocket.dial import Opened
from workers.websocket.route import Route
from workers.websocket.upgrade import Refused

STUCK_MAX = 2

Outcome = Opened | Route | Refusal  # a route: the way is found, and it has yet to be gone


class Attempt:
    """`make` computes the target and `go` does the rest, both in the thread; then `done` is called there."""

    __slots__ = ("_abandoned", "_lock", "outcome", "stuck", "target")

    def __init__(
        self, make: Callable[[], Target], go: Callable[[Target], Opened | Route], done: Callable[[Attempt], None]
    ) -> None:
        self.outcome: Outcome | None = None
        self.target: Target | None = None
        self._abandoned = False
        self._lock = _thread.allocate_lock()
        self.stuck = True  # the thread has not ended
        # not `threading`, for the same reason as in `fence`; nothing that `_run` does leaves an exception uncaught
        _thread.start_new_thread(self._run, (make, go, done))

    def abandon(self) -> None:
        """The outcome is not wanted any more."""
        with self._lock:
            self._abandoned = True
            if isinstance(self.outcome, Opened):
                self.outcome.sock.close()

    def _run(
        self, make: Callable[[], Target], go: Callable[[Target], Opened | Route], done: Callable[[Attempt], None]
    ) -> None:
        outcome: Outcome
        try:
            self.target = make()
            outcome = go(self.target)
        except Refused as error:
            outcome = error.refusal
        except TemplateError as error:
            outcome = Refusal(str(error))
        except BaseException as error:  # of a template, of a handler's target, of a library: the loop must hear of it
            what = f"the attempt failed: {type(error).__name__}"
            outcome = Refusal(f"{what}: {without_source(str(error))}", brief=what)
        with self._lock:
            self.outcome = outcome
            if self._abandoned and isinstance(outcome, Opened):
                outcome.sock.close()
        self.stuck = False
        done(self)
