"""What a state of the lease set says in numbers: the values of all gauges, and of the counters of each shard. Pure.

A shard is ours from the claim that was won until its lease is released or its lost child is seen dead; only then does
it have values. Its counters run on over its children: `Tally` carries what those before the present one had counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import add, attrgetter

from supervisor.core.model import SECOND, Report
from supervisor.core.phases import Claiming, Dying, Held, Idle, Releasing, Shard, Vacant
from supervisor.core.state import State
from supervisor.core.tenure import Tenure
from supervisor.core.watch import missing_ns
from supervisor.metrics.families import PHASES, STAGES
from supervisor.records import Lease, Snapshot

Row = tuple[float | None, ...]

COUNTED = (
    *("messages", "bytes", "connects", "handler_errors", "gaps", "violations", "silences"),
    *("tokens_dropped", "events_dropped", "sink_retries"),
)
"""What a child counts from its start, by the names of a report; the order is that of `families.PER_SHARD`."""

_counts_of = attrgetter(*COUNTED)


@dataclass(frozen=True, slots=True)
class Tally:
    """What the children of a shard counted (see `COUNTED`) up to the end of the one of `epoch`."""

    epoch: int = 0
    counts: tuple[int, ...] = (0,) * len(COUNTED)

    def plus(self, report: Report) -> Tally:
        """With the numbers of a later child; those of one that was added already count once."""
        if report.epoch <= self.epoch:
            return self
        return Tally(report.epoch, tuple(map(add, self.counts, _counts_of(report))))


def seconds(ns: int) -> float:
    return round(ns / SECOND, 3)


def stage(state: State) -> dict[tuple[str, ...], float]:
    return {(name,): int(name == state.stage) for name in STAGES}


def phases(state: State) -> dict[tuple[str, ...], float]:
    counts = Counter(_phase(shard) for shard in state.shards.values())
    return {(name,): counts[name] for name in PHASES}


def _phase(shard: Shard) -> str:
    return shard.phase.stage if isinstance(shard.phase, Held) else type(shard.phase).__name__.lower()


def plain(state: State, snapshot: Snapshot | None, now_ns: int) -> dict[str, float]:
    """The gauges without labels that follow from the state alone, by name."""
    rules, seen_ns = state.rules, state.watch.seen_ns
    tenures = (tenure for shard in state.shards.values() if (tenure := tenure_of(shard)) is not None)
    durations = [rules.duration_ns, *(tenure.duration_ns for tenure in tenures)]
    values = {
        "tenured_lease_duration_seconds": seconds(rules.duration_ns),
        "tenured_shortest_lease_seconds": seconds(min(durations)),
        "tenured_longest_lease_seconds": seconds(max(durations)),
        "tenured_renew_interval_seconds": seconds(state.round_every_ns),
        "tenured_poll_interval_seconds": seconds(state.poll_ns),
        "tenured_store_reachable": int(state.reachable),
        "tenured_store_answer_age_seconds": seconds(now_ns - state.answered_ns),
        "tenured_live_members": state.live_members,
        "tenured_capacity_shards": rules.capacity,
        "tenured_configured_shards": len(rules.shards),
        "tenured_homeless_shards": state.homeless,
        "tenured_bad_rows": len(state.watch.bad),
        "tenured_paused_shards": len(_paused(state, snapshot)),
    }
    return values | ({"tenured_snapshot_age_seconds": seconds(now_ns - seen_ns)} if seen_ns else {})


def _paused(state: State, snapshot: Snapshot | None) -> set[str]:
    found = snapshot.leases if snapshot else {}
    return {name for name in state.rules.shards if name in found and found[name].paused}


def unowned(state: State, snapshot: Snapshot | None) -> dict[tuple[str, ...], float]:
    """For how long each configured shard had had no live owner at the last snapshot. Not by now: who cannot reach the
    store would soon take everybody else for dead."""
    found = snapshot.leases if snapshot else {}
    seen_ns = state.watch.seen_ns
    since = {
        name: _unowned_ns(state, name, found.get(name))
        for name in state.rules.shards.keys() - _paused(state, snapshot)
        if name in state.shards and tenure_of(state.shards[name]) is None
    }
    return {(name,): seconds(seen_ns - ns) for name, ns in sorted(since.items()) if ns is not None and ns <= seen_ns}


def _unowned_ns(state: State, name: str, row: Lease | None) -> int | None:
    if name in state.watch.bad:  # nobody can tell who owns it, and nobody may run it
        return state.watch.bad[name]
    sighting = state.watch.leases.get(name)
    if row is None or sighting is None:
        return missing_ns(state.watch, name)
    free = row.owner is None or row.owner in state.watch.dead
    return sighting.since_ns if free else sighting.expires_ns


def tenure_of(shard: Shard) -> Tenure | None:
    """The lease that is ours, as far as we know."""
    match shard.phase:
        case Held(tenure) | Vacant(tenure) | Releasing(tenure):
            return tenure
        case Claiming(tenure=tenure):
            return tenure
        case _:
            return None


def rows(
    state: State,
    reports: Mapping[str, Report],
    tallies: Mapping[str, Tally],
    restarts: Mapping[str, int],
    now_ns: int,
) -> Iterator[tuple[str, Row]]:
    """The values of each shard that is ours, in the order of `families.PER_SHARD`."""
    for name, shard in ours(state):
        tenure = tenure_of(shard)
        epoch = tenure.epoch if tenure else shard.phase.epoch if isinstance(shard.phase, Dying) else 0
        report = reports.get(name)
        tally = tallies.get(name, Tally())
        held = shard.phase if isinstance(shard.phase, Held) else None
        own = report if report and held and report.epoch == epoch else None
        total = tally.plus(report) if report else tally
        since_ns = (own.last_event_ns if own else 0) or (tenure.answered_ns if tenure else 0)
        yield (
            name,
            (
                int(held is not None and held.stage == "running"),
                epoch,
                own.open if own else 0,
                own.want if own else shard.rule.want if shard.rule else 0,
                seconds(now_ns - since_ns) if since_ns else None,
                seconds(now_ns - tenure.applied.sent_ns) if tenure else None,
                seconds(held.deadline_ns - now_ns) if held else None,
                own.sink_waiting_bytes if own else 0,
                seconds(max(0, now_ns - own.sink_stalled_ns)) if own and own.sink_stalled_ns else 0,
                *total.counts,
                restarts.get(name, 0),
            ),
        )


def ours(state: State) -> Iterable[tuple[str, Shard]]:
    return (
        (name, shard)
        for name, shard in state.shards.items()
        if not isinstance(shard.phase, Idle) and (isinstance(shard.phase, Dying) or tenure_of(shard) is not None)
    )
