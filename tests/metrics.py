"""The vocabulary of the tests of metrics: a supervisor of which every metric has a value, and pages read back."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from supervisor.core import model
from supervisor.core.model import ShardRule
from supervisor.core.phases import Dying, Shard
from supervisor.core.state import State
from supervisor.metrics.metrics import Metrics
from supervisor.records import Snapshot
from supervisor.writes import Applied, Refused, Unknown
from tests.core import OTHER, claim, free, mine, ns, report, saw, snapshot, state

NOW_S = 3.0


class Clock:
    """A clock that stands where it was put."""

    def __init__(self, seconds: float = NOW_S) -> None:
        self.seconds = seconds

    def __call__(self) -> int:
        return ns(self.seconds)


class Bench:
    """Metrics under a clock of their own, each page of which is rendered anew, a second later than the last."""

    def __init__(self, known: State | None = None) -> None:
        self.clock = Clock()
        self.metrics = Metrics("1.0", self.clock)
        if known is not None:
            self.metrics.stepped(known, ns(NOW_S))

    def show(self, known: State, found: Snapshot | None = None) -> None:
        """This state, before which this snapshot was seen; its rows looked the same from 0 s on until now."""
        if found is not None:
            for seconds in (0, 1, 2, NOW_S):
                known = saw(known, seconds, found)
            self.metrics.heard(model.Snapshotted(found, ns(0)))
        self.metrics.stepped(known, ns(NOW_S))

    def page(self) -> dict[str, Metric]:
        self.clock.seconds += 1
        return read(self.metrics.render())

    def value(self, name: str, **labels: str) -> float | None:
        """The value of one series by now; None: there is none."""
        found = [sample.value for sample in self.page()[name].samples if sample.labels == labels]
        assert len(found) <= 1, f"{len(found)} series of {name} with {labels}"
        return found[0] if found else None


def ruled(known: State, *names: str) -> State:
    """With these shards configured too."""
    rules = replace(known.rules, shards={**known.rules.shards, **{name: ShardRule() for name in names}})
    idle = [Shard(name, rule) for name, rule in rules.shards.items() if name not in known.shards]
    return replace(known.with_shards(idle), rules=rules)


def loaded(*names: str) -> Bench:
    """A supervisor that holds shards of these names, has seen one free, lost one, and counted some of everything."""
    lost = Shard("lost/0", ShardRule(), Dying(7, ns(0), f"{OTHER} owns epoch 8"))
    ours = [mine(name, epoch=number) for number, name in enumerate(names, 1)]
    bench = Bench()
    bench.show(ruled(state(*ours, lost), *names, "free/0"), snapshot(free(shard="free/0")))
    metrics = bench.metrics
    reports = {name: report(2, epoch=number, messages=5, bytes=50) for number, name in enumerate(names, 1)}
    metrics.reported(reports, stuck_calls=1, fork_servers=1)
    for outcome in (Applied(), Refused(None), Unknown("no answer in time")):
        metrics.heard(model.Answered(claim(), outcome))
    metrics.performed(model.Log("info", "lease.claimed", "s/0", 8, "restart"))
    metrics.killed("lost", 2.0)
    metrics.loop_lag(0.0004)
    return bench


def read(page: bytes) -> dict[str, Metric]:
    """The families of a page, by the name that stands in its TYPE lines."""
    families = {}
    for family in text_string_to_metric_families(page.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name not in families, f"{name} stands twice"
        families[name] = family
    return families
