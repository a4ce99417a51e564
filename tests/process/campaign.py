"""A fault campaign with real processes: python -m tests.process.campaign --minutes 10 --store sqlite|ministack

Supervisors (3 by default) share 12 shards of a feed that numbers its events, while seeded faults strike: processes are
killed, frozen and stopped, the store fails in every way that `tests/faults.py` knows (or its file is locked), rows are
changed by hand. `campaign_schedule` says which and when, `campaign_attack` strikes, `campaign_judge` says what is
judged and how the time to recover is counted. `--plan` only prints the schedule of the seed.

The exit code is 1 if a promise was broken or the goal for the time to recover was missed. A run that broke a promise
keeps its folder and prints where, with what happened around each violation. Every process is ended at the end, also
after Ctrl-C or SIGTERM, and by the kernel if this process is killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import FeedRecord
from tests.bench.fleet import AWS
from tests.process.campaign_attack import Attack, Site
from tests.process.campaign_judge import without
from tests.process.campaign_report import tell
from tests.process.campaign_schedule import DECKS, LOCKS, Planned, plan
from tests.process.campaign_sink import arrivals
from tests.process.campaign_store import ground_of
from tests.process.campaign_story import SECOND_NS, Story, Strike
from tests.process.campaign_watch import RowWatch
from tests.process.host import Host, streaming
from tests.wait import until
from workers.kernel import boottime_ns

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


# --- the command ------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.campaign", description=__doc__.split("\n")[0])
    parser.add_argument("--store", choices=sorted(DECKS), default="sqlite")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--faults", type=int, default=0, help="how many are planned; by default 480 in ten minutes")
    parser.add_argument("--seed", type=int, default=None, help="by default one that the clock gives")
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--supervisors", type=int, default=3)
    parser.add_argument("--lease-duration", type=float, default=3.0, metavar="SECONDS", dest="lease_s")
    parser.add_argument("--keep", action="store_true", help="keep the folder also when all was well")
    parser.add_argument("--plan", action="store_true", help="print the schedule and end")
    given = vars(parser.parse_args(arguments))
    keep, only_plan, minutes = given.pop("keep"), given.pop("plan"), given.pop("minutes")
    seed = given.pop("seed")
    options = Options(**given, seconds=minutes * 60, seed=time.time_ns() % 100_000 if seed is None else seed)
    print(
        f"seed {options.seed}: {options.count} faults planned in {options.seconds:g} s on {options.store}", flush=True
    )
    if only_plan:
        print(*schedule(options), sep="\n")
        return 0
    os.environ.update(AWS)
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix=f"campaign-{options.seed}-"))
    (folder / "schedule.txt").write_text("\n".join(map(str, schedule(options))) + "\n")
    print(f"its schedule and all that follows: {folder}", flush=True)
    try:
        story = run(options, folder, say=True)
    except KeyboardInterrupt:
        print("interrupted; every process was ended, and nothing is judged")
        return 130
    well = tell(options.store, story, folder)
    if well and not keep:
        shutil.rmtree(folder)
    return 0 if well else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
