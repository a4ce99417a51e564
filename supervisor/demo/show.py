"""`tenured demo`: real supervisors share shards, one of them is killed, the others take over, and a verdict is read.

What holds: it ends by itself within 60 s; it exits 1 if a promise was broken or the show did not reach its end; it
ends every process that it started by its pid, also when it is interrupted, and removes its folder. With `--store`
the rows of its shards stay in that store, free, because nothing but an operator deletes leases.

It does not survive a SIGKILL of its own tidily: the processes die with it, the folder stays.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from supervisor import exits
from supervisor.demo.feed import MISSING
from supervisor.demo.feed_process import FeedFailed, FeedProcess
from supervisor.demo.fleet import Aftermath, Fleet, SupervisorFailed, command, environment, last_words
from supervisor.demo.plan import DURATION_MS, NAMES, RATE, Plan
from supervisor.demo.screen import LiveScreen, PlainScreen, Screen, summary
from supervisor.demo.sight import CALL_TIMEOUT_S, Sight, Watch
from supervisor.demo.verdict import Kill, Promise, judge, promises
from supervisor.stores.interface import Store, Unavailable
from supervisor.stores.location import open_store, parse
from supervisor.writes import DeleteMember

INITIALIZE_S = 20.0
SHOW_S = 42.0  # from the first instant to the planned stop; what is left of the 60 s is for ending everything
START_S = 20.0
TAKEOVER_S = 15.0
STOP_S = 10.0
LOOK_S = 0.1
OWNERS_S = 0.5
GONE_MS = 1000


class Stop(Exception):
    """The show cannot go on, or was asked to end. `code` is the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Late(Exception):
    """Something did not happen in its time. The text says what."""


def run(store: str | None, supervisors: int, shards: int, seconds: int, plain: bool) -> int:
    """`seconds` of streaming before the kill and again after the takeover. Returns the exit code."""
    end = time.monotonic() + SHOW_S
    try:
        _check(supervisors, shards, seconds)
        with _signals(), tempfile.TemporaryDirectory(prefix="tenured-demo-") as folder:
            plan = _plan(Path(folder), store, supervisors, shards)
            return _perform(plan, seconds, plain, end)
    except Stop as stop:
        print(f"tenured demo: {stop}", file=sys.stderr)
        return stop.code


def _check(supervisors: int, shards: int, seconds: int) -> None:
    if not 2 <= supervisors <= len(NAMES):
        raise Stop(f"{supervisors} supervisors cannot be shown, expected 2 or 3", exits.USAGE)
    if not 1 <= shards <= 200:
        raise Stop(f"{shards} shards cannot be shown, expected 1 to 200", exits.USAGE)
    if not 1 <= seconds <= 10:
        raise Stop(f"{seconds} seconds between the scenes do not fit, expected 1 to 10", exits.USAGE)
    if importlib.util.find_spec("websockets") is None:
        raise Stop(MISSING, os.EX_UNAVAILABLE)  # sysexits.h: "a support program or file does not exist"


def _plan(folder: Path, store: str | None, supervisors: int, shards: int) -> Plan:
    try:
        location = parse(store or f"sqlite:///{folder}/leases.db", Path.cwd())
    except ValueError as error:
        raise Stop(str(error), exits.USAGE) from error
    return Plan(
        folder=folder,
        store=location.url,
        fleet=f"demo-{secrets.token_hex(4)}",
        names=NAMES[:supervisors],
        shard_count=shards,
        handler=Path(__file__).resolve().with_name("resume.py"),
    )


@contextmanager
def _signals() -> Iterator[None]:
    """A request to end becomes an exception in the show, once; while everything is being ended it is ignored."""
    asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupted(number: int, frame: FrameType | None) -> None:
        for each in asked:
            signal.signal(each, signal.SIG_IGN)
        raise Stop("interrupted; all that it had started is ended", 128 + number)

    before = {number: signal.signal(number, interrupted) for number in asked}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _perform(plan: Plan, seconds: int, plain: bool, end: float) -> int:
    console = Console(highlight=False)
    live = console.is_terminal and not plain
    screen: Screen = LiveScreen(plan.shards, console) if live else PlainScreen(plan.shards)
    try:
        with ExitStack() as stack:
            stack.enter_context(screen)
            screen.note(_initialize(plan))
            feed = stack.enter_context(FeedProcess(plan.folder / "feed.jsonl", RATE))
            screen.note(f"a feed on 127.0.0.1:{feed.port} sends {RATE} events a second for each shard")
            store = open_store(plan.store, plan.folder, CALL_TIMEOUT_S)
            stack.callback(store.close)
            stack.callback(_forget_members, store, plan)
            fleet = stack.enter_context(Fleet(plan))
            stage = Stage(plan, screen, feed, fleet, Watch(plan, feed, store), end)
            kept = stage.play(seconds)
    except (FeedFailed, SupervisorFailed) as error:
        raise Stop(str(error), getattr(error, "code", os.EX_UNAVAILABLE) or exits.NO) from error
    summary(kept, console)
    return exits.OK if all(promise.kept for promise in kept) else exits.NO


def _initialize(plan: Plan) -> str:
    """`tenured init`, as anybody would call it; the sentence it says."""
    arguments = command("init", "--store", plan.store)
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, env=environment(), timeout=INITIALIZE_S)
    except subprocess.TimeoutExpired as error:
        raise Stop(f"store {plan.store}: not ready within {INITIALIZE_S:g} s", exits.STORE) from error
    if done.returncode:
        said = last_words(done.stderr) or f"tenured init exited {done.returncode}"
        raise Stop(f"store {plan.store}: {said}", done.returncode)
    return done.stdout.strip() or f"the store {plan.store} is ready"


