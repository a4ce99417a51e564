"""Who could take a shard, as a command can tell that looks a few times (see `pulse`). Pure.

A supervisor decides by what it has observed itself (`watch`, `fleet`), and takes back what cannot be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from supervisor.core import wishes
from supervisor.names import Names, expand
from supervisor.operating.pulse import Life, Pulse, life
from supervisor.records import Snapshot, short_id
from supervisor.showing.telling import short_host

NAME_MAX = 300  # longer than any name that we make
LISTED_MAX = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A supervisor that has a member row. `load`: the shards that it owns, and those on their way to it."""

    id: str
    host: str
    life: Life
    drains: bool
    renewed_at: int
    duration_ms: int
    capacity: int
    load: int
    shards: Names

    @property
    def live(self) -> bool:
        return self.life in ("moves", "young")

    @property
    def has_room(self) -> bool:
        return not self.drains and self.load < self.capacity


Candidates = Mapping[str, Candidate]


def candidates_in(snapshot: Snapshot, now_ms: int, pulses: Mapping[str, Pulse]) -> Candidates:
    loads: Counter[str | None] = Counter()
    for row in snapshot.leases.values():
        loads[row.owner or (wishes.parse(row.move).target if row.move else None)] += 1
    return {
        member.id: Candidate(
            id=member.id,
            host=member.host or member.id.partition(":")[0],
            life=life(pulses[member.key], now_ms - member.renewed_at, member.duration_ms),
            drains=member.state != "active",
            renewed_at=member.renewed_at,
            duration_ms=member.duration_ms,
            capacity=member.capacity,
            load=loads[member.id],
            shards=expand(member.shards),
        )
        for member in snapshot.members.values()
    }


def hoped(all_of_them: Candidates) -> Candidates:
    """As if all lived of whom nobody can tell yet."""
    return {name: replace(each, life="young") if each.life == "old" else each for name, each in all_of_them.items()}


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
        return f"{brief(name)} is ambiguous, give one of the ids: {listed(each.id for each in live)}"
    if meant:
        age_s = max(0, now_ms - max(each.renewed_at for each in meant)) / 1000
        return f"{brief(name)} is not live: it was last renewed {age_s:.1f} s ago; {_who_lives(all_of_them)}"
    return f"there is no supervisor {brief(name)}; {_who_lives(all_of_them)}"


def _names(candidate: Candidate) -> set[str]:
    part, hosts = short_id(candidate.id), {candidate.host, candidate.id.partition(":")[0]}
    return {part, *hosts, *(f"{host}:{part}" for host in hosts)}


def _who_lives(all_of_them: Candidates) -> str:
    live = [each.id for each in all_of_them.values() if each.live]
    if not live:
        return "none is live by the clock of this machine"
    return f"live {'are' if len(live) > 1 else 'is only'} {listed(live)}"


# --- names in sentences -----------------------------------------------------------------------------------


def brief(name: str) -> str:
    """Names stand in rows, which anybody with access to the store may have written."""
    return name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}..."


def listed(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - LISTED_MAX} more" if len(found) > LISTED_MAX else ""
    return ", ".join(map(brief, found[:LISTED_MAX])) + more
