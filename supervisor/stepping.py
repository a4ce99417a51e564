"""One step after the other: what happened goes into the lease set, and what that decides is carried out.

What holds: steps never overlap, and an event that comes while effects are carried out waits for its turn; there is a
tick when the state says that time alone changes something, from `begin` on; an exception of a step, of an effect, or of
the question what is due next, is the last thing that happens, as nothing that is known can be relied on after it. The
clock is read here, once a step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from supervisor.clock import moment
from supervisor.core import leaseset
from supervisor.core.model import Effect, Effects, Event, Moment
from supervisor.core.state import State
from workers.process.kernel import boottime_ns


class Stepping:
    """`perform` carries out an effect; its last argument is when the cause of the step was complete, for latencies.
    `stepped` hears of each step behind its effects, `broke` of the exception that ended them."""

    def __init__(
        self,
        state: State,
        loop: asyncio.AbstractEventLoop,
        perform: Callable[[Effect, Moment, int], None],
        stepped: Callable[[Event, Effects, int], None],
        tick: Callable[[], None],
        broke: Callable[[Exception], None],
    ) -> None:
        self.state = state
        self._loop = loop
        self._perform, self._stepped, self._tick, self._broke = perform, stepped, tick, broke
        self._events: deque[tuple[Event, int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._begun = self._ended = self._busy = False
        self._planned = False  # the timer is set anew before the loop rests

    def begin(self) -> None:
        self._begun = True
        self._tick()

    def end(self) -> None:
        """No step begins any more."""
        self._ended = True

    def feed(self, event: Event, at_ns: int) -> None:
        """Step, and carry out what follows; `at_ns` is when the event's cause was complete."""
        self._events.append((event, at_ns))
        if self._busy or self._ended:
            return
        self._busy = True
        try:
            while self._events:
                self._step(*self._events.popleft())
        except Exception as error:
            self._broke(error)
            return
        finally:
            self._busy = False
        self._plan()

    def _step(self, event: Event, at_ns: int) -> None:
        now = moment()
        self.state, effects = leaseset.step(self.state, event, now)
        for effect in effects:
            self._perform(effect, now, at_ns or now.boot_ns)
        self._stepped(event, effects, now.boot_ns)

    def _plan(self) -> None:
        """Once in a turn of the loop: to find what is due next looks at every shard, and an answer to a batch of
        renewals is 25 steps."""
        if not self._planned:
            self._planned = True
            self._loop.call_soon(self._set_timer)

    def _set_timer(self) -> None:
        self._planned = False
        if self._timer is not None:
            self._timer.cancel()
        if not self._begun or self._ended:
            return
        try:
            due_ns = leaseset.due_ns(self.state)
        except Exception as error:
            self._broke(error)
            return
        self._timer = self._loop.call_later(max(0, due_ns - boottime_ns()) / 1e9, self._tick)
