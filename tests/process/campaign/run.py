"""One campaign, from the first supervisor to the last, and its story.

Supervisors (3 by default) share 12 shards of a feed that numbers its events, while seeded faults strike: processes are
killed, frozen and stopped, the store fails in every way that `tests/faults.py` knows (or its file is locked), rows are
changed by hand. `schedule` says which and when, `attack` strikes, `judge` says what is judged and how the time to
recover is counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import FeedRecord
from tests.process.campaign.attack import Attack, Site
from tests.process.campaign.judge import without
from tests.process.campaign.schedule import DECKS, LOCKS, Planned, plan
from tests.process.campaign.sink import arrivals
from tests.process.campaign.store import ground_of
from tests.process.campaign.story import SECOND_NS, Story, Strike
from tests.process.campaign.watch import RowWatch
from tests.process.host import Host, streaming
from tests.wait import until
from workers.process.kernel import boottime_ns

FAULTS_PER_S = 0.8  # more than 300 struck in ten minutes, although a third cannot be
RATE = 20
START_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    store: str = "sqlite"
    seconds: float = 600.0
    faults: int = 0  # 0: as many as `FAULTS_PER_S` makes
    seed: int = 1
    shards: int = 12
    supervisors: int = 3
    lease_s: float = 3.0

    @property
    def count(self) -> int:
        return self.faults or int(self.seconds * FAULTS_PER_S)

    @property
    def settle_s(self) -> float:
        """By then every shard must stream again when all faults are over."""
        return 3 * self.lease_s + 10


def schedule(options: Options) -> tuple[Planned, ...]:
    return plan(
        options.seed,
        DECKS[options.store],
        options.count,
        options.seconds,
        options.supervisors,
        options.shards,
        options.lease_s,
    )


# --- running ----------------------------------------------------------------------------------------------


def run(options: Options, folder: Path, say: bool = False) -> Story:
    """A whole campaign. What it made stays in `folder`; no process stays."""
    with ExitStack() as stack:
        feed = stack.enter_context(FeedProcess(folder / "feed.jsonl", rate=RATE))
        ground = stack.enter_context(ground_of(options.store, folder, options.supervisors))
        hosts = [_host(options, folder, f"h{number}", url, feed) for number, url in enumerate(ground.urls)]
        attack = Attack([Site(host) for host in hosts], ground, tuple(hosts[0].shards))
        for site in attack.sites:
            attack.start(site)
            stack.enter_context(_ended(site.host))
        _begin(attack, feed)
        rows = stack.enter_context(RowWatch(ground.look, attack.shards))
        stack.callback(attack.cease)
        began_ns = boottime_ns()
        attack.run(schedule(options), Teller(attack, began_ns) if say else lambda: None)
        _settle(attack, feed, options)
        ended_ns = boottime_ns()
        attack.stop_all()
        feed.stop()
    return _story(options, attack, rows, feed.record(), folder, (began_ns, ended_ns))


def _host(options: Options, folder: Path, name: str, store: str, feed: FeedProcess) -> Host:
    """Its hang and start timeouts are above the lease duration and below the longest freeze; crashes are soon forgotten
    so that a campaign of any length never comes to the longest backoffs."""
    longest_ms = max(2000, int(options.lease_s * 1333))
    return Host(
        folder / name,
        store,
        feed.url(name),
        shards=options.shards,
        lease_duration=f"{int(options.lease_s * 1000)}ms",
        supervisor=[
            "stop_timeout = 3s",
            f"hang_timeout = {longest_ms}ms",
            f"start_timeout = {longest_ms}ms",
            "crash_window = 20s",
        ],
        within=("setpriv", "--pdeathsig", "KILL"),
    )


@contextmanager
def _ended(host: Host) -> Iterator[None]:
    """Whatever happens, nothing of this host runs after the block; a host that was stopped is left as it is."""
    try:
        yield
    finally:
        host.__exit__(None, None, None)


def _begin(attack: Attack, feed: FeedProcess) -> None:
    def begun() -> bool:
        attack.turn()
        if attack.troubles:
            raise RuntimeError(f"the campaign cannot begin: {attack.troubles[0]}")
        return streaming(feed, attack.shards)

    until(begun, START_TIMEOUT_S, 0.05)


def _settle(attack: Attack, feed: FeedProcess, options: Options) -> None:
    """All faults are over. Streaming: an open connection for each shard, for longer than any outage that is told."""
    since_ns = 0

    def settled() -> bool:
        nonlocal since_ns
        attack.turn()
        connected = streaming(feed, attack.shards)
        since_ns = (since_ns or boottime_ns()) if connected else 0
        return connected and boottime_ns() > since_ns + SECOND_NS

    try:
        until(settled, options.settle_s, 0.1)
    except AssertionError:
        missing = sorted(set(attack.shards) - {each.shard for each in feed.connected()})
        attack.troubles.append(f"{options.settle_s:g} s after the last fault nobody serves {', '.join(missing)}")


class Teller:
    """A line of progress every half minute."""

    def __init__(self, attack: Attack, began_ns: int) -> None:
        self._attack = attack
        self._began_ns = began_ns
        self._told = 0

    def __call__(self) -> None:
        passed_s = (boottime_ns() - self._began_ns) / SECOND_NS
        if passed_s // 30 > self._told:
            self._told = int(passed_s // 30)
            attack = self._attack
            print(f"{passed_s:5.0f} s: {len(attack.strikes)} faults, {len(attack.troubles)} troubles", flush=True)


def _story(
    options: Options, attack: Attack, rows: RowWatch, feed: FeedRecord, folder: Path, span: tuple[int, int]
) -> Story:
    logs = [site.host.folder / "log" for site in attack.sites]
    tracebacks = [f"{log} holds a traceback" for log in logs if "Traceback" in log.read_text(errors="replace")]
    return Story(
        shards=attack.shards,
        lease_ns=int(options.lease_s * SECOND_NS),
        began_ns=span[0],
        ended_ns=span[1],
        feed=feed,
        arrivals=tuple(
            arrival
            for site in attack.sites
            for arrival in arrivals(site.name, site.host.events, boottime_ns() - time.time_ns())
        ),
        lives=tuple(attack.lives),
        strikes=(*attack.strikes, *excused(rows.busy, attack.strikes)),
        ownings=tuple(rows.ownings),
        troubles=(*attack.troubles, *tracebacks),
    )


def excused(busy: Sequence[Strike], strikes: Sequence[Strike]) -> Iterator[Strike]:
    """When the store could not be had although no lock of ours was on it, as far as that began about when a supervisor
    was frozen, which may have been within a transaction. Nothing else excuses it."""
    locks = [(each.began_ns, each.ended_ns or each.began_ns) for each in strikes if each.kind in LOCKS]
    freezes = [each for each in strikes if each.kind in ("freeze", "freeze-host")]
    for began_ns, ended_ns in without([(each.began_ns, each.ended_ns or each.began_ns) for each in busy], locks):
        if any(each.began_ns <= began_ns + SECOND_NS and (each.ended_ns or ended_ns) >= began_ns for each in freezes):
            yield Strike("stuck-store", began_ns, ended_ns)
