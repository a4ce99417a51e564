"""What a campaign came to: a table of figures with their goals, and what happened around each violation."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import HEAD, Figure, line
from tests.process.campaign.history import history, log_entries
from tests.process.campaign.judge import POLL_S, Judgement, judge, percentile
from tests.process.campaign.story import SECOND_NS, Story
from workers.process.kernel import boottime_ns

SHOWN_MAX = 5


def figures(store: str, story: Story, found: Judgement) -> Iterator[Figure]:
    minutes = (story.ended_ns - story.began_ns) / SECOND_NS / 60
    struck = [each for each in story.strikes if each.kind != "stuck-store"]
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(each.kind for each in struck).items()))
    epochs = {(each.shard, each.epoch) for each in story.feed.connections}
    yield Figure(f"{store}: faults struck in {minutes:.1f} minutes", len(struck), "", None, kinds)
    yield Figure("connections that the feed saw", len(story.feed.connections), "", None, f"of {len(epochs)} epochs")
    yield Figure("events that arrived", len(story.arrivals), "")
    yield Figure("two epochs of a shard connected at once", found.count("overlap"), "", 0)
    yield Figure("epochs that went back, at the feed or in a sink", found.count("epoch back"), "", 0)
    yield Figure("stale deliveries", found.count("stale"), "", 0)
    yield Figure("tracebacks, unasked exits, shards never served again", found.count("trouble"), "", 0)
    yield Figure("recoveries beyond 2 T + 2 polls + 5 s", found.count("slow"), "", 0)
    took_s = [each.took_s for each in found.recoveries]
    detail = f"of {len(took_s)} recoveries in {found.outages} outages"
    yield Figure("time to recover, p50", percentile(took_s, 0.5), "s", None, detail)
    yield Figure("time to recover, p99", percentile(took_s, 0.99), "s", story.lease_s + 1.5)
    yield Figure("time to recover, max", max(took_s, default=0.0), "s")
    again_s, detail = max(found.missing_s, default=0.0), f"of {len(found.missing_s)}"
    yield Figure("a deleted row stands again, max", again_s, "s", 2 * story.lease_s + 2 * POLL_S, detail)


def causes(found: Judgement) -> Iterator[str]:
    """The time to recover by the fault that started its clock."""
    by_cause: dict[str, list[float]] = defaultdict(list)
    for each in found.recoveries:
        by_cause[each.cause].append(each.took_s)
    for cause, took_s in sorted(by_cause.items(), key=lambda item: -max(item[1])):
        p50_s, p99_s = percentile(took_s, 0.5), percentile(took_s, 0.99)
        yield f"  after {cause:<16} {len(took_s):>5}   p50 {p50_s:5.2f}   p99 {p99_s:5.2f}   max {max(took_s):5.2f} s"


def violations(story: Story, found: Judgement, folder: Path) -> Iterator[str]:
    """The first of each rule with what happened around it; all others by their sentence."""
    shown: Counter[str] = Counter()
    for each in found.violations:
        at_s = (each.at_ns - story.began_ns) / SECOND_NS
        yield f"\n{each.rule.upper()} {each.shard} at {at_s:.3f} s: {each.text}"
        shown[each.rule] += 1
        if shown[each.rule] <= SHOWN_MAX and each.shard:
            yield from around(story, each.shard, each.since_ns, each.at_ns, folder)


def around(story: Story, shard: str, since_ns: int, at_ns: int, folder: Path) -> list[str]:
    apart_ns = boottime_ns() - time.time_ns()
    names = sorted({each.supervisor for each in story.lives})
    logs = [entry for name in names for entry in log_entries(name, folder / name / "log", shard, apart_ns)]
    return history(story, shard, since_ns, at_ns, logs)


def tell(store: str, story: Story, folder: Path) -> bool:
    """Print everything; whether all was well."""
    found = judge(story)
    table = list(figures(store, story, found))
    print(HEAD, *map(line, table), "", *causes(found), sep="\n", flush=True)
    slowest = sorted(found.recoveries, key=lambda each: -each.took_s)[:SHOWN_MAX]
    with (folder / "slowest.txt").open("w") as file:
        for each in slowest:
            print(f"\n{each}", *around(story, each.shard, each.down_ns, each.up_ns, folder), sep="\n", file=file)
    if found.violations:
        report = "\n".join(violations(story, found, folder))
        (folder / "violations.txt").write_text(report)
        print(report)
    well = not found.violations and all(figure.met for figure in table)
    if not well:
        print(
            f"\nwhat the campaign left is in {folder}: violations.txt, slowest.txt, and a log and a sink per supervisor"
        )
    return well
