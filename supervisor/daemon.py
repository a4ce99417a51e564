"""`tenured run`: the thin shell around the lease set, and the only loop.

It turns what happens (answers, deaths, signals, time) into events, lets the steps decide (see `stepping`), and carries
the effects out in their order. It decides nothing about leases itself. What holds: a `Kill` is one system call within
the step that decided it; a step that fails for any reason kills every child first and ends the process with 70.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from supervisor import control, exits, health, incarnations, lock, place, rules
from supervisor.clock import moment
from supervisor.configuration.settings import Settings
from supervisor.core import model
from supervisor.core.model import Moment
from supervisor.core.state import State, begin
from supervisor.courier import Courier
from supervisor.journal import Journal
from supervisor.metrics.metrics import Metrics
from supervisor.notify import Notifier
from supervisor.processes import child_events
from supervisor.processes.children import Children
from supervisor.reloader import Reloader
from supervisor.serving import endpoint
from supervisor.serving.glance import Glance
from supervisor.signals import Signals
from supervisor.stepping import Stepping
from supervisor.stops import Stops
from supervisor.stores.interface import Store
from supervisor.tasks import task_for
from supervisor.witness import Witness
from workers.board import Board
from workers.process.kernel import boottime_ns
from workers.texts import printable
from workers.websocket.tls import profile_of

STATUS_EVERY_S = 1.0


def new_id(now: Moment) -> str:
    """`host:pid:random`, new at every start: neither a host's name nor a pid identifies anybody in containers."""
    return f"{socket.gethostname()}:{os.getpid()}:{now.nonce('id')}"


