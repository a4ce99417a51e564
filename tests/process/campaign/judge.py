"""Whether the promises were kept in a campaign, judged from the feed's side and the sinks' side. Pure.

- overlap: two connections of a shard, of different epochs or supervisors, open at one instant by the feed's clock. A
  connection is open from its upgrade until the feed read its end; that of a killed child ends when the kernel says so.
- epoch back: a connection under an epoch below one that had connected before; or a line of a sink under an epoch below
  one that stands above it in the same sink.
- stale: an event that a child received after a higher epoch of its shard had received its first one.
- trouble: whatever the story names that no fault excuses.
- slow: a recovery that took longer than two lease durations, two polls and `SLACK_S`.

**Time to recover.** A shard's outage is a pause of more than `QUIET_NS` between two events that arrived, whoever
delivered them. Within it the clock runs while all of this holds, and starts anew at zero when it holds again:

- some one supervisor is *able*: it runs, for at least `START_UP_NS`, and neither it nor its way to the store is struck;
- the shard itself is not struck: its row is not garbled and not missing, its child not frozen, and its row does not
  name a supervisor that keeps renewing while its fork server is frozen (the start budget bounds that, not the lease);
- the lease does not come to stand in the name of a struck supervisor: neither is its able owner struck (the clock
  starts at that instant: a kill of the owner is the common case), nor does a supervisor claim it that is struck.

An outage gives one recovery: the longest run of that clock for any one supervisor, also where a new fault cut it short
before the shard streamed. Outages in which it never ran give none, and neither do shards that were not touched. A pause
without any fault, such as a planned move, is counted from its first instant. How long a deleted row is missing is
counted apart, by the longest time for which some one supervisor was able meanwhile: whoever makes it again must have
seen it missing for a lease duration, since it may have a live child.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from supervisor.demo import verdict
from supervisor.demo.record import Delivery
from tests.process.campaign.story import SECOND_NS, Life, Owning, Story, Strike

QUIET_NS = SECOND_NS // 2
START_UP_NS = 2 * SECOND_NS
POLL_S = 1.0
SLACK_S = 5.0

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Violation:
    """`since_ns`: from where on one must look to understand it, up to `at_ns`."""

    rule: str
    shard: str
    at_ns: int
    text: str
    since_ns: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """The outage lasted from the event at `down_ns` to the one at `up_ns`; at `clear_ns` the clock started that ran for
    `took_s`."""

    shard: str
    down_ns: int
    up_ns: int
    clear_ns: int
    took_s: float
    cause: str


@dataclass(frozen=True, slots=True)
class Judgement:
    violations: tuple[Violation, ...]
    recoveries: tuple[Recovery, ...]
    outages: int
    missing_s: tuple[float, ...] = ()  # for each time at which a row was missing

    def count(self, rule: str) -> int:
        return sum(each.rule == rule for each in self.violations)


def judge(story: Story) -> Judgement:
    outages = list(_outages(story))
    recoveries = tuple(_recoveries(story, outages))
    slow_s = 2 * story.lease_s + 2 * POLL_S + SLACK_S
    slow = (
        Violation(
            "slow",
            each.shard,
            each.up_ns,
            f"not served for {each.took_s:.2f} s, expected {slow_s:g} s",
            each.down_ns,
        )
        for each in recoveries
        if each.took_s > slow_s
    )
    trouble = (Violation("trouble", "", story.ended_ns, text, story.ended_ns) for text in story.troubles)
    return Judgement(
        (*_seen_by_the_feed(story), *_seen_in_sinks(story), *slow, *trouble),
        recoveries,
        len(outages),
        tuple(_missing(story)),
    )


# --- who was connected, what was delivered ----------------------------------------------------------------


def _seen_by_the_feed(story: Story) -> Iterator[Violation]:
    newest_first = sorted(story.arrivals, key=lambda each: (each.at_ns, each.epoch, each.seq))
    deliveries = [Delivery(each.shard, each.epoch, each.seq, each.event) for each in newest_first]
    found = verdict.judge(story.feed, deliveries, None)
    for overlap in found.overlaps:
        earlier, later = overlap.earlier, overlap.later
        open_ms = ((earlier.closed_ns or story.ended_ns) - later.opened_ns) / 1e6
        text = (
            f"epoch {earlier.epoch} at {earlier.supervisor} was open for another {open_ms:.1f} ms "
            f"when epoch {later.epoch} at {later.supervisor} connected"
        )
        yield Violation("overlap", overlap.shard, later.opened_ns, text, later.opened_ns)
    for each in found.returned:
        text = f"epoch {each.epoch} connected at {each.supervisor} after a higher one had"
        yield Violation("epoch back", each.shard, each.opened_ns, text, each.opened_ns)


def _seen_in_sinks(story: Story) -> Iterator[Violation]:
    first_ns: dict[str, dict[int, int]] = defaultdict(dict)
    highest: dict[tuple[str, str], int] = {}
    for each in story.arrivals:
        known = first_ns[each.shard]
        known[each.epoch] = min(each.at_ns, known.get(each.epoch, each.at_ns))
        above = highest.get((each.supervisor, each.shard), 0)
        if each.epoch < above:
            text = f"epoch {each.epoch} seq {each.seq} stands below epoch {above} in the sink of {each.supervisor}"
            yield Violation("epoch back", each.shard, each.at_ns, text, each.at_ns)
        highest[each.supervisor, each.shard] = max(above, each.epoch)
    over_ns = {shard: _over_ns(known) for shard, known in first_ns.items()}
    for each in story.arrivals:
        after_ns = each.at_ns - over_ns[each.shard].get(each.epoch, each.at_ns)
        if after_ns > 0:
            text = (
                f"epoch {each.epoch} seq {each.seq} was received {after_ns / 1e6:.1f} ms after a higher epoch's first"
            )
            yield Violation("stale", each.shard, each.at_ns, text, each.at_ns)


def _over_ns(first_ns: Mapping[int, int]) -> dict[int, int]:
    """For each epoch, when the first event of any higher one was received."""
    over: dict[int, int] = {}
    earliest_ns: int | None = None
    for epoch in sorted(first_ns, reverse=True):
        if earliest_ns is not None:
            over[epoch] = earliest_ns
        earliest_ns = min(first_ns[epoch], earliest_ns or first_ns[epoch])
    return over


# --- time to recover --------------------------------------------------------------------------------------


def _outages(story: Story) -> Iterator[tuple[str, Span]]:
    heard: dict[str, list[int]] = {shard: [story.began_ns] for shard in story.shards}
    for each in sorted(story.arrivals, key=attrgetter("at_ns")):
        if story.began_ns < each.at_ns < story.ended_ns and each.shard in heard:
            heard[each.shard].append(each.at_ns)
    for shard, instants in heard.items():
        ends = [*instants[1:], story.ended_ns]
        yield from ((shard, (one, next_)) for one, next_ in zip(instants, ends, strict=True) if next_ - one > QUIET_NS)


def _recoveries(story: Story, outages: Iterable[tuple[str, Span]]) -> Iterator[Recovery]:
    ables = [_able(story, life) for life in story.lives]
    holes = {shard: list(_holes(story, shard)) for shard in story.shards}
    common = [((each.began_ns, _end(story, each)), each.kind) for each in story.strikes if _hits_all(each)]
    for shard, outage in outages:
        cuts = [span for span, _ in holes[shard] if span[0] <= outage[1] and span[1] >= outage[0]]
        runs = [run for able in ables for run in without(list(_within(able, outage)), cuts)]
        if runs:
            start_ns, end_ns = max(runs, key=lambda run: run[1] - run[0])
            cause = _cause([*holes[shard], *common], outage[0] - story.lease_ns, start_ns)
            yield Recovery(shard, *outage, start_ns, (end_ns - start_ns) / SECOND_NS, cause)


def _cause(faults: Iterable[tuple[Span, str]], since_ns: int, start_ns: int) -> str:
    """The kind of the fault that began or ended last before the clock started; a lease outlives a fault by so long."""
    instants = ((at_ns, kind) for span, kind in faults for at_ns in span if since_ns <= at_ns <= start_ns)
    return max(instants, default=(0, "none"))[1]


def _hits_all(strike: Strike) -> bool:
    return not (strike.supervisor or strike.shard)


def _end(story: Story, thing: Life | Strike) -> int:
    return story.ended_ns if thing.ended_ns is None else thing.ended_ns


def _struck(story: Story, life: Life) -> list[tuple[Span, str]]:
    """When this process, its way to the store, or the store was struck; from its death on, for ever."""
    spans = [
        ((max(each.began_ns, life.started_ns), _end(story, each)), each.kind)
        for each in story.strikes
        if (each.supervisor == life.supervisor or _hits_all(each)) and _end(story, each) >= life.started_ns
    ]
    if life.ended_ns is not None:
        spans.append(((life.ended_ns, max(life.ended_ns, story.ended_ns)), "death"))
    return spans


def _able(story: Story, life: Life) -> list[Span]:
    run = (life.started_ns + START_UP_NS, _end(story, life))
    return without([run], [span for span, _ in _struck(story, life)]) if run[0] < run[1] else []


def _missing(story: Story) -> Iterator[float]:
    ables = [_able(story, life) for life in story.lives]
    for shard in story.shards:
        for owning, span in _ownings(story, shard):
            if owning.epoch is None:
                yield max((end - start for able in ables for start, end in _within(able, span)), default=0) / SECOND_NS


def _ownings(story: Story, shard: str) -> Iterator[tuple[Owning, Span]]:
    """What stood in the row of a shard, from when to when."""
    ownings = sorted((each for each in story.ownings if each.shard == shard), key=attrgetter("since_ns"))
    ends = [*(each.since_ns for each in ownings[1:]), story.ended_ns]
    yield from ((owning, (owning.since_ns, end_ns)) for owning, end_ns in zip(ownings, ends, strict=True))


def _holes(story: Story, shard: str) -> Iterator[tuple[Span, str]]:
    """When the clock of a shard does not run, and, of no length, when it starts anew; each with the fault's kind."""
    for each in story.strikes:
        if each.shard == shard:
            yield (each.began_ns, _end(story, each)), each.kind
    for owning, span in _ownings(story, shard):
        if owning.epoch is None:
            yield span, "delete"
        life = _owner(story.lives, owning)
        if life is None:
            continue
        struck = [(clipped, kind) for spell, kind in _struck(story, life) for clipped in _within([spell], span)]
        for began_ns, kind in _edges(struck):
            yield (began_ns, began_ns), kind
        yield from ((spell, kind) for spell, kind in struck if kind == "freeze-server")


