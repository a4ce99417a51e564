"""A fleet of a hundred supervisors and ten thousand shards, simulated: python -m tests.bench.scale [--json FILE]

The decisions are those of the product, step by step on virtual time; calls take the time and the CPU that was measured
for real ones. One table for all; the same in ten tables, each a fleet of its own; a rolling deploy; and what a step
costs a supervisor that is configured for all shards. It takes some minutes of one core, whose speed decides about
the last part alone. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from supervisor.core import leaseset, model
from supervisor.core.model import SECOND, Moment
from supervisor.core.state import State, begin
from supervisor.records import Lease, Member, Snapshot
from tests import costs
from tests.bench.figures import Figure, p99, report
from tests.sim.scale_runs import Passed, Size, calm, cold_start, deploy, lose

WHOLE = Size(supervisors=100, shards=10_000)
TENTH = Size(supervisors=10, shards=1_000)
DEPLOYED, AT_ONCE = Size(supervisors=10, shards=1_000), 2
REFUSED_MAX = 10.0
STARTS_MAX = 1.05  # of each shard in a cold start
MOVES_MAX = 2.0  # of each shard in a rolling deploy
SETTLING_S = 20.0


def one_table() -> Iterator[Figure]:
    name, size = "one table", WHOLE
    fleet, cold = cold_start(size)
    yield from _cold(name, size, [cold])
    calm(fleet, SETTLING_S)
    yield from _steady(name, size, calm(fleet, 20))
    yield from _lost(name, size, [lose(fleet, 10)], "10 of 100 hosts lost")


def ten_tables() -> Iterator[Figure]:
    name, size = "ten tables", TENTH
    colds, losses = [], []
    for seed in range(1, 11):
        fleet, cold = cold_start(size, seed)
        calm(fleet, SETTLING_S)
        colds.append(cold)
        losses.append(lose(fleet, 1))
    yield from _cold(name, size, colds)
    yield from _steady(name, size, _steadily(size))
    yield from _lost(name, size, losses, "1 of 10 hosts lost of each")


def rolling_deploy() -> Iterator[Figure]:
    size = DEPLOYED
    fleet, _ = cold_start(size)
    calm(fleet, SETTLING_S)
    passed = deploy(fleet, AT_ONCE)
    detail = f"{size.supervisors} hosts, {size.shards} shards, {AT_ONCE} hosts at a time"
    yield Figure("deploy, moves of each shard", passed.starts / size.shards, "", goal_max=MOVES_MAX, detail=detail)
    gaps = "from the end of a child to the claim of the next owner"
    yield Figure("deploy, gap of a shard, median", statistics.median(passed.gaps_s), "s", detail=gaps)
    yield Figure("deploy, gap of a shard, p99", p99(passed.gaps_s), "s", detail=gaps)
    yield Figure("deploy, gap of a shard, longest", max(passed.gaps_s), "s", detail=gaps)
    yield Figure("deploy, refused claims", passed.refused_share, "%", goal_max=REFUSED_MAX, detail=_claims([passed]))


def _steadily(size: Size) -> Passed:
    fleet, _ = cold_start(size)
    calm(fleet, 60)
    return calm(fleet, 60)


# --- what a run shows -------------------------------------------------------------------------------------


def _cold(name: str, size: Size, runs: Sequence[Passed]) -> Iterator[Figure]:
    starts = sum(run.starts for run in runs) / (size.shards * len(runs))
    made = sum(run.calls["creations"] for run in runs) / (size.shards * len(runs))
    yield Figure(f"{name}, cold start, all owned", max(run.seconds for run in runs), "s", detail=_size(size))
    yield Figure(f"{name}, cold start, starts of each shard", starts, "", goal_max=STARTS_MAX)
    yield Figure(f"{name}, cold start, creations of each row", made, "", detail="refused ones among them")
    yield Figure(f"{name}, cold start, refused claims", _refused(runs), "%", goal_max=REFUSED_MAX, detail=_claims(runs))


def _lost(name: str, size: Size, runs: Sequence[Passed], what: str) -> Iterator[Figure]:
    goal_s = size.lease_s + 3.0
    detail = f"{what}, T = {size.lease_s} s"
    yield Figure(
        f"{name}, loss, all owned again", max(run.seconds for run in runs), "s", goal_max=goal_s, detail=detail
    )
    yield Figure(f"{name}, loss, refused claims", _refused(runs), "%", goal_max=REFUSED_MAX, detail=_claims(runs))


def _steady(name: str, size: Size, passed: Passed) -> Iterator[Figure]:
    minutes, calls = passed.seconds / 60, passed.calls
    reads = calls["reads"] + calls["rows read"] * costs.ROW_BYTES / costs.READ_UNIT_BYTES
    month = costs.MONTH_S / passed.seconds
    per_shard = costs.units_usd(calls["writes"] * month, reads * month) / size.shards
    prefix = f"{name}, steady minute"
    yield Figure(f"{prefix}, write units", calls["writes"] / minutes, "", detail=_size(size))
    yield Figure(f"{prefix}, snapshots", calls["snapshots"] / minutes, "", detail="of the whole table, by all hosts")
    yield Figure(f"{prefix}, read units, at most", reads / minutes, "", detail="rows of 1 KiB")
    yield Figure(f"{prefix}, claims", calls["claims"] / minutes, "")
    yield Figure(f"{name}, a shard each month, at most", per_shard, "USD", detail="on-demand, us-east-1, November 2026")


def _refused(runs: Sequence[Passed]) -> float:
    return 100 * sum(run.calls["claims refused"] for run in runs) / max(1, sum(run.calls["claims"] for run in runs))


def _claims(runs: Sequence[Passed]) -> str:
    return f"of {sum(run.calls['claims'] for run in runs):,} claims"


def _size(size: Size) -> str:
    return f"{size.supervisors} hosts, {size.shards:,} shards, T = {size.lease_s} s"


# --- what a step costs ------------------------------------------------------------------------------------


def steps(rounds: int = 5) -> Iterator[Figure]:
    """CPU of one step of a supervisor that knows all rows of the fleet, on this machine."""
    ids = [f"ip-10-0-0-{number}:1:{number:016x}" for number in range(WHOLE.supervisors)]
    state = replace(begin(WHOLE.rules(), ids[0], 0), stage="active", own_seen=5, polls=20)
    steady_ms = []
    for beat in range(1, rounds + 1):
        state, took_ms = _step(state, model.Snapshotted(_rows(ids, beat), beat * 5 * SECOND - 1), beat * 5 * SECOND)
        steady_ms.append(took_ms)
    yield _took("step, a snapshot in which nothing happened", steady_ms)
    now_ns = rounds * 5 * SECOND + 1
    quiet = replace(state, round_ns=2**62, snapshot_ns=2**62)
    yield _took("step, a tick", [_step(quiet, model.Ticked(), now_ns)[1] for _ in range(rounds)])
    answer = model.ReadFailed(next(iter(WHOLE.rules().shards)), "none")
    yield _took("step, an answer", [_step(quiet, answer, now_ns)[1] for _ in range(rounds)])
    fresh = replace(begin(WHOLE.rules(), ids[0], 0), stage="active", own_seen=5, polls=1)
    free = model.Snapshotted(_rows(ids, 0), SECOND - 1)
    yield _took("step, a snapshot in which all rows are free", [_step(fresh, free, SECOND)[1] for _ in range(2)])


def _rows(ids: Sequence[str], beat: int) -> Snapshot:
    """All shards owned by the others; at beat 0 by nobody."""
    folded, count = WHOLE.rules().folded, WHOLE.shards
    owners = [ids[1 + index % (len(ids) - 1)] if beat else None for index in range(count)]
    leases = {f"s/{index}": Lease(f"s/{index}", owners[index], 5, beat, "n", 10_000) for index in range(count)}
    members = {name: Member(name, "sim", "active", beat, str(beat), 10_000, count, folded) for name in ids}
    return Snapshot(leases, members, {})


def _step(state: State, event: model.Event, now_ns: int) -> tuple[State, float]:
    begun_s = time.process_time()
    state, _ = leaseset.step(state, event, Moment(now_ns, 1, bytes(8)))
    leaseset.due_ns(state)
    return state, (time.process_time() - begun_s) * 1000


def _took(name: str, took_ms: Sequence[float]) -> Figure:
    return Figure(
        name, statistics.median(took_ms), "ms", detail=f"CPU, {WHOLE.shards:,} shards, {WHOLE.supervisors} hosts"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()

    def figures() -> Iterator[Figure]:
        for part in (steps, ten_tables, rolling_deploy, one_table):
            yield from part()

    return report(figures(), options.json)


if __name__ == "__main__":
    sys.exit(main())
