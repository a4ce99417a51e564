"""The vocabulary of the core's unit tests: short builders for the values that the decisions are made of.

Instants are given in seconds on a clock that starts at 1000 s; T = 10 s, margin 1 s, a renewal every 10/3 s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from supervisor.core.model import SECOND, Effects, Moment, Report, ShardRule
from supervisor.core.phases import Claiming, Held, Phase, Shard, Turn
from supervisor.core.shards import Shards
from supervisor.core.state import State
from supervisor.core.tenure import Tenure, begin
from supervisor.core.watch import Watch, observe
from supervisor.records import Lease, Member, Snapshot
from supervisor.writes import Claim
from tests.sim.parts import rules

ME = "here:1:aaaaaaaa"
OTHER = "there:2:bbbbbbbb"
RULES = rules(2)
START_NS = 1000 * SECOND

T = TypeVar("T")


def ns(seconds: float) -> int:
    return START_NS + round(seconds * SECOND)


def moment(seconds: float, entropy: bytes = b"entropy") -> Moment:
    return Moment(ns(seconds), 1_800_000_000_000 + round(seconds * 1000), entropy)


def turn(seconds: float = 0, draining: bool = False, leaving: bool = False, **changes: object) -> Turn:
    return Turn(moment(seconds), replace(RULES, **changes), ME, draining or leaving, leaving, [])


def lease(**changes: object) -> Lease:
    return replace(Lease("s/0", OTHER, 7, 3, "their nonce", 10_000), **changes)


def free(**changes: object) -> Lease:
    return lease(**{"owner": None, **changes})


def member(id: str = OTHER, **changes: object) -> Member:
    return replace(Member(id, "sim", "active", 0, "n0", 10_000, 100, ("s/0-1",)), **changes)


def snapshot(*rows: Lease | Member, bad: dict[str, str] | None = None) -> Snapshot:
    leases = {row.shard: row for row in rows if isinstance(row, Lease)}
    members = {row.id: row for row in rows if isinstance(row, Member)}
    return Snapshot(leases, members, bad or {})


def claim(epoch: int = 8, nonce: str = "claim nonce", **changes: object) -> Claim:
    made = Claim("s/0", OTHER, 7, 3, 3, ME, epoch, nonce, 10_000, "fence", 1, (f"{epoch} aaaaaaaa 1800000000 x",), 0)
    return replace(made, **changes)


def own_row(**changes: object) -> Lease:
    """What our claim left in the store."""
    return lease(**{"owner": ME, "epoch": 8, "beat": 0, "nonce": "claim nonce", **changes})


def tenure(sent_s: float = 0, answered_s: float = 0.01, **changes: object) -> Tenure:
    return begin(claim(), own_row(**changes), ns(sent_s), ns(answered_s), RULES.margin_ns)


def shard(phase: Phase, policy: str = "fence", **changes: object) -> Shard:
    return replace(Shard("s/0", ShardRule(policy), phase, seen=8, tried=8), **changes)


def held(stage: str = "running", policy: str = "fence", since_s: float = 0, **changes: object) -> Shard:
    """Our lease, claimed at 0 s: its deadline is at 9 s."""
    mine = replace(tenure(), policy=policy)
    return shard(replace(Held(mine, ns(9), stage, ns(since_s)), **changes), policy)


def claiming(own: Tenure | None = None, **changes: object) -> Shard:
    return shard(replace(Claiming(claim(), ns(0), own), **changes))


def report(seconds: float, **changes: object) -> Report:
    """A child that is alive at this instant."""
    return replace(Report(8, heartbeat_ns=ns(seconds), started=True, open=1, want=1), **changes)


def mine(name: str, epoch: int = 8, stage: str = "running", reason: str = "", owner: str = ME) -> Shard:
    """Our lease of any shard, held since 0 s by a child in this stage."""
    known = replace(tenure(), shard=name, epoch=epoch, owner=owner)
    return replace(held(stage, reason=reason), name=name, phase=Held(known, ns(9), stage, ns(0), reason))


def state(*shards: Shard, **changes: object) -> State:
    """An active supervisor for as many shards as its rules name; those that are not given are idle."""
    made = replace(State(RULES, ME, Shards(), "active", Watch(longest_ns=RULES.duration_ns)), **changes)
    return made.with_shards(Shard(name, rule) for name, rule in made.rules.shards.items()).with_shards(shards)


def saw(known: State, seconds: float, seen: Snapshot) -> State:
    """What a complete snapshot does to what was observed."""
    watch = observe(known.watch, seen, known.me, ns(seconds), known.gap_max_ns, known.poll_ns)
    return replace(known, watch=watch)


def only(effects: Effects, kind: type[T]) -> T:
    """The one effect of this kind."""
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, f"{len(found)} effects of kind {kind.__name__} in {effects}"
    return found[0]


def none(effects: Effects, kind: type[object]) -> bool:
    return not any(isinstance(effect, kind) for effect in effects)
