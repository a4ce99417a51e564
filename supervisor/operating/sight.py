"""What a command has seen of a store, from its first look to its last. Pure.

Each look makes a new `Sight` of the one before, so that who was seen to live, or to be silent, is not forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.operating.candidates import Candidates, candidates_in
from supervisor.operating.pulse import Life, Pulse, age_ms, felt, life
from supervisor.records import Lease, Snapshot


@dataclass(frozen=True, slots=True)
class Sight:
    """`now_ms`: unix milliseconds. `pulses`: of all rows, by their keys."""

    rows: Mapping[str, Lease]
    candidates: Candidates
    bad: Mapping[str, str]
    now_ms: int
    pulses: Mapping[str, Pulse] = field(default_factory=dict)

    def life(self, row: Lease) -> Life:
        """Of the owner, as far as its renewals of this row tell."""
        return life(self.pulses[row.shard], self.now_ms - row.renewed_at, row.duration_ms)

    def age_ms(self, row: Lease) -> int:
        """How long ago the row was renewed."""
        return age_ms(self.pulses[row.shard], self.now_ms - row.renewed_at)

    @property
    def in_doubt(self) -> bool:
        """Whether there is a supervisor of which nobody can tell yet whether it lives."""
        return any(each.life == "old" for each in self.candidates.values())


def seen_all(snapshot: Snapshot, now_ms: int, now_s: float, before: Sight | None = None) -> Sight:
    """After a look at the whole store. `now_s`: our own monotonic clock when it was answered."""
    old = before.pulses if before else {}
    pulses = {name: felt(old.get(name), row.triple, now_s) for name, row in snapshot.leases.items()}
    pulses |= {each.key: felt(old.get(each.key), (each.beat, each.nonce), now_s) for each in snapshot.members.values()}
    return Sight(snapshot.leases, candidates_in(snapshot, now_ms, pulses), snapshot.bad, now_ms, pulses)


def seen_some(rows: Mapping[str, Lease | str | None], now_ms: int, now_s: float, before: Sight) -> Sight:
    """After a look at some rows: each as it is, or why it does not parse, or that there is none."""
    there = {name: row for name, row in rows.items() if isinstance(row, Lease)}
    bad = {name: reason for name, reason in rows.items() if isinstance(reason, str)}
    return Sight(
        {name: row for name, row in before.rows.items() if name not in rows} | there,
        before.candidates,
        {name: reason for name, reason in before.bad.items() if name not in rows} | bad,
        now_ms,
        {**before.pulses, **{name: felt(before.pulses.get(name), row.triple, now_s) for name, row in there.items()}},
    )