def _owner(lives: Iterable[Life], owning: Owning) -> Life | None:
    alike = [life for life in lives if life.pid == owning.pid]
    return max(alike, key=attrgetter("started_ns"), default=None)


def _edges(struck: Iterable[tuple[Span, str]]) -> Iterator[tuple[int, str]]:
    """The beginning of each uninterrupted time under faults, with the kind that began it."""
    until_ns = -1
    for (began_ns, ended_ns), kind in sorted(struck):
        if began_ns > until_ns:
            yield began_ns, kind
        until_ns = max(until_ns, ended_ns)


def _within(spans: Iterable[Span], bounds: Span) -> Iterator[Span]:
    for start, end in spans:
        if start <= bounds[1] and end >= bounds[0]:
            yield max(start, bounds[0]), min(end, bounds[1])


def without(spans: Sequence[Span], holes: Iterable[Span]) -> list[Span]:
    """What is left of `spans`; a hole of no length cuts one in two. Nothing of no length is left."""
    left = list(spans)
    for low, high in holes:
        parts = ((part for part in ((start, min(end, low)), (max(start, high), end))) for start, end in left)
        left = [part for pair in parts for part in pair if part[0] < part[1]]
    return left


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest of `values` that at least `part` of them do not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * part) - 1)] if ordered else 0.0