class Daemon:
    """One run, from the lock to the exit code."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        held: lock.Lock,
        record: incarnations.Record,
        where: place.Place,
        notifier: Notifier,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        now = moment()
        me = new_id(now)
        self.settings = settings
        self._place = where
        self._notifier = notifier
        self._loop = loop
        self._store = store
        self._metrics = Metrics(version("tenured"))
        self._journal = Journal(me, settings.log_level, sys.stderr)
        self._record = record
        dead = self._dead()
        self._remember([*dead, me])  # before the first claim
        state = begin(self._rules(), me, now.boot_ns, frozenset(dead))
        self._steps = Stepping(state, loop, self._perform, self._stepped, self._tick, self._break)
        self._stops = Stops()
        self._witness = Witness(self._journal, self._metrics, lambda: rules.code_of(self.settings))
        self._outdated: frozenset[str] = frozenset()  # shards whose children are to be replaced, and are not yet
        self._exit: asyncio.Future[tuple[int, str]] = loop.create_future()
        self._reloader = Reloader(self, self._journal, notifier)
        self._courier = Courier(store, settings.call_timeout_ms / 1000, loop, self._feed, self._unfit)
        self._children = Children(
            Board.create(),
            held.fd,
            self._hear,
            loop,
            environment=os.environ,
            start_budget_s=settings.start_timeout_ms / 1000,
        )

    async def run(self, warnings: Sequence[str]) -> int:
        """The exit code, once everything is over and every child is dead."""
        signals = Signals(
            self._loop,
            {
                signal.SIGTERM: self._obey,
                signal.SIGINT: self._obey,
                signal.SIGHUP: self._reloader.request,
                signal.SIGCHLD: self._children.reap,
            },
        )
        try:
            return await self._run(warnings)
        finally:
            signals.close()

    async def _run(self, warnings: Sequence[str]) -> int:
        requests = await control.serve(self.settings.run_dir, {"health": self._health, "drain": self._drain})
        http = None
        try:
            http = self._serve_http()
            code, reason = await self._serve(warnings)
        finally:
            self._reloader.close()
            dead = self._children.close()
            await requests.close()
            if http is not None:
                await asyncio.to_thread(http.close)
            self._courier.close()
            self._notifier.close()
        level = "info" if code == exits.OK else "error"
        self._journal.write(level, "supervisor.stopped", reason=reason, code=code, left_children=None if dead else True)
        self._journal.close()
        return code

    async def _serve(self, warnings: Sequence[str]) -> tuple[int, str]:
        self._journal.capture()
        self._journal.write(
            "info", "supervisor.started", store=self._store.url, fleet=self.settings.fleet, pid=os.getpid()
        )
        for warning in warnings:
            self._journal.write("warning", "config.warning", reason=warning)
        self._prepare()
        self._notifier.ready(self.describe())
        self._watch()
        return await self._exit

    def _serve_http(self) -> endpoint.Endpoint | None:
        settings = self.settings
        if settings.http is None:
            return None
        glance = Glance(self._loop, self._health, self._courier.look, self._metrics.render, settings.fleet)
        return endpoint.serve(settings.http, settings.http_hosts, glance)

    def _dead(self) -> Sequence[str]:
        try:
            return self._record.dead()
        except incarnations.Unusable as error:
            self._journal.write("warning", "config.warning", reason=str(error))
            return ()

    def _remember(self, ids: Sequence[str]) -> None:
        try:
            self._record.write(ids)
        except incarnations.Unusable as error:
            self._journal.write("warning", "config.warning", reason=str(error))

    def _prepare(self) -> None:
        streams = self.settings.streams
        self._children.prepare(
            rules.code_of(self.settings),
            [profile_of(stream.spec) for stream in streams],
            self.settings.python_path,
            str(self.settings.base),
        )

    # --- events and effects -------------------------------------------------------------------------------

    @property
    def _state(self) -> State:
        return self._steps.state

    def _feed(self, event: model.Event, at_ns: int) -> None:
        self._steps.feed(event, at_ns)

    def _stepped(self, event: model.Event, effects: model.Effects, now_ns: int) -> None:
        self._metrics.stepped(self._state, now_ns)
        self._metrics.heard(event)
        for effect in effects:
            self._metrics.performed(effect)
        if isinstance(event, model.Proved):
            # All libraries are loaded, and nothing is owned yet. To look through them for garbage again and again would
            # hold the loop up for a tenth of a second, in which a child that has to die lives on.
            gc.freeze()
        if self._journal.supervisor != self._state.me:
            # A copy of ourselves lives on under the old id: no later incarnation may take that for dead.
            self._remember([self._state.me])
            self._journal.supervisor = self._state.me

    def _perform(self, effect: model.Effect, now: Moment, at_ns: int) -> None:
        match effect:
            case model.Kill(shard, epoch, reason):
                self._children.kill(shard, epoch)
                self._witness.kills(shard, epoch, reason, at_ns)
            case model.Extend(shard, epoch, deadline_ns):
                self._children.extend(shard, epoch, deadline_ns)
            case model.Renewals(writes, within_ns):
                self._courier.renew(writes, within_ns / 1e9)
            case model.Apply(write):
                self._courier.apply(write)
            case model.Read(shard):
                self._courier.read(shard, now.boot_ns)
            case model.TakeSnapshot():
                self._courier.snapshot(now.boot_ns, first=self._state.stage == "looking")
            case model.Prove(member):
                self._courier.prove(member)
            case model.Start():
                self._start(effect)
            case model.Stop(shard, epoch, _):
                self._children.stop(shard, epoch)
            case model.Log(level, event, shard, epoch, reason):
                self._journal.write(level, event, shard=shard or None, epoch=epoch or None, reason=reason or None)
            case model.Exit(code, reason):
                self._finish(code, reason)

    def _start(self, start: model.Start) -> None:
        stream = self.settings.shards[start.shard]
        task = task_for(self.settings, stream, start, self._state.me, self._state.rules.host, os.environ)
        self._children.start(task, start.deadline_ns)

    def _tick(self) -> None:
        reports = self._children.reports()
        servers, dropped = len(self._children.server_pids), self._journal.dropped
        self._metrics.reported(reports, self._courier.stuck, servers, dropped)
        self._feed(model.Ticked(reports), boottime_ns())

    # --- children -----------------------------------------------------------------------------------------

    def _hear(self, event: child_events.ChildEvent) -> None:
        if isinstance(event, child_events.Ready):
            self._steps.begin()  # by the first of them: who cannot run a child yet must not claim a shard
        elif ended := self._witness.heard(event):
            exited, at_ns = ended
            self._feed(exited, at_ns or boottime_ns())
        self._replace()

    # --- a new configuration ------------------------------------------------------------------------------

    def reconfigure(self, settings: Settings) -> None:
        """Go on with these settings; children whose shard changed are replaced, one at a time."""
        old, self.settings = self.settings, settings
        self._journal.least(settings.log_level)
        self._courier.attempt_s = settings.call_timeout_ms / 1000
        self._children.start_budget_s = settings.start_timeout_ms / 1000
        self._prepare()
        self._outdated |= rules.outdated(old, settings) | self._children.crowding()
        self._feed(model.Reconfigured(self._rules()), boottime_ns())
        self._replace()

    def _replace(self) -> None:
        """Outdated children go on until the fork server that is to make their successors has imported everything."""
        if self._outdated and not self._children.preparing:
            outdated, self._outdated = self._outdated, frozenset()
            self._feed(model.Outdated(outdated), boottime_ns())

    def reject(self, reason: str) -> None:
        """Go on as before, and let the fleet know."""
        self._feed(model.ReloadRejected(reason), boottime_ns())

    @property
    def stopping(self) -> bool:
        return self._state.drain is not None

    def describe(self) -> str:
        return health.line(self._state)

    def _rules(self) -> model.Rules:
        return rules.rules_of(self.settings, self._place, version("tenured"))

    # --- the watchdog -------------------------------------------------------------------------------------

    def _watch(self, due_s: float = 0.0) -> None:
        """Tell systemd again and again that we are alive, unless the renewals stand still. The timeout follows the
        leases, not the configuration: after a reload they keep their durations until they are claimed again."""
        now_ns, now_s = boottime_ns(), self._loop.time()
        if due_s:
            self._metrics.loop_lag(now_s - due_s)
        self._notifier.watch(self._state.shortest_ns / 1e9)
        if health.progresses(self._state, self._courier.oldest_renewal_ns, now_ns):
            self._notifier.alive()
        self._notifier.status(self.describe(), now_ns)
        next_s = now_s + (self._notifier.watchdog_every_s or STATUS_EVERY_S)
        self._loop.call_at(next_s, self._watch, next_s)

    # --- ends ---------------------------------------------------------------------------------------------

    def _obey(self) -> None:
        """A signal to stop: the first one asks, another one hurries."""
        if self._stops.signalled(self._loop.time()):
            self._stop()

    def _stop(self) -> None:
        self._notifier.stopping(self.settings.stop_timeout_ms / 1000)
        self._feed(model.StopRequested(), boottime_ns())

    def _unfit(self, sentence: str) -> None:
        self._finish(exits.STORE, sentence)

    def _break(self, error: Exception) -> None:
        """An invariant broke. Nothing that we know can be relied on, so that everything dies before we speak."""
        self._children.close()
        self._finish(exits.INVARIANT, f"an invariant broke: {type(error).__name__}: {error}")

    def _finish(self, code: int, reason: str) -> None:
        self._steps.end()
        if not self._exit.done():
            self._exit.set_result((code, reason))
        if code not in (exits.OK, exits.UNRELEASED):
            print(f"tenured: {printable(reason)}", file=sys.stderr)

    def _health(self, _request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return health.health(self._state, self._courier.stuck, self._children.reports())

    def _drain(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        """As the first SIGTERM; asking again does not hurry it."""
        if self._state.drain is None:
            self._stops.drained()
            self._stop()
        return {**self._health(), "pid": os.getpid()}
