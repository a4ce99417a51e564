"""What happened to the shards, judged from the feed's record and the sink's lines. Pure.

The feed's record says who was connected and what was sent; the sink, one file that every child appends to under
a lock, says in which order events were delivered. No clock of a supervisor and no log line is believed.

- gap: for each shard that was connected at the killed supervisor, from the kill to the next connection elsewhere;
- overlap: two connections of one shard, of different epochs or supervisors, open at the same time, however briefly;
- lost: sent on some connection, delivered by nobody. Events that were due within the last `IN_FLIGHT_MS` of every
  connection that carried them are `in_flight` instead: nobody can deliver what was on the wire when the end came,
  and a successor asks for it again;
- missed: due, but never sent to anybody: nobody was connected, and nobody asked for it afterwards;
- stale: delivered after a higher epoch of the shard had delivered; returned: connected after one had connected;
- duplicate: one event twice under one epoch, or two deliveries under one name (shard, epoch, seq). The same event
  under a higher epoch is `replayed`: a successor that resumes from a checkpoint delivers what came after it again.

It does not promise that "closed" is the instant of a death: it is when the feed read the end of the connection.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from supervisor.demo.record import Connection, Delivery, FeedRecord
from supervisor.demo.schedule import Schedule

IN_FLIGHT_MS = 250
TAKEOVER_ALLOWANCE_MS = 1500  # beyond T: one poll, one claim, one start, one connect
GOING_AWAY = 1001
MS_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Kill:
    supervisor: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Gap:
    """`length_ms` None: nobody else ever connected."""

    shard: str
    length_ms: float | None


@dataclass(frozen=True, slots=True)
class Overlap:
    shard: str
    earlier: Connection
    later: Connection


@dataclass(frozen=True, slots=True)
class Verdict:
    connections: int
    gaps: tuple[Gap, ...]
    overlaps: tuple[Overlap, ...]
    returned: tuple[Connection, ...]
    unclean: tuple[Connection, ...]  # of supervisors that were not killed, ended without the close frame of a stop
    sent: int
    delivered: int
    lost: tuple[tuple[str, int], ...]
    missed: int
    in_flight: int
    replayed: int
    duplicates: int
    stale: tuple[Delivery, ...]
    torn: int


@dataclass(frozen=True, slots=True)
class Promise:
    text: str
    kept: bool
    figure: str


def judge(record: FeedRecord, deliveries: Sequence[Delivery], kill: Kill | None, torn: int = 0) -> Verdict:
    """`deliveries` in the order of the sink; `torn` is the number of its lines that did not parse."""
    shards: dict[str, list[Connection]] = defaultdict(list)
    for connection in sorted(record.connections, key=lambda each: each.opened_ns):
        shards[connection.shard].append(connection)
    delivered = {(each.shard, each.event) for each in deliveries}
    lost: list[tuple[str, int]] = []
    sent = missed = in_flight = 0
    for shard, connections in shards.items():
        everything, certain = _sent(connections, record.schedule)
        undelivered = {event for event in everything if (shard, event) not in delivered}
        lost += [(shard, event) for event in sorted(undelivered & certain)]
        in_flight += len(undelivered - certain)
        sent += len(everything)
        missed += max(everything) - min(everything) + 1 - len(everything) if everything else 0
    replayed, duplicates = _repeats(deliveries)
    return Verdict(
        connections=len(record.connections),
        gaps=_gaps(shards, kill) if kill else (),
        overlaps=tuple(chain.from_iterable(_overlaps(each) for each in shards.values())),
        returned=tuple(chain.from_iterable(_returned(each) for each in shards.values())),
        unclean=tuple(each for each in record.connections if _is_unclean(each, kill)),
        sent=sent,
        delivered=len(delivered),
        lost=tuple(lost),
        missed=missed,
        in_flight=in_flight,
        replayed=replayed,
        duplicates=duplicates,
        stale=_stale(deliveries),
        torn=torn,
    )


def _sent(connections: Iterable[Connection], schedule: Schedule) -> tuple[set[int], set[int]]:
    """All events sent to somebody, and those of them that were not in the tail of a connection that ended."""
    everything: set[int] = set()
    certain: set[int] = set()
    for connection in connections:
        for first, last in connection.sent:
            everything.update(range(first, last + 1))
            settled = last
            if connection.closed_ns is not None:
                settled = min(last, schedule.due(connection.closed_ns - IN_FLIGHT_MS * MS_NS))
            certain.update(range(first, settled + 1))
    return everything, certain


def _gaps(shards: dict[str, list[Connection]], kill: Kill) -> tuple[Gap, ...]:
    gaps: list[Gap] = []
    for shard, connections in sorted(shards.items()):
        if not any(_is_cut(connection, kill) for connection in connections):
            continue
        elsewhere = [
            connection.opened_ns
            for connection in connections
            if connection.supervisor != kill.supervisor and connection.opened_ns > kill.at_ns
        ]
        gaps.append(Gap(shard, (min(elsewhere) - kill.at_ns) / MS_NS if elsewhere else None))
    return tuple(gaps)


def _is_cut(connection: Connection, kill: Kill) -> bool:
    """It was open at the killed supervisor at the instant of the kill."""
    if connection.supervisor != kill.supervisor or connection.opened_ns > kill.at_ns:
        return False
    return connection.closed_ns is None or connection.closed_ns >= kill.at_ns


def _overlaps(connections: Sequence[Connection]) -> Iterable[Overlap]:
    """Of one shard, in the order of their opening. A connection that was never seen to close lasts for ever."""
    for index, later in enumerate(connections):
        for earlier in connections[:index]:
            is_open = earlier.closed_ns is None or earlier.closed_ns >= later.opened_ns
            if is_open and earlier.holder != later.holder:
                yield Overlap(later.shard, earlier, later)


def _returned(connections: Sequence[Connection]) -> Iterable[Connection]:
    highest = 0
    for connection in connections:
        if connection.epoch < highest:
            yield connection
        highest = max(highest, connection.epoch)


def _is_unclean(connection: Connection, kill: Kill | None) -> bool:
    return connection.code != GOING_AWAY and not (kill and connection.supervisor == kill.supervisor)


def _stale(deliveries: Iterable[Delivery]) -> tuple[Delivery, ...]:
    highest: dict[str, int] = {}
    stale: list[Delivery] = []
    for each in deliveries:
        if each.epoch < highest.get(each.shard, 0):
            stale.append(each)
        highest[each.shard] = max(each.epoch, highest.get(each.shard, 0))
    return tuple(stale)


def _repeats(deliveries: Sequence[Delivery]) -> tuple[int, int]:
    """(replayed under another epoch, duplicates: an event twice under one epoch or a name used twice)"""
    names = Counter((each.shard, each.epoch, each.seq) for each in deliveries)
    per_epoch = Counter((each.shard, each.epoch, each.event) for each in deliveries)
    events = Counter((shard, event) for shard, _, event in per_epoch)
    surplus = sum(count - 1 for count in per_epoch.values())
    return sum(count - 1 for count in events.values()), max(surplus, sum(count - 1 for count in names.values()))


def promises(verdict: Verdict, duration_ms: int) -> tuple[Promise, ...]:
    """What tenured promises for a lease of `duration_ms`, each with whether it was kept and the figure that says so."""
    return (
        _takeover(verdict, duration_ms + TAKEOVER_ALLOWANCE_MS),
        Promise(
            "no two epochs of a shard are ever connected at once",
            not verdict.overlaps and verdict.connections > 0,
            f"{len(verdict.overlaps)} overlaps among {verdict.connections} connections",
        ),
        Promise(
            "nothing comes from an epoch that was succeeded",
            not verdict.stale and not verdict.returned,
            f"{len(verdict.stale)} deliveries, {len(verdict.returned)} connections",
        ),
        Promise(
            "no event is lost",
            not verdict.lost and not verdict.missed and verdict.delivered > 0,
            f"{len(verdict.lost) + verdict.missed} lost of {verdict.sent + verdict.missed} events, "
            f"{verdict.delivered} delivered, {verdict.replayed} of them again after the takeover, "
            f"{verdict.in_flight} on the wire at the end, {verdict.torn} torn lines",
        ),
        Promise("no event is delivered twice under one epoch", not verdict.duplicates, f"{verdict.duplicates} twice"),
        Promise(
            "a supervisor that stops says goodbye on every connection",
            not verdict.unclean,
            f"{len(verdict.unclean)} connections ended without close code {GOING_AWAY}",
        ),
    )


def _takeover(verdict: Verdict, allowed_ms: int) -> Promise:
    lengths = [gap.length_ms for gap in verdict.gaps if gap.length_ms is not None]
    orphans = len(verdict.gaps) - len(lengths)
    slowest_ms = max(lengths, default=0.0)
    figure = f"{len(verdict.gaps)} shards, gap {min(lengths, default=0.0) / 1000:.2f} to {slowest_ms / 1000:.2f} s"
    if not verdict.gaps:
        figure = "the killed supervisor had no shard"
    elif orphans:
        figure = f"{orphans} of {len(verdict.gaps)} shards never streamed again"
    return Promise(
        f"every shard of the killed supervisor streams elsewhere within {allowed_ms / 1000:g} s",
        bool(verdict.gaps) and not orphans and slowest_ms <= allowed_ms,
        figure,
    )
