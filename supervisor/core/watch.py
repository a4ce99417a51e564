"""Expiry by observation: what we have seen of other owners and members, and for how long it has not changed.

An observer that has seen the same owner, epoch and beat for the row's duration on its own clock, counted from the
receipt of the row, may claim. What holds:

- only complete snapshots start or clear a clock; a keyed, failed or partial read does neither;
- a row seen missing loses its clock; a row below the highest epoch that we saw (a restored one) counts as just
  observed, also when it is free;
- a free row whose owner an operator removed (`forced`) is observed like an owned one, since its child may still live;
- who is proven dead (`dead`) has no clock at all: what it owned is as good as free;
- after a lease duration in which we saw nothing, who has not moved is spared for two polls, once: in an outage of the
  store all clocks run out at once, and at its end everybody would claim everybody's shards. A lease under `hold` is
  spared for its whole duration, since its child need not be dead;
- wall clocks play no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from supervisor.core.model import MS
from supervisor.records import DURATION_MAX_MS, Lease, Member, Snapshot

DEAD_DURATIONS = 10


@dataclass(frozen=True, slots=True)
class Sighting:
    """The same `mark` was seen from `since_ns` (received) on; `duration_ns` is what its row promises; `moved` says that
    we saw another mark before, so that somebody was alive; `spared`, that its expiry was put off after we had been
    blind."""

    mark: tuple[object, ...]
    since_ns: int
    duration_ns: int
    moved: bool = False
    spared: bool = False

    @property
    def expires_ns(self) -> int:
        return self.since_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class Watch:
    """Everything observed so far. `longest_ns`: the longest duration that any row, any member or our own file ever
    promised."""

    leases: Mapping[str, Sighting] = field(default_factory=dict)
    members: Mapping[str, Sighting] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)  # rows that were there, and when each was first seen missing
    watched_ns: int = 0  # since when we have looked again and again, without a gap that could hide a row
    longest_ns: int = 0
    seen_ns: int = 0  # when the last complete snapshot was received
    bad: Mapping[str, int] = field(default_factory=dict)  # rows that do not parse, and since when they do not
    alone: bool = True  # no other member, but for the dead, and no lease row was seen since the start
    dead: frozenset[str] = frozenset()  # earlier incarnations of ours, proven dead


def _sight(old: Sighting | None, mark: tuple[object, ...], duration_ms: int, now_ns: int, spare_ns: int) -> Sighting:
    """`spare_ns`: for how long from now what has not moved is spared; 0 unless we were blind."""
    duration_ns = duration_ms * MS
    if old is None or old.mark != mark:
        return Sighting(mark, now_ns, duration_ns, moved=old is not None)
    if duration_ns > old.duration_ns:
        old = replace(old, duration_ns=duration_ns)
    if spare_ns and not old.spared and old.expires_ns < now_ns + spare_ns:
        old = replace(old, since_ns=now_ns + spare_ns - old.duration_ns, spared=True)
    return old


def observe(watch: Watch, snapshot: Snapshot, me: str, now_ns: int, gap_max_ns: int, poll_ns: int) -> Watch:
    """The watch after a complete snapshot received at `now_ns`. The same triple seen twice was never another one in
    between, however long that was; but a row missing twice may have come and gone, so that the clock of a missing row
    bridges no gap of more than `gap_max_ns`."""
    blind_ns = now_ns - watch.seen_ns if watch.seen_ns else 0

    def spare_ns(row: Lease | Member) -> int:
        held = isinstance(row, Lease) and row.policy == "hold"
        return 0 if blind_ns <= row.duration_ms * MS else row.duration_ms * MS if held else 2 * poll_ns

    leases = {
        name: _sight(watch.leases.get(name), row.triple, row.duration_ms, now_ns, spare_ns(row))
        for name, row in snapshot.leases.items()
    }
    members = {
        name: _sight(watch.members.get(name), (row.beat, row.nonce), row.duration_ms, now_ns, spare_ns(row))
        for name, row in snapshot.members.items()
    }
    bridged = bool(watch.seen_ns) and blind_ns <= gap_max_ns
    durations = (sighting.duration_ns for seen in (leases, members) for sighting in seen.values())
    return Watch(
        leases=leases,
        members=members,
        gone=_gone(watch, leases.keys() | snapshot.bad.keys(), now_ns) if bridged else {},
        watched_ns=watch.watched_ns if bridged else now_ns,
        longest_ns=max(watch.longest_ns, *durations, 0),
        seen_ns=now_ns,
        bad={name: watch.bad.get(name, now_ns) for name in snapshot.bad},
        alone=watch.alone and not leases and not snapshot.bad and members.keys() <= {me, *watch.dead},
        dead=watch.dead,
    )


def _gone(watch: Watch, present: AbstractSet[str], now_ns: int) -> dict[str, int]:
    """Who has been away for longer than any lease may last was away for all that time."""
    young = {name: since_ns for name, since_ns in watch.gone.items() if now_ns < since_ns + DURATION_MAX_MS * MS}
    vanished = dict.fromkeys((watch.leases.keys() | watch.bad) - present, now_ns)
    return {name: since_ns for name, since_ns in (vanished | young).items() if name not in present}


def missing_ns(watch: Watch, shard: str) -> int | None:
    """Since when the shard's row has been missing, as far as we can know; None: it is there, or nothing was seen."""
    if not watch.seen_ns or shard in watch.leases or shard in watch.bad:
        return None
    return watch.gone.get(shard, watch.watched_ns)


