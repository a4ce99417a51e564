"""A measured figure beside its goal, and how a list of them is shown: as lines while they are measured, and as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.arguments import whole


@dataclass(frozen=True, slots=True)
class Figure:
    """Without `goal_max` (at most) and `goal_min` (at least) it is shown for comparison only. `detail`: its spread, and
    what it was measured on. `load`: runnable processes at the time, by the kernel. `noise`: a value that is not larger
    cannot be told from none. The name is unique in its part."""

    name: str
    value: float
    unit: str
    goal_max: float | None = None
    detail: str = ""
    load: float = dataclasses.field(default_factory=lambda: os.getloadavg()[0])
    goal_min: float | None = None
    noise: float = 0.0

    @property
    def measured(self) -> str:
        if 0 < abs(self.value) <= self.noise:
            return "not measurable"
        return f"{number(self.value)} {self.unit}".rstrip()

    @property
    def met(self) -> bool:
        return (self.goal_max is None or self.value <= self.goal_max) and (
            self.goal_min is None or self.value >= self.goal_min
        )

    @property
    def goal(self) -> str:
        if self.goal_max is not None:
            return f"<= {self.goal_max:g} {self.unit}".rstrip()
        return "" if self.goal_min is None else f">= {self.goal_min:g} {self.unit}".rstrip()

    @property
    def judged(self) -> str:
        return self.goal if self.met else f"{self.goal}, **missed**"


def median(
    name: str, values: Sequence[float], unit: str, goal_max: float | None = None, goal_min: float | None = None
) -> Figure:
    return Figure(name, statistics.median(values), unit, goal_max, spread(values, unit), goal_min=goal_min)


def times(
    name: str, theirs: Sequence[float], ours: Sequence[float], unit: str, goal_min: float | None = None
) -> Figure:
    """How many times as much a peer needs. Each of its values stands beside the one of ours from the same round."""
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    detail = f"{number(statistics.median(theirs))} {unit}; {spread(ratios, 'x')}"
    return Figure(f"{name}, times ours", statistics.median(ratios), "x", None, detail, goal_min=goal_min)


def alternating(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The values of all runs, which took turns: whatever else the machine does meanwhile meets each of them."""
    values: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            values[name].append(run())
    return values


FEW = 20


def spread(values: Sequence[float], unit: str) -> str:
    """`values` as one phrase. A percentile of a few would be their maximum by another name."""
    if len(values) == 1:
        return "1 sample"
    if len(values) < FEW:
        return f"{number(min(values))} to {number(max(values))} {unit} of {len(values)}"
    median, tail, highest = (number(value) for value in (statistics.median(values), p99(values), max(values)))
    return f"median {median}, p99 {tail}, max {highest} {unit} of {len(values)}"


def number(value: float) -> str:
    """Three digits say what a measurement can say; counts are shown whole."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def p99(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


_SCHEDULED = 2  # of the kernel's clocks of another process, the one in nanoseconds (clock_getcpuclockid(3))
HEAD = f"{'figure':<58}{'value':>16}{'goal':>12}{'':>6}{'load':>6}  detail"


def line(figure: Figure) -> str:
    verdict = "" if not figure.goal else "met" if figure.met else "MISS"
    return f"{figure.name:<58}{figure.measured:>16}{figure.goal:>12}{verdict:>6}{figure.load:>6.1f}  {figure.detail}"


def report(figures: Iterable[Figure], path: Path | None) -> int:
    """Show each figure as soon as it is measured, write all of them to `path`; the exit code is 1 if one misses."""
    print(HEAD, flush=True)
    shown = []
    for figure in figures:
        shown.append(figure)
        print(line(figure), flush=True)
    if path:
        rows = [dataclasses.asdict(figure) | {"met": figure.met} for figure in shown]
        path.write_text(json.dumps(rows, indent=2) + "\n")
    return 0 if all(figure.met for figure in shown) else 1


def asked(part: str, **numbers: int) -> argparse.Namespace:
    """The command line of a part: `--json`, and an option for each of its numbers, which have these defaults."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{part}")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=whole, default=default, metavar="N", help=f"{default} by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser.parse_args()


def in_folders(parts: Iterable[tuple[str, Callable[[Path], Iterator[Figure]]]]) -> Iterator[Figure]:
    """The figures of each part, which measures in a folder of its own."""
    for name, part in parts:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as folder:
            yield from part(Path(folder))


def cpu_s(pid: int) -> float:
    """User and system time of all threads, also of those that have ended, as the scheduler counts it: a clock tick is
    too long for an idle child."""
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def pss_mib(pid: int) -> float:
    """Memory of a process; a page that several share counts for each of them in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no memory: it has ended")
