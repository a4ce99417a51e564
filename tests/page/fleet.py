"""Fleets to look at: rows as supervisors write them, and what the page's API says of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from supervisor.changes import history_after
from supervisor.records import Lease, Member, Snapshot
from supervisor.showing import status, view
from supervisor.stores.interface import Unavailable

DURATION_MS = 10_000
MINUTE_MS = 60_000
ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
STREAMS = ("trades", "quotes", "depth", "chat", "telemetry")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def member(number: int, at: int, **changes: Any) -> Member:
    """One of a fleet on ECS."""
    host = f"ip-10-0-{number // 4 + 1}-{number * 37 % 200 + 20}.eu-west-1.compute.internal"
    random = f"{(number * 2_654_435_761 + 97_531) % 2**32:08x}"
    plain = Member(
        id=f"{host}:7:{random}",
        fleet="market-data",
        state="active",
        beat=100,
        nonce="n",
        duration_ms=DURATION_MS,
        capacity=160,
        shards=tuple(f"{stream}/0-199" for stream in STREAMS),
        version="0.1.0",
        digest="8f41c2d09b",
        host=host,
        task=f"arn:aws:ecs:eu-west-1:123456789012:task/feeds/{random * 4}",
        zone=ZONES[number % 3],
        since=at - (number + 1) * 5 * 3_600_000,
        renewed_at=at - number * 173 % 3000,
        poll_ms=1000,
    )
    return replace(plain, **changes)


def lease(shard: str, owner: Member | None, at: int, **changes: Any) -> Lease:
    """Held for a while, and all is well."""
    epoch = 1_764_460_000 + sum(map(ord, shard)) % 40
    plain = Lease(
        shard=shard,
        owner=None if owner is None else owner.id,
        epoch=epoch,
        beat=20,
        nonce="n",
        duration_ms=DURATION_MS,
        open=0 if owner is None else 4,
        want=4,
        quiet_ms=None if owner is None else sum(map(ord, shard)) * 7 % 900,
        since=at - (sum(map(ord, shard)) % 70 + 3) * MINUTE_MS,
        renewed_at=at - sum(map(ord, shard)) * 31 % 3000,
    )
    return replace(plain, **changes)


def healthy(supervisors: int, shards: int, at: int) -> Snapshot:
    """All shards are held, evenly, each after a long history."""
    members = [member(number, at) for number in range(supervisors)]
    each = shards // len(STREAMS)
    names = [f"{stream}/{index}" for stream in STREAMS for index in range(each)]
    folded = tuple(f"{stream}/0-{each - 1}" for stream in STREAMS)
    members = [replace(one, shards=folded) for one in members]
    leases = {}
    for index, name in enumerate(names):
        owner, other = members[index % supervisors], members[(index + 1) % supervisors]
        turns = [(owner, "claimed"), (owner, "balanced"), (other, "claimed"), (other, "moved")] * 2
        told = storied([(one, (9 - n) * 3600, why) for n, (one, why) in enumerate([*turns, (owner, "claimed")])], at)
        leases[name] = lease(name, owner, at, history=told)
    return Snapshot(leases, {one.id: one for one in members}, {})


def storied(history: list[tuple[Member, int, str]], at: int, epoch: int = 1_764_460_000) -> tuple[str, ...]:
    """A history as its writers fold it: who, how many seconds ago, why. A start is a new epoch."""
    told: tuple[str, ...] = ()
    for one, ago_s, reason in history:
        epoch += reason in ("claimed", "expired", "reclaimed", "restart")
        told = history_after(told, epoch, one.id, at - ago_s * 1000, reason)
    return told


def troubled(supervisors: int, shards: int, at: int) -> Snapshot:
    """A fleet after a bad quarter of an hour: one of everything that the page marks."""
    whole = healthy(supervisors, shards, at)
    leases, members = dict(whole.leases), list(whole.members.values())
    a, b, dead = members[0], members[1], members[-1]
    dead = replace(dead, renewed_at=at - 47_000)
    drifting = replace(members[1], digest="13d7aa02c4")
    rejected = replace(members[2], rejected="/etc/tenured/tenured.ini line 14: unknown key shard, did you mean shards?")
    draining = replace(members[3], state="draining")
    for one in (dead, drifting, rejected, draining):
        members = [one if each.id == one.id else each for each in members]
    told = storied(
        [
            *((dead, 93_600, "claimed"), (dead, 7_300, "restart"), (dead, 7_200, "restart"), (dead, 7_100, "restart")),
            *((dead, 4_000, "moved"), (b, 3_998, "claimed"), (b, 640, "balanced"), (a, 639, "claimed")),
        ],
        at,
    )

    def change(shard: str, **changes: Any) -> None:
        leases[shard] = replace(leases[shard], **changes)

    change(
        "trades/7",
        owner=a.id,
        history=told,
        epoch=int(told[-1].split()[0]),
        open=0,
        quiet_ms=212_000,
        since=at - 639_000,
        trouble="connection 0: the server answered 401 (permanent) (and 3 more)",
    )
    change("trades/8", owner=a.id, open=3)
    change("quotes/3", owner=b.id, move=f"{a.id} balance")
    change("quotes/4", owner=b.id, move="any")
    change("chat/2", owner=None, paused=True, open=0, quiet_ms=None)
    change("chat/5", owner=b.id, paused=True)
    change("depth/1", owner=None, forced=True, open=0, quiet_ms=None)
    change("depth/2", owner=dead.id, renewed_at=at - 47_000, policy="hold")
    change("depth/6", owner=dead.id, renewed_at=at - 44_000)
    change("telemetry/0", owner=None, open=0, quiet_ms=None)
    leases["legacy/0"] = lease("legacy/0", None, at)
    return Snapshot(leases, {each.id: each for each in members}, {"trades/x": "epoch is 'many', expected a number"})


def json_of(snapshot: Snapshot, at: int) -> bytes:
    return view.as_json(status.view(snapshot, at)).encode()


class FakeSources:
    """What a daemon would say, as a test sets it; `gate` holds a look at the fleet up while it is cleared."""

    def __init__(self, fleet: bytes = b"{}") -> None:
        self.body = fleet
        self.age_s = 0.0
        self.error = ""
        self.looks = 0
        self.turns = True
        self.ready = (True, "")
        self.gate = threading.Event()
        self.gate.set()

    def health(self) -> Mapping[str, Any]:
        if not self.turns:
            raise TimeoutError
        return {"ready": self.ready[0], "reason": self.ready[1]}

    def fleet(self) -> tuple[bytes, float]:
        self.looks += 1
        self.gate.wait(60)
        if self.error:
            raise Unavailable(self.error)
        return self.body, self.age_s

    def metrics(self) -> bytes:
        return b"# HELP tenured_leases Leases held.\n# TYPE tenured_leases gauge\ntenured_leases 3.0\n"
