"""One connection of a shard, whatever socket it has at the moment: when it is opened, retried, replaced.

    waiting -> finding a route -> standing in line -> asking for permission -> dialing -> (a link) -> waiting ...

With `max_age` a second link opens before the first one goes.

What holds:

- nothing here waits: finding, asking and dialing happen elsewhere, every state has a due time with a way out, or gets a
  turn; the question is asked again until it is answered;
- a reconnect is a due time, never a call from inside another one; so is each question whether it may begin;
- the permission to connect is the last thing that an attempt gets, so that a target or a name that takes long uses none
  up; what was found waits for it, as long as its host does not ask us to stay away, and a link that it is to replace
  has not ended: a plain reconnect goes on from the newest checkpoint;
- a replacement that fails leaves the link that there is alone, and is tried again after the usual backoff. The old link
  is closed only when the new one delivers, or had its time to (see `session`); until then both deliver;
- what is sent goes to the newest link that is open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from workers.chance import chance
from workers.process.kernel import boottime_ns
from workers.stream import session
from workers.stream.farewell import End
from workers.stream.home import Home
from workers.stream.link import Link
from workers.stream.question import Question
from workers.stream.session import Refusal, Retry
from workers.stream.target import Target, shown
from workers.websocket import outgoing
from workers.websocket.attempt import STUCK_MAX, Attempt
from workers.websocket.dial import Opened
from workers.websocket.frames import Message
from workers.websocket.route import Route

NEVER_NS = 2**63 - 1
_BACKLOG_PAUSE_NS = 10_000_000
_SETTLE_LOOK_NS = 250_000_000
_ATTEMPT_SLACK_NS = 500_000_000  # an attempt keeps its timeout itself, begins later, and knows what it waited for


class Connection:
    """`due_ns` is when `tick` has something to do. Handlers use `number`, `send` and `close`."""

    __slots__ = (
        "_attempt", "_due_ns", "_home", "_host", "_links", "_question", "_retires_ns", "_retry", "_route", "_stopped",
        "_stuck", "_troubled", "_url", "number",
    )  # fmt: skip

    def __init__(self, number: int, home: Home) -> None:
        self.number = number
        self._home = home
        self._retry = Retry()
        self._attempt: Attempt | None = None
        self._route: Route | None = None  # that stands in line
        self._question: Question | None = None  # of an attempt that has no permission yet
        self._stuck: list[Attempt] = []
        self._links: list[Link] = []  # the newest is the last
        self._due_ns = 0  # of what is no link's: an attempt, its end, a replacement
        self._retires_ns = NEVER_NS
        self._host = self._url = ""
        self._stopped = self._troubled = False

    # --- for handlers ---------------------------------------------------------------------------------------

    def send(self, data: Message) -> bool:
        for link in reversed(self._links):
            if link.open:
                return link.send(data)
        return False

    def close(self, code: int = 1000) -> None:
        outgoing.check_code(code)
        self._close_links(End(code, "closed by the handler"), boottime_ns())

    # --- for the loop ---------------------------------------------------------------------------------------

    @property
    def due_ns(self) -> int:
        due_ns = self._due_ns
        for link in self._links:
            due_ns = min(due_ns, link.due_ns)
        return due_ns

    @property
    def connected(self) -> bool:
        return bool(self._links)

    @property
    def over(self) -> bool:
        """It was stopped, and nothing is left of it."""
        return self._stopped and not self._links

    def tick(self, now_ns: int) -> None:
        """Something is due."""
        for link in list(self._links):
            if link.due_ns <= now_ns:
                link.tick(now_ns)
        if self._due_ns > now_ns:
            return
        if self._attempt is not None:
            self._give_up_attempt()
            self._refused(Refusal("no connection in time: resolution or target() took too long"), now_ns)
        elif len(self._links) > 1:
            self._settle_replacement(now_ns)
        elif self._links and not self._links[0].open:
            self._drop_route()
            self._due_ns = NEVER_NS  # its end says when to try again
        elif self._route is None:
            self._find_route(now_ns)
        elif held_ns := self._home.permissions.held_until(self._host, now_ns):  # known only now: a target may change
            self._drop_route()
            self._set_due(held_ns)
        else:
            self._follow(self._route, now_ns)

    def stop(self, code: int, now_ns: int) -> None:
        """The shard stops: say good-bye, or just end."""
        self._stopped = True
        self._due_ns = NEVER_NS
        self._drop_route()
        self._give_up_attempt()
        self._close_links(End(code, "stopped"), now_ns)

    def silent(self, link: Link, reason: str) -> None:
        """No data for too long; on an old link that is no trouble while its replacement delivers."""
        if self._links[-1] is link:
            self.set_trouble(reason)

    def set_trouble(self, text: str) -> None:
        self._troubled = True
        self._home.troubles.set(f"connection {self.number}", text)

    def clear_trouble(self) -> None:
        if self._troubled:
            self._troubled = False
            self._home.troubles.clear(f"connection {self.number}")

    def _set_due(self, due_ns: int) -> None:
        self._due_ns = due_ns
        self._home.wake_at(due_ns)

    # --- attempts -------------------------------------------------------------------------------------------

    def _find_route(self, now_ns: int) -> None:
        home = self._home
        if not self._links and home.backlogged(self):
            return self._set_due(now_ns + _BACKLOG_PAUSE_NS)
        self._retry = session.begun(self._retry, now_ns)
        if self._stuck:
            self._stuck = [attempt for attempt in self._stuck if attempt.stuck]
        if len(self._stuck) >= STUCK_MAX:
            return self._refused(Refusal(f"{len(self._stuck)} earlier attempts still hang"), now_ns)
        deadline_ns = now_ns + home.policy.connect_timeout_ns
        self._begin(
            partial(home.target, self), lambda target: home.route(target, deadline_ns), deadline_ns + _ATTEMPT_SLACK_NS
        )
        return None

    def _follow(self, route: Route, now_ns: int) -> None:
        permissions = self._home.permissions
        if not permissions.needed:
            due_ns = now_ns + route.left_ns + _ATTEMPT_SLACK_NS
            self._begin(lambda: route.target, lambda _: self._home.connect(route, NEVER_NS), due_ns)
        elif question := permissions.ask(self):
            self._question = question
            self._begin(lambda: route.target, lambda _: self._connect_when_permitted(question, route), NEVER_NS)
        else:
            self._due_ns = NEVER_NS
            return
        self._route = None

    def _connect_when_permitted(self, question: Question, route: Route) -> Opened | Route:
        """In the thread of the attempt: the loop may be in a handler's method until the permission has run out."""
        by_ns = question.wait()
        if not by_ns or self._home.permissions.held_until(self._host, boottime_ns()):
            return route
        self._home.tell(partial(self._permitted, question, route.left_ns))
        return self._home.connect(route, by_ns)

    def _permitted(self, question: Question, left_ns: int, now_ns: int) -> None:
        """It dials by now; whoever stands behind it may ask."""
        if question is self._question:
            self._question = None
            self._home.permissions.leave(self)
            self._set_due(now_ns + left_ns + _ATTEMPT_SLACK_NS)

    def _begin(self, make: Callable[[], Target], go: Callable[[Target], Opened | Route], due_ns: int) -> None:
        self._set_due(due_ns)
        self._attempt = Attempt(make, go, lambda attempt: self._home.tell(partial(self.settle, attempt)))

    def take_turn(self) -> None:
        """It is the first in line."""
        self._set_due(0)

    def _drop_route(self) -> None:
        """And its place in line, or the attempt that has no permission yet."""
        self._route = None
        if self._question is not None:
            self._give_up_attempt()
        self._home.permissions.leave(self)

    def _give_up_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.abandon()
            self._stuck.append(self._attempt)
            self._attempt = self._question = None

    def settle(self, attempt: Attempt, now_ns: int) -> None:
        """An attempt has its outcome; one that was given up has no say."""
        if attempt is not self._attempt:
            return
        self._attempt = self._question = None
        self._home.permissions.leave(self)
        if attempt.target is not None:
            self._url = shown(attempt.target.url)
            self._host = self._url.partition("://")[2]
        if isinstance(attempt.outcome, Opened):
            self._open(attempt.outcome, now_ns)
        elif isinstance(attempt.outcome, Route):
            self._route = attempt.outcome
            self._set_due(now_ns)
        elif attempt.outcome is not None:
            self._refused(attempt.outcome, now_ns, attempt.target.checkpoint if attempt.target else "")

    def _refused(self, refusal: Refusal, now_ns: int, checkpoint: str = "") -> None:
        """An attempt failed, which asked to go on from that checkpoint."""
        self._home.refused(self, refusal, checkpoint)
        self._log_closed(None, refusal.reason, self._retry_later(refusal, now_ns), refusal.permanent)

    def _retry_later(self, refusal: Refusal, now_ns: int) -> int:
        """An attempt failed, or a link ended: how long until the next attempt."""
        self._retry, until_ns = session.failed(self._home.policy, self._retry, refusal, now_ns, chance())
        if refusal.floor_s:
            self._home.permissions.refuse(self._host, now_ns + int(refusal.floor_s * 1e9), now_ns)
        self._drop_route()
        self._set_due(until_ns)
        what = "its replacement failed: " if self._links else ""
        self.set_trouble(f"{what}{refusal.brief or refusal.reason}{' (permanent)' if refusal.permanent else ''}")
        return max(until_ns - now_ns, 1)

    def _log_closed(self, code: int | None, reason: str, wait_ns: int, permanent: bool = False) -> None:
        """`wait_ns`: how long until the next attempt; 0: there is none to wait for."""
        level = "ERROR" if permanent else "WARNING" if wait_ns else "INFO"
        retry_ms = wait_ns // 1_000_000 if wait_ns else None
        fields = {"url": self._url or None, "code": code, "retry_ms": retry_ms, "permanent": permanent or None}
        self._home.log("connection.closed", level, connection=self.number, reason=reason, **fields)

    # --- links ----------------------------------------------------------------------------------------------

    def _open(self, opened: Opened, now_ns: int) -> None:
        link = Link(self, self._home, opened, now_ns)
        self._home.opened(link)
        self._links.append(link)
        if self._home.policy.max_age_ns:
            self._retires_ns = session.retires_ns(self._home.policy, now_ns, chance())
        self._set_due(self._retires_ns if len(self._links) == 1 else now_ns + _SETTLE_LOOK_NS)
        self.clear_trouble()
        self._home.log("connection.opened", connection=self.number, url=self._url)
        link.begin(opened, now_ns)

    def _settle_replacement(self, now_ns: int) -> None:
        """There is an older link: is it time for it to go?"""
        newest, older = self._links[-1], self._links[:-1]
        if newest.open and session.took_over(newest.subscribed_ns, newest.data_ns, now_ns):
            for link in older:
                link.close(End(self._home.policy.close_code, "replaced by a new one"), now_ns)
            self._set_due(max(self._retires_ns, now_ns + _SETTLE_LOOK_NS))
        else:
            self._set_due(now_ns + _SETTLE_LOOK_NS)

    def _close_links(self, end: End, now_ns: int) -> None:
        for link in list(self._links):
            link.close(end, now_ns)

    def ended(self, link: Link, end: End, now_ns: int) -> None:
        """The socket of a link is closed."""
        newest, wait_ns = self._links[-1] is link, 0
        self._links.remove(link)
        if newest and not self._stopped and (self._attempt is None or self._question):
            self._retry = session.ended(self._home.policy, link.opened_ns, self._retry, now_ns)
            wait_ns = self._retry_later(Refusal(end.reason, brief=end.brief), now_ns)
        elif not newest:
            if not self._links[-1].idle:
                self.clear_trouble()
            if len(self._links) == 1 and self._attempt is None:
                self._set_due(self._retires_ns)  # the replacement is alone now, and its age begins
        self._log_closed(end.code, end.reason, wait_ns)
        self._home.closed(link, end)
