"""Striking: planned faults carried out on real supervisors, and undone, each recorded with its true instants.

One thread, one queue of things that are due. What cannot be struck at its instant (its target is down, or under that
very fault already) strikes another supervisor or shard, or is left out. A strike that stops processes ends when they go
on or when all of them are dead, whichever comes first. What ends without having been asked to is a trouble, and is
started again.
"""

from __future__ import annotations

import heapq
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from tests.process.campaign.rows import tamper
from tests.process.campaign.schedule import DOWN, Planned
from tests.process.campaign.store import Ground
from tests.process.campaign.story import SECOND_NS, Life, Strike
from tests.process.campaign.victims import frozen, killed, living, titled
from tests.process.host import Host, alive
from tests.wait import until
from workers.process.kernel import boottime_ns

TICK_S = 0.02
GONE_NS = 2 * SECOND_NS  # every process of a killed supervisor, on a machine that is busy
YOUNG_NS = SECOND_NS  # an interpreter that has not reached the first line of `run` dies of SIGTERM
AGAIN_S = 0.5
CLEAN_EXITS = (0, 75)  # 75: a lease could not be released, which the faults may cause


@dataclass(slots=True)
class Site:
    """One supervisor: the host that it runs on, and its present life. `delay_s`: how long it stays down next time."""

    host: Host
    life: Life | None = None
    delay_s: float = AGAIN_S
    fresh: bool = False

    @property
    def name(self) -> str:
        return self.host.folder.name


@dataclass(slots=True)
class _Open:
    """A strike that is on; `end` undoes it, once."""

    strike: Strike
    end: Callable[[], None]
    frozen: Sequence[psutil.Process] = ()


@dataclass(frozen=True, slots=True)
class _Blow:
    """What a strike came to: what undoes it, the processes it stopped, whom it hit."""

    end: Callable[[], None] | None = None
    frozen: Sequence[psutil.Process] = ()
    supervisor: str = ""
    shard: str = ""
    note: str = ""


