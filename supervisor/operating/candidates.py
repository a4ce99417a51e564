"""Who could take a shard, as a person judges that from one snapshot: by wall clocks. Pure.

A supervisor decides by what it has observed itself (`watch`, `fleet`); this is for commands, which look once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.core import wishes
from supervisor.names import Names, expand
from supervisor.records import Snapshot, short_id
from supervisor.showing.telling import short_host


@dataclass(frozen=True, slots=True)
class Candidate:
    """A supervisor that has a member row. `load`: the shards that it owns, and those on their way to it."""

    id: str
    host: str
    live: bool
    drains: bool
    renewed_at: int
    capacity: int
    load: int
    shards: Names

    @property
    def has_room(self) -> bool:
        return not self.drains and self.load < self.capacity


Candidates = Mapping[str, Candidate]


def candidates_in(snapshot: Snapshot, now_ms: int) -> Candidates:
    loads: Counter[str | None] = Counter()
    for row in snapshot.leases.values():
        loads[row.owner or (wishes.parse(row.move).target if row.move else None)] += 1
    return {
        member.id: Candidate(
            id=member.id,
            host=member.host or member.id.partition(":")[0],
            live=now_ms - member.renewed_at <= member.duration_ms,
            drains=member.state != "active",
            renewed_at=member.renewed_at,
            capacity=member.capacity,
            load=loads[member.id],
            shards=expand(member.shards),
        )
        for member in snapshot.members.values()
    }


def named(name: str, all_of_them: Candidates, now_ms: int) -> Candidate | str:
    """The one live supervisor of this id, its random part, host, or whatever `status` calls it; else a sentence."""
    ways = (lambda each: {each.id}, _names, lambda each: {short_host(each.host)})
    meant = next(filter(None, ([each for each in all_of_them.values() if name in way(each)] for way in ways)), [])
    live = [each for each in meant if each.live]
    if len(live) > 1:  # a host whose old supervisor is going, while the next is there
        live = [each for each in live if not each.drains] or live
    if len(live) == 1:
        return live[0]
    if live:
        return f"{name} is ambiguous, give one of the ids: {', '.join(sorted(each.id for each in live))}"
    if meant:
        age_s = (now_ms - max(each.renewed_at for each in meant)) / 1000
        return f"{name} is not live: it was last renewed {age_s:.1f} s ago; {_who_lives(all_of_them)}"
    return f"there is no supervisor {name}; {_who_lives(all_of_them)}"


def _names(candidate: Candidate) -> set[str]:
    part, hosts = short_id(candidate.id), {candidate.host, candidate.id.partition(":")[0]}
    return {part, *hosts, *(f"{host}:{part}" for host in hosts)}


def _who_lives(all_of_them: Candidates) -> str:
    live = sorted(each.id for each in all_of_them.values() if each.live)
    if not live:
        return "none is live by the clock of this machine"
    return f"live {'are' if len(live) > 1 else 'is only'} {', '.join(live)}"