def claimable(watch: Watch, row: Lease, seen: int, now_ns: int) -> bool:
    """Whether a row, as just read, may be claimed. `seen`: the highest epoch that we ever saw in it."""
    sighting = watch.leases.get(row.shard)
    if row.paused:
        return False
    unowned = row.owner is None and not row.forced
    if (unowned or row.owner in watch.dead) and row.epoch >= seen:
        return True
    if sighting is None or sighting.mark != row.triple:
        return False
    duration_ns = max(sighting.duration_ns, row.duration_ms * MS)
    return now_ns >= sighting.since_ns + duration_ns


def open_since_ns(sighting: Sighting, row: Lease) -> int:
    """From when on anybody may claim a row that stays as it is."""
    return sighting.since_ns if row.owner is None and not row.forced else sighting.expires_ns


def creatable(watch: Watch, shard: str, now_ns: int, at_once: bool) -> bool:
    """Whether the missing row of a configured shard may be created: a deleted row may have a live child, unless
    nobody else was ever there, or (`at_once`) nobody was there a moment ago, when we joined."""
    since_ns = missing_ns(watch, shard)
    return since_ns is not None and (at_once or watch.alone or now_ns >= since_ns + watch.longest_ns)


def live(watch: Watch, snapshot: Snapshot, now_ns: int) -> list[Member]:
    """The members whose beat moved within their duration, or which are new to us."""
    return [
        row
        for name, row in snapshot.members.items()
        if now_ns < watch.members[name].expires_ns and name not in watch.dead
    ]


def long_dead(watch: Watch, snapshot: Snapshot, now_ns: int) -> list[Member]:
    """The members whose beat has not moved for ten durations, or which are proven dead: their rows only cost
    everybody's snapshots."""
    return [
        row
        for name, row in snapshot.members.items()
        if name in watch.dead
        or now_ns >= watch.members[name].since_ns + DEAD_DURATIONS * watch.members[name].duration_ns
    ]


def next_expiry(watch: Watch, shards: Iterable[str], now_ns: int) -> int | None:
    """The earliest future expiry of a member, or of a lease or missing row among `shards`."""
    instants = [sighting.expires_ns for sighting in watch.members.values()]
    for shard in shards:
        if shard in watch.leases:
            instants.append(watch.leases[shard].expires_ns)
        elif (since_ns := missing_ns(watch, shard)) is not None:
            instants.append(since_ns + watch.longest_ns)
    return min((instant for instant in instants if instant > now_ns), default=None)