@dataclass(slots=True)
class Attack:
    sites: list[Site]
    ground: Ground
    shards: tuple[str, ...]
    lives: list[Life] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    _due: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _calls: int = 0

    # --- the queue ----------------------------------------------------------------------------------------

    def run(self, plan: Iterable[Planned], watch: Callable[[], None] = lambda: None) -> None:
        """Until every fault was struck and is over, and every supervisor runs. `watch` is called at each turn."""
        began_ns = boottime_ns()
        for planned in plan:
            self._at(began_ns + int(planned.at_s * SECOND_NS), lambda planned=planned: self._strike(planned))  # type: ignore[misc]

        def over() -> bool:
            self.turn()
            watch()
            return not (self._due or self._open) and all(site.life for site in self.sites)

        until(over, float("inf"), TICK_S)

    def turn(self) -> None:
        """Everything that is due by now."""
        for site in self.sites:
            self._look_at(site)
        for each in list(self._open):
            if each.frozen and not alive(each.frozen):
                self._close(each)
        while self._due and self._due[0][0] <= boottime_ns():
            heapq.heappop(self._due)[2]()

    def _at(self, at_ns: int, call: Callable[[], None]) -> None:
        self._calls += 1
        heapq.heappush(self._due, (at_ns, self._calls, call))

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self._at(boottime_ns() + int(seconds * SECOND_NS), call)

    def cease(self) -> None:
        """Undo what is on, also after an exception."""
        for each in list(self._open):
            self._close(each)

    # --- lives --------------------------------------------------------------------------------------------

    def start(self, site: Site) -> None:
        if site.fresh:
            state = site.host.folder / "state"
            state.rename(_unused(state))
            site.fresh = False
        site.host.start()
        site.life = Life(site.name, site.host.pid, boottime_ns())
        site.delay_s = AGAIN_S
        for each in list(self._open):
            if each.strike.kind in DOWN and each.strike.supervisor == site.name:
                self._close(each)

    def stop_all(self) -> None:
        """Gracefully, side by side; without any fault each must succeed, and leave no process behind."""
        trees = {site.name: site.host.tree() for site in self.sites}
        for site in self.sites:
            site.host.signal(signal.SIGTERM)
        for site in self.sites:
            assert site.life is not None
            code = site.host.wait()
            self.lives.append(replace(site.life, ended_ns=boottime_ns(), code=code, asked=True))
            site.life = None
            if code:
                self.troubles.append(f"{site.name} exited with {code} at a stop without any fault, expected 0")
            if left := [each.pid for each in alive(trees[site.name])]:
                self.troubles.append(f"{site.name} was stopped and left processes behind: {left}")

    def _look_at(self, site: Site) -> None:
        if site.life is None or site.host.process is None or (code := site.host.process.poll()) is None:
            return
        down = {each.strike.kind for each in self._open if each.strike.supervisor == site.name}
        asked = not down.isdisjoint(DOWN)
        young = boottime_ns() < site.life.started_ns + YOUNG_NS
        clean = code in CLEAN_EXITS or (code == -signal.SIGKILL and "kill" in down)
        if not (asked and (clean or (young and code == -signal.SIGTERM))):
            how = "when asked to stop" if asked else "by itself"
            self.troubles.append(f"{site.name} (pid {site.life.pid}) exited with {code} {how}; see its log")
        self.lives.append(replace(site.life, ended_ns=boottime_ns(), code=code, asked=asked))
        site.life = None
        self._after(site.delay_s, lambda: self.start(site))

    # --- strikes ------------------------------------------------------------------------------------------

    def _strike(self, planned: Planned) -> None:
        began_ns = boottime_ns()
        blow = next(filter(None, map(self._blow, self._alike(planned))), None)
        if blow is None:
            return
        strike = Strike(planned.kind, began_ns, began_ns, blow.supervisor, blow.shard, blow.note)
        if blow.end is None and planned.kind not in DOWN:
            self.strikes.append(strike)
            return
        opened = _Open(replace(strike, ended_ns=None), blow.end or (lambda: None), blow.frozen)
        self._open.append(opened)
        if planned.kind not in DOWN:  # these end when the supervisor starts again
            self._after(planned.lasts_s, lambda: self._close(opened))

    def _close(self, opened: _Open) -> None:
        if opened in self._open:
            self._open.remove(opened)
            opened.end()
            self.strikes.append(replace(opened.strike, ended_ns=boottime_ns()))

    def _alike(self, planned: Planned) -> Iterator[Planned]:
        """The fault as it was planned; then the same for the other supervisors and as many other shards."""
        for further in range(len(self.sites)):
            supervisor = (planned.supervisor + further) % len(self.sites)
            yield replace(planned, supervisor=supervisor, shard=(planned.shard + further) % len(self.shards))

    def _blow(self, planned: Planned) -> _Blow | None:
        site, shard = self.sites[planned.supervisor], self.shards[planned.shard]
        match planned.kind:
            case "kill" | "stop":
                return self._down(planned, site)
            case "freeze" | "freeze-host" | "freeze-server":
                return self._freeze(planned.kind, site)
            case "kill-server":
                return self._kill_server(site)
            case "freeze-child" | "kill-child":
                return self._child(planned.kind, shard)
            case "seize" | "usurp" | "delete" | "garble":
                return self._row(planned, shard)
        end = self.ground.strike(planned)
        if end is None:
            return None
        return _Blow(end, supervisor="" if self.ground.hits_all(planned.kind) else site.name, note=str(planned.chance))

    def _is_on(self, kinds: Iterable[str], supervisor: str) -> bool:
        return any(each.strike.kind in kinds and each.strike.supervisor == supervisor for each in self._open)

    def _down(self, planned: Planned, site: Site) -> _Blow | None:
        if (
            site.life is None
            or self._is_on(("kill",), site.name)
            or (planned.kind == "stop" and self._is_on(DOWN, site.name))
        ):
            return None
        site.delay_s = planned.lasts_s
        tree = site.host.tree()
        if planned.kind == "stop":
            site.host.signal(signal.SIGTERM)
            return _Blow(supervisor=site.name)
        site.fresh = planned.chance < 0.2
        site.host.signal(signal.SIGKILL)
        self._at(boottime_ns() + GONE_NS, lambda: self._must_be_gone(site.name, tree))
        return _Blow(supervisor=site.name, note="with a fresh state_dir" if site.fresh else "")

    def _must_be_gone(self, name: str, tree: Sequence[psutil.Process]) -> None:
        left = [each.pid for each in alive(tree)]
        if left:
            self.troubles.append(f"{name} was killed {GONE_NS / SECOND_NS:g} s ago and left processes behind: {left}")

    def _freeze(self, kind: str, site: Site) -> _Blow | None:
        if site.life is None or self._is_on(("freeze", "freeze-host", "freeze-server", "kill"), site.name):
            return None
        parent, tree = living(site.host.pid), site.host.tree()
        victims = {
            "freeze": parent,
            "freeze-host": [*parent, *tree],
            "freeze-server": titled(tree, "tenured: fork server"),
        }[kind]
        return _Blow(*stopped, supervisor=site.name) if (stopped := frozen(victims)) else None

    def _kill_server(self, site: Site) -> _Blow | None:
        servers = titled(site.host.tree(), "tenured: fork server") if site.life else []
        return _Blow(supervisor=site.name) if killed(servers) else None

    def _child(self, kind: str, shard: str) -> _Blow | None:
        if any(each.strike.shard == shard and each.strike.kind == "freeze-child" for each in self._open):
            return None
        for site in self.sites:
            children = titled(site.host.tree(), f"tenured: {shard}") if site.life else []
            if kind == "kill-child" and killed(children):
                return _Blow(shard=shard, note=f"at {site.name}")
            if kind == "freeze-child" and (stopped := frozen(children)):
                return _Blow(*stopped, shard=shard, note=f"at {site.name}")
        return None

    def _row(self, planned: Planned, shard: str) -> _Blow | None:
        if any(each.strike.shard == shard and each.strike.kind == "garble" for each in self._open):
            return None
        done = tamper(self.ground.hand, planned, shard, self._after)
        return _Blow(done.end, shard=shard, note=done.note) if done else None


def _unused(path: Path) -> Path:
    return next(free for number in range(1, 1000) if not (free := path.with_name(f"{path.name}.{number}")).exists())