def _forget_members(store: Store, plan: Plan) -> None:
    """Take the member rows of this show out of the store, so that the next fleet need not wait for them to expire.
    A store that cannot be reached keeps them; peers remove them later."""
    try:
        members = store.snapshot(CALL_TIMEOUT_S).members.values()
    except Unavailable:
        return
    for member in members:
        if member.fleet == plan.fleet:
            store.apply(DeleteMember(member.id, member.beat, member.nonce), CALL_TIMEOUT_S)


class Stage:
    """The scenes in their order, each bounded, all of them together by `end` and `STOP_S`."""

    def __init__(self, plan: Plan, screen: Screen, feed: FeedProcess, fleet: Fleet, watch: Watch, end: float) -> None:
        self._plan = plan
        self._screen = screen
        self._feed = feed
        self._fleet = fleet
        self._watch = watch
        self._states: dict[str, str] = {}
        self._end = end
        self._owners_due = 0.0
        self._aftermath: Aftermath | None = None
        self._late = ""

    def play(self, seconds: int) -> tuple[Promise, ...]:
        """What was promised and what became of it."""
        try:
            self._open()
            self._stay(seconds)
            self._kill()
            self._stay(seconds)
        except Late as late:
            self._late = str(late)
            self._screen.note(self._late)
        codes = self._close()
        return self._judge(codes)

    def _open(self) -> None:
        for name in self._plan.names:
            self._fleet.start(name, self._feed.url(name, "&from=${checkpoint:-1}"))
            self._states[name] = "running"
            self._screen.note(f"supervisor {name} is pid {self._fleet.pids[name]}")
        self._until(lambda sight: len(sight.streams) == self._plan.shard_count, START_S, "all shards stream")
        self._screen.note(f"all {self._plan.shard_count} shards stream")

    def _kill(self) -> None:
        """The one with the most shards, so that there is something to see."""
        shares = self._watch.look().shares
        name = max(self._plan.names, key=lambda each: shares[each])
        self._aftermath = aftermath = self._fleet.kill(name)
        self._states[name] = "killed"
        self._screen.note(f"SIGKILL to {name}, pid {aftermath.pid}, with {shares[name]} shards; {_gone(aftermath)}")
        self._until(
            lambda sight: self._is_taken_over(sight, name), TAKEOVER_S, f"the shards of {name} stream elsewhere"
        )
        self._screen.note(f"all {self._plan.shard_count} shards stream again")

    def _is_taken_over(self, sight: Sight, killed: str) -> bool:
        return len(sight.streams) == self._plan.shard_count and killed not in sight.streams.values()

    def _close(self) -> dict[str, int | None]:
        """A planned stop of all that still run, then of the feed, so that its record and the sink are complete."""
        stopping = self._fleet.running
        self._fleet.stop()
        self._states.update(dict.fromkeys(stopping, "stopping"))
        self._screen.note(f"SIGTERM to {' and '.join(stopping) or 'nobody'}")
        deadline = time.monotonic() + STOP_S
        while None in self._fleet.codes().values() and time.monotonic() < deadline:
            self._look()
        codes = {name: code for name, code in self._fleet.codes().items() if name in stopping}
        for name, code in codes.items():
            self._states[name] = "stopped" if code == 0 else f"exit {code}"
        self._feed.stop()
        self._owners_due = 0.0
        self._look()
        return codes

    def _judge(self, codes: dict[str, int | None]) -> tuple[Promise, ...]:
        aftermath = self._aftermath
        kill = Kill(aftermath.name, aftermath.at_ns) if aftermath else None
        verdict = judge(self._feed.record(), self._watch.deliveries, kill, self._watch.torn)
        clean = bool(codes) and all(code == 0 for code in codes.values())
        said = ", ".join(f"{name} {'did not end' if code is None else f'exit {code}'}" for name, code in codes.items())
        gone_ms = aftermath.gone_ms if aftermath else None
        return (
            Promise("the show reaches its end", not self._late, self._late or "every scene was played"),
            Promise(
                f"all that a killed supervisor had started is dead within {GONE_MS / 1000:g} s",
                gone_ms is not None and gone_ms <= GONE_MS,
                _gone(aftermath) if aftermath else "nobody was killed",
            ),
            *promises(verdict, DURATION_MS),
            Promise("a supervisor that is asked to stop exits 0", clean, said or "nobody was left"),
        )

    def _stay(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._fleet.check()
            self._look()
            if time.monotonic() > self._end:
                raise Late("the show took too long")

    def _until(self, holds: Callable[[Sight], bool], timeout_s: float, what: str) -> None:
        deadline = min(self._end, time.monotonic() + timeout_s)
        began = time.monotonic()
        while not holds(self._look()):
            self._fleet.check()
            if time.monotonic() > deadline:
                raise Late(f"after {time.monotonic() - began:.0f} s it did not hold that {what}")

    def _look(self) -> Sight:
        time.sleep(LOOK_S)
        if time.monotonic() >= self._owners_due:
            self._watch.read_owners(self._fleet.pids)
            self._owners_due = time.monotonic() + OWNERS_S
        sight = self._watch.look()
        self._screen.show(sight, self._states)
        return sight


def _gone(aftermath: Aftermath) -> str:
    if aftermath.gone_ms is None:
        return f"not all of its {aftermath.processes} processes are dead"
    return f"all of its {aftermath.processes} processes were dead after {aftermath.gone_ms:.0f} ms"
