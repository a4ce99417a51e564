"""When a link heard and said what, and what that asks for (see `session`): the memory of its watching.

What holds: any byte is life; a ping is answered by whatever comes after it; a frame that is under way has its time from
its begin, however its bytes trickle, and silence of data its time from the last message.
"""

from __future__ import annotations

from workers.stream import session
from workers.stream.session import NEVER_NS, Dead, Idle, Policy, Probe, Timing, Wait


class Vigil:
    """`data_ns`: of the last message, 0 before the first. `idle`: its silence was told."""

    __slots__ = ("_frame_ns", "_heard_ns", "_opened_ns", "_pinged_ns", "_policy", "_ponged_ns", "data_ns", "idle")

    def __init__(self, policy: Policy, now_ns: int) -> None:
        """The link is open."""
        self._policy = policy
        self._opened_ns = self._heard_ns = now_ns
        self._pinged_ns = self._ponged_ns = self._frame_ns = 0
        self.data_ns = 0
        self.idle = False

    @property
    def first_ns(self) -> int:
        """When there is something to `step` to at the earliest."""
        policy = self._policy
        return self._opened_ns + min(policy.ping_interval_ns, policy.idle_timeout_ns or policy.ping_interval_ns)

    def heard(self, begun: bool, advanced: bool, now_ns: int) -> int:
        """Bytes, after which a frame is incomplete (`begun`), or not; `advanced`: one was completed. When to `step`."""
        self._heard_ns = now_ns
        until_ns = NEVER_NS
        if self._pinged_ns:  # the answer, so the next silence begins
            self._pinged_ns = 0
            until_ns = now_ns + self._policy.ping_interval_ns
        if not begun:
            self._frame_ns = 0
        elif advanced or not self._frame_ns:
            self._frame_ns = now_ns
            until_ns = min(until_ns, now_ns + self._policy.frame_timeout_ns)
        return until_ns

    def spoke(self, now_ns: int) -> bool:
        """Messages. Whether that ends a silence that was told."""
        self.data_ns = now_ns
        ended, self.idle = self.idle, False
        return ended

    def step(self, now_ns: int) -> Wait | Probe | Idle | Dead:
        """What is to be done now; it counts as done."""
        data_ns = self.data_ns or self._opened_ns
        timing = Timing(self._heard_ns, data_ns, self._pinged_ns, self._frame_ns, self.idle)
        step = session.watch(self._policy, timing, now_ns)
        if isinstance(step, Probe):
            self._pinged_ns = now_ns
        elif isinstance(step, Idle):
            self.idle = True
        return step

    def pong_ns(self) -> int:
        """While nothing is read: when the peer should hear from us."""
        return max(self._ponged_ns, self._heard_ns) + self._policy.ping_interval_ns

    def ponged(self, now_ns: int) -> None:
        self._ponged_ns = now_ns
