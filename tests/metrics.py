"""The vocabulary of the tests of metrics: a supervisor of which every metric has a value, and pages read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from supervisor import model
from supervisor.families import Family
from supervisor.metrics import Metrics
from supervisor.model import ShardRule
from supervisor.phases import Dying, Shard
from supervisor.records import Snapshot
from supervisor.state import State
from supervisor.writes import Applied, Refused, Unknown
from tests.core import ME, claim, free, lease, mine, moment, ns, report, saw, snapshot, state

NOW_S = 3.0
HOSTILE = ('a"b\\c\nd', "\\n", "ключ/🔑", "tab\t cr\r nul\0", 'x{y="z"} 1', "")


class Clock:
    """A clock that stands where it was put."""

    def __init__(self, seconds: float = NOW_S) -> None:
        self.seconds = seconds

    def __call__(self) -> int:
        return ns(self.seconds)


def ruled(known: State, *names: str) -> State:
    """With these shards configured too."""
    shards = {**known.rules.shards, **{name: ShardRule() for name in names}}
    return replace(known, rules=replace(known.rules, shards=shards))


def seen(known: State, now_s: float, found: Snapshot) -> State:
    return saw(known, now_s, found)


def loaded(*names: str, version: str = "1.0") -> Metrics:
    """A supervisor that holds shards of these names, has seen one free, lost one, and counted one of everything."""
    found = snapshot(free(shard="free/0"), lease(shard="paused/0", paused=True, owner=None))
    ours = [mine(name, epoch=number + 1) for number, name in enumerate(names)]
    lost = Shard("lost/0", ShardRule(), Dying(7, ns(0), f"{ME} owns epoch 8"))
    made = ruled(state(*ours, lost), *names, "lost/0", "free/0", "paused/0")
    metrics = Metrics(version, Clock())
    metrics.heard(model.Snapshotted(found, ns(0)))
    metrics.stepped(saw(saw(made, 0, found), 2, found), ns(2.5))
    reports = {name: report(2, epoch=number + 1, messages=5, bytes=50) for number, name in enumerate(names)}
    metrics.reported(reports, stuck_calls=1, fork_servers=1)
    for outcome in (Applied(), Refused(None), Unknown("no answer in time")):
        metrics.heard(model.Answered(claim(), outcome))
    metrics.performed(model.Log("info", "lease.claimed", "s/0", 8, "restart"))
    metrics.killed("lost", 2.0)
    metrics.loop_lag(0.0004)
    return metrics


def read(page: bytes) -> dict[str, Metric]:
    """The families of a page, by the name that stands in its TYPE lines."""
    families = {}
    for family in text_string_to_metric_families(page.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name not in families, f"{name} stands twice"
        families[name] = family
    return families


def value(metrics: Metrics, family: Family | str, **labels: str) -> float | None:
    """The value of one series in a page rendered now; None: there is none."""
    name = family if isinstance(family, str) else family.name
    found = [sample.value for sample in read(fresh(metrics))[name].samples if matches(sample.labels, labels)]
    assert len(found) <= 1, f"{len(found)} series of {name} with {labels}"
    return found[0] if found else None


def fresh(metrics: Metrics) -> bytes:
    """A page that is not the one kept from before."""
    clock = metrics._now_ns
    assert isinstance(clock, Clock)
    clock.seconds += 1
    return metrics.render()


def matches(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return dict(labels) == dict(wanted)


__all__ = ["HOSTILE", "NOW_S", "Clock", "fresh", "loaded", "moment", "read", "ruled", "seen", "value"]
