"""Reaping what became ours because its parent died, without taking a status that a library waits for.

A supervisor adopts the orphans among its descendants, and as process 1 all of its container. It also has children of
its own making (the fork server, a credential process of the AWS library), each waited for by whoever made it. Every
dead process is looked at before it is reaped: one in another session than ours is an orphan, since each child of
the fork server leads its own; one in our session is left to its maker for a while first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

GRACE_NS = 10_000_000_000


class Undertaker:
    """`reap` at every SIGCHLD, and again after `GRACE_NS` when it answers True."""

    def __init__(self) -> None:
        self._left: tuple[int, int] | None = None  # the pid of a dead process left to its maker, and since when

    def reap(self, mine: Callable[[int], bool], now_ns: int) -> bool:
        """Reap the dead that are not `mine`. True: one was left to its maker, and hides whatever died after it."""
        with contextlib.suppress(ChildProcessError):  # no child is left, or the maker was faster
            while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if mine(dead.si_pid):
                    return False  # whoever handles its death calls again
                if os.getsid(dead.si_pid) == os.getsid(0) and self._wait_for_maker(dead.si_pid, now_ns):
                    return True
                os.waitid(os.P_PID, dead.si_pid, os.WEXITED)
        self._left = None
        return False

    def _wait_for_maker(self, pid: int, now_ns: int) -> bool:
        if self._left is None or self._left[0] != pid:
            self._left = (pid, now_ns)
        return now_ns - self._left[1] < GRACE_NS
