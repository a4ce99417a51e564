"""A campaign of random faults against simulated fleets: `python -m tests.sim.campaign [--seed N] [--steps N] ...`.

Each world is a fleet of its own kind (supervisors, shards, clocks, limits) that is drawn, like all that happens in it,
from its seed alone. Blows of many faults in quick succession alternate with calm, in which every shard must be served
again in time. The worlds have consecutive seeds, and run on all processors until both goals are reached.

The report counts the steps of the core and the faults: what was done to hosts, children and rows, and, apart from that,
what happened to messages (mere delays do not count towards the goal). A violation is printed with the history that
led to it and the command that repeats it. Exit code: 0 both goals reached and no violation, else 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice

from supervisor.core.model import SECOND, Rules
from tests.arguments import amount, whole
from tests.sim.chaos import MORE_FAULTS, calm_down, disturb, recover
from tests.sim.network import DELAYS
from tests.sim.parts import rules
from tests.sim.world import World

BLOWS = 12  # of a world, each followed by calm
DRIFT = 0.05
# A created row's epoch leans on the wall clock, so that one fleet never sees both a deleted row and a clock set back.
FAULT_SETS = [
    tuple(fault for fault in MORE_FAULTS if fault not in ("calm", without)) for without in ("delete_row", "clock_step")
]


@dataclass(slots=True)
class Tally:
    """What happened in one or more worlds."""

    worlds: int = 0
    steps: int = 0
    starts: int = 0
    virtual_ns: int = 0
    worst_ns: int = 0
    worst_missing_ns: int = 0
    worst_wish_ns: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    violation: str = ""  # with its history
    seed: int = 0  # of the world in which it happened
    history: str = ""  # of one world: a digest of all that was noted

    def add(self, other: Tally) -> None:
        self.worlds += other.worlds
        self.steps += other.steps
        self.starts += other.starts
        self.virtual_ns += other.virtual_ns
        self.worst_ns = max(self.worst_ns, other.worst_ns)
        self.worst_missing_ns = max(self.worst_missing_ns, other.worst_missing_ns)
        self.worst_wish_ns = max(self.worst_wish_ns, other.worst_wish_ns)
        self.faults += other.faults
        self.messages += other.messages
        self.kills += other.kills
        if other.violation and not self.violation:
            self.violation, self.seed = other.violation, other.seed

    @property
    def counted_faults(self) -> int:
        """All but mere delays."""
        return self.faults.total() + sum(many for kind, many in self.messages.items() if kind not in DELAYS)


# --- one world --------------------------------------------------------------------------------------------


def draw_rules(dice: random.Random) -> tuple[int, Rules]:
    """A size of fleet, and rules with which it can serve all its shards."""
    hosts, shards = dice.randrange(3, 7), dice.randrange(1, 9)
    capacity = dice.choice((1000, 1000, shards))
    window_ns = dice.choice((30, 300)) * SECOND
    hang_ns = dice.choice((5, 30)) * SECOND
    policy = dice.choice(("fence", "fence", "fence", "hold"))
    return hosts, rules(shards, policy, capacity=capacity, crash_window_ns=window_ns, hang_ns=hang_ns)


def attack(world: World) -> None:
    """Blows and calm, and in the end everything must be served."""
    dice = random.Random(world.seed)
    faults = FAULT_SETS[world.seed % 2]
    world.service.watch()
    for _ in range(BLOWS):
        pause_s = dice.choice((0.1, 0.5, 1, 3))
        for _ in range(dice.randrange(10, 40)):
            world.run(dice.expovariate(1 / pause_s))
            disturb(world, dice.choice(faults))
        calm_down(world)
        world.run(dice.uniform(0, 60))
    recover(world)


def run_world(seed: int) -> Tally:
    dice = random.Random(~seed)
    hosts, limits = draw_rules(dice)
    world = World(seed, hosts, limits, DRIFT)
    world.kernel_timers = dice.random() < 0.8
    world.stop_ms = dice.choice((300.0, 3000.0, 12_000.0))
    tally = Tally(worlds=1, seed=seed)
    try:
        attack(world)
    except Exception as error:
        # What the core itself raises says nothing of the world.
        told = f"(seed {seed}, " in str(error)
        tally.violation = str(error) if told else world.report(traceback.format_exc(limit=-2))
    tally.steps, tally.starts, tally.virtual_ns = world.steps, len(world.starts), world.now_ns
    tally.faults, tally.messages, service = world.faults, world.network.faults, world.service
    tally.worst_ns, tally.worst_missing_ns = service.worst_ns, service.worst_missing_ns
    tally.worst_wish_ns = service.wishes.worst_ns
    tally.kills, tally.history = Counter(reason for *_, reason in world.kills), world.digest.hexdigest()
    return tally


# --- many -------------------------------------------------------------------------------------------------


def run_worlds(seeds: Iterator[int], processes: int) -> Iterator[Tally]:
    """As they end."""
    if processes == 1:
        yield from map(run_world, seeds)
        return
    with multiprocessing.Pool(processes) as pool:
        under_way = [pool.apply_async(run_world, (seed,)) for seed in islice(seeds, 2 * processes)]
        while under_way:
            yield under_way.pop(0).get()
            under_way += [pool.apply_async(run_world, (seed,)) for seed in islice(seeds, 1)]


def run_campaign(options: argparse.Namespace) -> int:
    begin_s = time.monotonic()
    seeds = count(options.seed) if options.worlds is None else range(options.seed, options.seed + options.worlds)
    total = Tally()
    for tally in run_worlds(iter(seeds), options.processes):
        total.add(tally)
        enough = options.worlds is None and total.steps >= options.steps and total.counted_faults >= options.faults
        if total.violation or enough or time.monotonic() - begin_s >= options.seconds:
            break
    seconds = time.monotonic() - begin_s
    print(describe(total, options.seed, seconds))
    if total.violation:
        print(f"\nVIOLATION: {total.violation}\n\nrepeat: python -m tests.sim.campaign --seed {total.seed} --worlds 1")
        return 1
    reached = options.worlds is not None or (total.steps >= options.steps and total.counted_faults >= options.faults)
    if not reached:
        print(f"the goal of {options.steps:,} steps and {options.faults:,} faults was not reached")
    return 0 if reached else 1


def describe(total: Tally, seed: int, seconds: float) -> str:
    def table(counts: Counter[str]) -> str:
        return ", ".join(f"{kind} {many:,}" for kind, many in counts.most_common())

    return "\n".join(
        (
            f"worlds       {total.worlds:,}, seeds {seed} to {seed + total.worlds - 1}",
            f"steps        {total.steps:,} in {total.virtual_ns / SECOND / 3600:,.1f} virtual hours",
            f"faults       {total.counted_faults:,} without mere delays",
            f"  injected   {total.faults.total():,}: {table(total.faults)}",
            f"  messages   {total.messages.total():,}: {table(total.messages)}",
            f"starts       {total.starts:,}",
            f"kills        {total.kills.total():,}: {table(total.kills)}",
            f"at worst     {total.worst_ns / SECOND:.2f} s until a shard was served again, once somebody was able to",
            f"             {total.worst_missing_ns / SECOND:.2f} s if its row was gone",
            f"             {total.worst_wish_ns / SECOND:.0f} s until a wish was granted or taken back",
            f"violations   {int(bool(total.violation))}",
            f"seconds      {seconds:.1f}",
        )
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.campaign",
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--steps", type=whole, default=2_000_000, help="of the core, all worlds together")
    parser.add_argument("--faults", type=whole, default=50_000, help="without mere delays of messages")
    parser.add_argument(
        "--seconds",
        type=amount,
        default=120,
        help="stop then, whether or not the goals are reached",
    )
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**9), help="of the first world; by default any"
    )
    parser.add_argument("--worlds", type=whole, help="run so many, whatever the goals")
    parser.add_argument("--processes", type=whole, default=os.cpu_count() or 1, help="side by side")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run_campaign(parse(sys.argv[1:])))
