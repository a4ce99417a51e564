"""What a supervisor counts, and the page of metrics made of it.

The loop calls all methods but `render`; each of them is a few additions or stores a reference, so that counting costs
the loop nothing to speak of. `render` runs in any other thread: it computes the gauges from the immutable state that
the loop left here, at most once a second however many ask, and rests between its parts, so that it never keeps the loop
from the interpreter for long. What holds:

- a counter never goes back while the supervisor lives, also that of a shard whose child is replaced, unless a reload
  takes the shard out of the configuration, and another one brings it back;
- a shard that is given up disappears, and goes on where it was when it comes back; its crashes stay.

Not promised: that two metrics of one page belong to the same instant.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import islice, product
from typing import assert_never

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from supervisor.changes import AGAIN
from supervisor.clock import unix_ms
from supervisor.core import model
from supervisor.core.model import SECOND, Report
from supervisor.core.state import State
from supervisor.metrics import exposition, families, gauges
from supervisor.metrics.families import COUNTERS, GAUGES, OTHER, PER_SHARD
from supervisor.metrics.gauges import Tally
from supervisor.records import Snapshot
from supervisor.writes import Applied, Outcome, Refused, Unknown
from workers.process.kernel import boottime_ns

KEPT_NS = SECOND  # for how long a page that was rendered is given to others
REST_S = 0.0002
REST_SHARDS = 50
KILL_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LAG_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_FAILURES = {"lease.lost": "lost", "lease.fenced": "fenced", "lease.conflict": "conflict"}


class Metrics:
    """See the head of this file. `version` is the supervisor's."""

    def __init__(self, version: str, now_ns: Callable[[], int] = boottime_ns) -> None:
        self._version = version
        self._now_ns = now_ns
        self._counts = {family.name: dict.fromkeys(product(*family.labels.values()), 0) for family in COUNTERS}
        self._kill_latency = exposition.Histogram(KILL_BOUNDS_S)
        self._loop_lag = exposition.Histogram(LAG_BOUNDS_S)
        self._state: State | None = None
        self._stepped_ns = 0
        self._snapshot: Snapshot | None = None
        self._reports: Mapping[str, Report] = {}
        self._tallies: dict[str, Tally] = {}
        self._restarts: dict[str, int] = {}
        self._crashes: dict[str, int] = {}
        self._stuck_calls = 0
        self._fork_servers = 0
        self._accepted = True
        self._accepted_unix_ms = unix_ms()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._rendering = threading.Lock()
        self._page = b""
        self._page_ns: int | None = None

    # --- on the loop --------------------------------------------------------------------------------------

    def stepped(self, state: State, now_ns: int) -> None:
        """After each step, before its event and its effects are told."""
        self._state, self._stepped_ns = state, now_ns

    def reported(
        self, reports: Mapping[str, Report], stuck_calls: int = 0, fork_servers: int = 0, lines_dropped: int = 0
    ) -> None:
        """At each tick; `reports` is not changed afterwards. `lines_dropped`: by the journal, ever."""
        self._reports, self._stuck_calls, self._fork_servers = reports, stuck_calls, fork_servers
        self._counts["tenured_log_lines_dropped_total"][()] = lines_dropped

    def killed(self, reason: str, latency_ms: float) -> None:
        """A killed child was seen dead, so long after what made the kill necessary."""
        self._count("tenured_kills_total", reason)
        self._kill_latency.observe(latency_ms / 1000)

    def loop_lag(self, seconds: float) -> None:
        """How much later than planned the loop turned."""
        self._loop_lag.observe(max(0.0, seconds))

    def heard(self, event: model.Event) -> None:
        """Every event that the lease set is given, once."""
        match event:
            case model.Answered(write, outcome):
                self._count("tenured_store_writes_total", families.WRITES.get(type(write), OTHER), _outcome(outcome))
            case model.RowRead():
                self._count("tenured_store_reads_total", "row", "answered")
            case model.ReadFailed():
                self._count("tenured_store_reads_total", "row", "failed")
            case model.Snapshotted(snapshot):
                self._snapshot = snapshot
                self._count("tenured_store_reads_total", "snapshot", "answered")
            case model.SnapshotFailed():
                self._count("tenured_store_reads_total", "snapshot", "failed")
            case model.Proved():
                self._count("tenured_store_reads_total", "probe", "answered")
            case model.ProofFailed():
                self._count("tenured_store_reads_total", "probe", "failed")
            case model.Exited(shard, _, report):
                self._count("tenured_children_exited_total")
                if report is not None:
                    self._tallies[shard] = self._tallies.get(shard, Tally()).plus(report)
                if self._has_crashed(shard):
                    self._crashes[shard] = self._crashes.get(shard, 0) + 1
            case model.Reconfigured(rules):
                self._accepted, self._accepted_unix_ms = True, unix_ms()
                self._count("tenured_config_reloads_total", "applied")
                self._forget_all_but(rules.shards.keys() | self._reports.keys())
            case model.ReloadRejected():
                self._accepted = False
                self._count("tenured_config_reloads_total", "rejected")
            case _:
                pass

    def performed(self, effect: model.Effect) -> None:
        """Every effect that the lease set asks for, once."""
        match effect:
            case model.Start():
                self._count("tenured_children_started_total")
            case model.Log(_, "lease.claimed", shard, _, reason):
                self._count("tenured_claims_won_total", reason)
                self._crashes.setdefault(shard, 0)
                if reason in AGAIN:
                    self._restarts[shard] = self._restarts.get(shard, 0) + 1
            case model.Log(_, "lease.released", _, _, reason):
                self._count("tenured_releases_total", reason.partition(";")[0])
            case model.Log(_, event, shard) if shard and event in _FAILURES:
                self._count("tenured_lease_failures_total", _FAILURES[event])
            case _:
                pass

    def _has_crashed(self, name: str) -> bool:
        """Whether the step that was just taken remembers a crash of the shard's child."""
        shard = self._state.shards.get(name) if self._state else None
        return shard is not None and shard.crashes[-1:] == (self._stepped_ns,)

    def _forget_all_but(self, shards: Set[str]) -> None:
        """What is neither configured nor running any more has no numbers, so that these are bounded."""
        self._tallies = {shard: tally for shard, tally in self._tallies.items() if shard in shards}
        self._restarts = {shard: count for shard, count in self._restarts.items() if shard in shards}
        self._crashes = {shard: count for shard, count in self._crashes.items() if shard in shards}

    def _count(self, name: str, *labels: str) -> None:
        """One more. What is on no list of a label counts as `other`, so that texts never become series."""
        counts = self._counts[name]
        counts[labels if labels in counts else (*labels[:-1], OTHER)] += 1

    # --- in any thread ------------------------------------------------------------------------------------

    def render(self) -> bytes:
        """The page, in `exposition.CONTENT_TYPE`; not older than a second."""
        with self._rendering:
            now_ns = self._now_ns()
            if self._page_ns is None or now_ns >= self._page_ns + KEPT_NS:
                parts = []
                for part in self._parts(now_ns):
                    parts.append(part)
                    time.sleep(REST_S)  # gives the interpreter to the loop, which may be waiting for it
                self._page = "".join(parts).encode(errors="replace")
                self._page_ns = now_ns
            return self._page

    def _parts(self, now_ns: int) -> Iterator[str]:
        state, snapshot = self._state, self._snapshot
        yield generate_latest(self._process).decode()
        if state is not None:
            yield self._info(state)
        yield from self._gauges(state, snapshot, now_ns)
        for family in COUNTERS:
            yield exposition.text(family, dict(self._counts[family.name]))
        yield self._kill_latency.text(families.KILL_LATENCY)
        yield self._loop_lag.text(families.LOOP_LAG)
        if state is not None:
            yield exposition.text(families.UNOWNED, gauges.unowned(state, snapshot))
            crashes: exposition.Values = {(shard,): count for shard, count in dict(self._crashes).items()}
            yield exposition.text(families.CRASHES, crashes)
            yield from self._per_shard(state, now_ns)

    def _info(self, state: State) -> str:
        rules = state.rules
        labels = (state.me, rules.fleet, rules.host, self._version, rules.digest)
        return exposition.text(families.INFO, {labels: 1})

    def _gauges(self, state: State | None, snapshot: Snapshot | None, now_ns: int) -> Iterator[str]:
        plain = {
            "tenured_stuck_calls": self._stuck_calls,
            "tenured_fork_servers": self._fork_servers,
            "tenured_config_last_reload_successful": int(self._accepted),
            "tenured_config_last_reload_success_timestamp_seconds": self._accepted_unix_ms / 1000,
        }
        labelled: dict[str, exposition.Values] = {}
        if state is not None:
            plain["tenured_step_age_seconds"] = gauges.seconds(now_ns - self._stepped_ns)
            plain |= gauges.plain(state, snapshot, now_ns)
            labelled = {"tenured_stage": gauges.stage(state), "tenured_shards": gauges.phases(state)}
        labelled |= {name: {(): value} for name, value in plain.items()}
        for family in GAUGES:
            yield exposition.text(family, labelled.get(family.name, {}))

    def _per_shard(self, state: State, now_ns: int) -> Iterator[str]:
        # The reports first: a child that ends meanwhile is then in the tallies, and not in neither of them.
        reports = self._reports
        tallies, restarts = dict(self._tallies), dict(self._restarts)
        rows = gauges.rows(state, reports, tallies, restarts, now_ns)
        shards: list[tuple[str, gauges.Row]] = []
        while some := list(islice(rows, REST_SHARDS)):
            shards += some
            yield ""
        labels = [exposition.escaped(name) for name, _ in shards]
        for index, family in enumerate(PER_SHARD):
            yield exposition.column(family, labels, [row[index] for _, row in shards])


def _outcome(outcome: Outcome) -> str:
    match outcome:
        case Applied():
            return "applied"
        case Refused():
            return "refused"
        case Unknown():
            return "unknown"
        case _:
            assert_never(outcome)
