"""Random kills over a resumable feed: python -m tests.process.resume --kills 30

Two real supervisors share the shards of a feed that replays from `${checkpoint}`, and write into one jsonl file.
Children, supervisors and whole hosts (the state of a supervisor is lost, too) are killed, supervisors stopped as
planned, or frozen until somebody else has taken over. Afterwards:

- no event is missing in the file;
- each copy of an event carries a higher epoch than the one before it;
- every line parses;
- the checkpoint of no row ever moved back, and no gap in the feed's numbers was seen.

What is drawn from the seed is what is struck and when; what the processes make of it is theirs.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.arguments import whole
from tests.process.campaign.victims import frozen, killed
from tests.process.hand import SqliteHand
from tests.process.host import Host, tenured
from tests.process.resumable import ResumableFeed
from tests.wait import until

LEASE_S = 2.0
RATE = 100  # events of each shard in a second
SHARDS = 4
PAUSE_S = (0.2, 2.5)  # between two strikes
DECK = {"child": 5, "parent": 3, "host": 2, "stop": 1, "freeze": 1}
RECOVERY_S = 40.0


@dataclass
class Outcome:
    """What came of a run; `wrong` is empty if all promises were kept."""

    struck: collections.Counter[str]
    events: int = 0
    repeated: int = 0
    epochs: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.struck.items()))
        lines = [
            f"struck: {kinds}",
            f"{self.events} events, {self.repeated} copies beyond the first, {self.epochs} epochs of {SHARDS} shards",
        ]
        return "\n".join([*lines, *(self.wrong or ["nothing lost, no copy under the same epoch, every line parses"])])


class Fleet:
    """Two supervisors, and what is to be done to them later."""

    def __init__(self, folder: Path, feed: ResumableFeed) -> None:
        self.events = folder / "events.jsonl"
        self.store = folder / "leases.db"
        made = tenured("init", "--store", f"sqlite:///{self.store}")
        assert made.returncode == 0, made.stderr
        stream = [f"sink = jsonl:{self.events}", "checkpoint = /seq", "id = /seq", "sequence = /seq"]
        stream += ["reconnect_min = 50ms", "reconnect_max = 500ms"]
        url = f"{feed.url}/${{shard}}?from=${{checkpoint:-0}}"
        self.hosts = [
            Host(
                folder / name,
                f"sqlite:///{self.store}",
                url,
                shards=SHARDS,
                lease_duration=f"{LEASE_S:g}s",
                stream=stream,
            )
            for name in "ab"
        ]
        self._due: dict[str, tuple[float, Callable[[], object]]] = {}
        self._hand = SqliteHand(self.store, timeout_s=0.1)
        self._checkpoints: dict[str, int] = {}
        self.moved_back: list[str] = []

    def turn(self) -> None:
        """Do what is due, and look at the rows."""
        for name, (at_s, call) in list(self._due.items()):
            if time.monotonic() >= at_s:
                del self._due[name]
                call()
        try:
            rows = self._hand.rows()
        except sqlite3.OperationalError:  # locked by a supervisor that was frozen in the middle of a write
            return
        for shard, row in rows.items():
            token = int(row["checkpoint"] or 0)
            if token < self._checkpoints.get(shard, 0):
                self.moved_back.append(f"the checkpoint of {shard} moved from {self._checkpoints[shard]} to {token}")
            self._checkpoints[shard] = token

    def turn_until(self, at_s: float) -> None:
        until(lambda: self.turn() or time.monotonic() >= at_s, 10)

    def settled(self) -> bool:
        """Nothing is left to be done, and both run."""
        self.turn()
        return not self._due and all(map(begun, self.hosts))

    def delivered(self, number: int) -> set[str]:
        """The shards whose event of that number is in the file."""
        lines = self.events.read_bytes().split(b"\n")[:-1] if self.events.exists() else []
        return {json.loads(line)["shard"] for line in lines if f'"id":"{number}"'.encode() in line}

    def strike(self, kind: str, dice: random.Random) -> None:
        until(lambda: self.turn() or self._struck(kind, dice), RECOVERY_S, 0.05)

    def _struck(self, kind: str, dice: random.Random) -> bool:
        """False: there is nobody to be struck so at the moment."""
        up = [host for host in self.hosts if host.folder.name not in self._due and begun(host)]
        if not up:
            return False
        host = dice.choice(up)
        if kind == "child":
            children = [child for server in psutil.Process(host.pid).children() for child in server.children()]
            return killed([dice.choice(children)]) if children else False
        if kind == "freeze":
            found = frozen([*host.tree(), psutil.Process(host.pid)])
            assert found is not None
            self._later(host, LEASE_S + 2, found[0])
        elif kind == "stop":
            assert host.stop() == 0, host.log()[-5:]
            host.start()
        else:
            host.kill()
            if kind == "host":
                shutil.rmtree(host.folder / "state")
            self._later(host, LEASE_S + 2 if kind == "host" else dice.uniform(0, 1), host.start)
        return True

    def _later(self, host: Host, seconds: float, call: Callable[[], object]) -> None:
        self._due[host.folder.name] = (time.monotonic() + seconds, call)


def begun(host: Host) -> bool:
    """Before it says so, a SIGTERM would end a process that is hardly more than an interpreter."""
    return any(line["supervisor"].split(":")[1] == str(host.pid) for line in host.log("supervisor.started"))


def dealt(dice: random.Random, count: int) -> list[str]:
    """From a deck that is shuffled anew whenever it is used up."""
    cards = [kind for kind, weight in DECK.items() for _ in range(weight)]
    hands = [dice.sample(cards, len(cards)) for _ in range(count // len(cards) + 1)]
    return [kind for hand in hands for kind in hand][:count]


def run(folder: Path, kills: int, seed: int, say: Callable[[str], object] = print) -> Outcome:
    """Strike `kills` times, let all recover, and judge."""
    dice = random.Random(seed)
    with ResumableFeed(RATE) as feed:
        fleet = Fleet(folder, feed)
        with fleet.hosts[0], fleet.hosts[1]:
            until(lambda: len(fleet.delivered(1)) == SHARDS, 30)
            for number, kind in enumerate(dealt(dice, kills), 1):
                fleet.turn_until(time.monotonic() + dice.uniform(*PAUSE_S))
                fleet.strike(kind, dice)
                say(f"{number:>3} {kind}, at event {feed.newest}")
            until(fleet.settled, 20)
            last = feed.end()
            until(lambda: fleet.turn() or fleet.delivered(last) == set(fleet.hosts[0].shards), RECOVERY_S, 0.2)
            codes = [host.stop() for host in fleet.hosts]
            fleet.turn()
        outcome = _judged(fleet, last)
    outcome.struck = collections.Counter(dealt(random.Random(seed), kills))
    outcome.wrong += [f"a stop without any fault ended with {code}" for code in codes if code]
    if max(feed.asked()) == 0:
        outcome.wrong.append("nobody ever asked to go on from a checkpoint")
    return outcome


def _judged(fleet: Fleet, last: int) -> Outcome:
    outcome = Outcome(collections.Counter(), wrong=list(fleet.moved_back))
    epochs: dict[tuple[str, int], int] = {}
    seen: set[tuple[str, int]] = set()
    for text in fleet.events.read_bytes().split(b"\n")[:-1]:
        try:
            line = json.loads(text)
            event = (line["shard"], json.loads(line["data"])["seq"])
        except ValueError:
            outcome.wrong.append(f"a line does not parse: {text[:200]!r}")
            continue
        outcome.events += 1
        outcome.repeated += event in epochs
        if line["epoch"] <= epochs.get(event, 0):
            outcome.wrong.append(f"event {event} came under epoch {line['epoch']} after epoch {epochs[event]}")
        if line["id"] != str(event[1]):
            outcome.wrong.append(f"event {event} has the id {line['id']}")
        epochs[event] = line["epoch"]
        seen.add((line["shard"], line["epoch"]))
    outcome.epochs = len(seen)
    for shard in fleet.hosts[0].shards:
        missing = [number for number in range(1, last + 1) if (shard, number) not in epochs]
        if missing:
            outcome.wrong.append(f"{len(missing)} events of {shard} are missing, the first is {missing[0]}")
    gaps = [line for host in fleet.hosts for line in host.log("sequence.gap")]
    outcome.wrong += [f"a gap was seen: {line}" for line in gaps]
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.resume", description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=whole, default=30)
    parser.add_argument("--seed", type=int, default=None, help="by default one that the clock gives")
    given = parser.parse_args(arguments)
    seed = time.time_ns() % 100_000 if given.seed is None else given.seed
    folder = Path(tempfile.mkdtemp(prefix=f"resume-{seed}-"))
    print(f"seed {seed}, in {folder}", flush=True)
    outcome = run(folder, given.kills, seed, lambda text: print(text, flush=True))
    print(outcome)
    if outcome.wrong:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
