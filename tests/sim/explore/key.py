"""When two worlds of the exploration are the same: a short digest of all that can influence what comes.

Instants count from now, in quanta; epochs from the highest that the row ever had; beats from the last that the store
saw of their epoch; what is older than anything that is waited for is simply old. What only people read is left out, and
so are nonces, which owner, epoch and beat determine. Fields that are not named here count as they are. So one world may
stand for another that differs after all, which costs coverage, but every world that is visited is a real one.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache

from supervisor.records import Member
from supervisor.writes import Claim
from tests.sim.explore.world import QUANTUM_NS, Call, Host, World

OLD_QUANTA = 5  # more than T and every other wait
OLD_EPOCHS = 12
OLD_BEATS = 5
SCALARS = frozenset({int, str, bool, float, type(None)})
LEFT_OUT = frozenset({
    "rules", "rule", "name", "shard", "reason", "nonce", "row", "history", "flaws", "at", "since", "renewed_at",
    "checkpoint", "open", "want", "quiet_ms", "policy", "fleet", "version", "digest", "host", "task", "zone",
    "capacity", "strangers", "bad", "trouble", "troubled",
})  # fmt: skip
SPANS = frozenset({"duration_ns", "longest_ns"})
EPOCHS = frozenset({"epoch", "seen_epoch", "seen", "tried"})
BEATS = frozenset({"beat", "beat_low", "beat_high"})
TRUTHS = frozenset({"pending", "cause"})
COUNTS_MAX = {"polls": 2, "own_seen": 3}

Flat = list[object]
Role = Callable[["Frame", object, object, int, Flat], None]


class Frame:
    """From where the numbers of one world count."""

    def __init__(self, world: World) -> None:
        self.marks = (world.now_ns, world.reached, world.beats, world.members)
        self._now_ns, self._epoch, self._beats, members = self.marks
        self._members = {member.nonce: member.beat for member in members.values()}

    def is_like(self, other: Frame) -> bool:
        same = self.marks[:2] == other.marks[:2]
        return same and self.marks[2] is other.marks[2] and self.marks[3] is other.marks[3]

    def flatten(self, value: object, out: Flat, epoch: int = 0) -> None:
        """Append what matters of `value`; `epoch`: that of the thing it belongs to."""
        kind = type(value)
        if kind in SCALARS:
            out.append(value)
        elif kind is tuple or kind is frozenset:
            out.append(len(value))
            for item in sorted(value) if kind is frozenset else value:
                self.flatten(item, out, epoch)
        elif kind is dict:
            out.append(len(value))
            for name in sorted(value):
                out.append(name)
                self.flatten(value[name], out, epoch)
        else:
            epoch = getattr(value, "epoch", epoch)
            out.append(kind.__name__)
            for name, role in _roles(kind):
                item = getattr(value, name)
                if role is None:
                    if type(item) in SCALARS:
                        out.append(item)
                    else:
                        self.flatten(item, out, epoch)
                else:
                    role(self, item, value, epoch, out)

    # --- roles: what a field's value stands for -----------------------------------------------------------

    def instant(self, item: int | None, value: object, epoch: int, out: Flat) -> None:
        out.append(None if item is None else max(-OLD_QUANTA, -((self._now_ns - item) // QUANTUM_NS)))

    def instants(self, item: tuple[int, ...] | Mapping[str, int], value: object, epoch: int, out: Flat) -> None:
        out.append(len(item))
        for each in item.values() if type(item) is dict else item:
            self.instant(each, value, epoch, out)

    def epoch(self, item: int, value: object, epoch: int, out: Flat) -> None:
        out.append(max(-OLD_EPOCHS, item - self._epoch))

    def beat(self, item: int, value: object, epoch: int, out: Flat) -> None:
        out.append(max(-OLD_BEATS, item - self._beats.get(epoch, 0)))

    def seen_beat(self, item: int, value: Claim, epoch: int, out: Flat) -> None:
        self.beat(item, value, value.seen_epoch, out)

    def member_beat(self, item: int, value: Member, epoch: int, out: Flat) -> None:
        out.append(max(-OLD_BEATS, item - self._members.get(value.nonce, 0)))

    def mark(self, item: tuple[object, ...], value: object, epoch: int, out: Flat) -> None:
        if len(item) == 2:
            beat, nonce = item
            out += (nonce, max(-OLD_BEATS, beat - self._members.get(nonce, 0)))
        else:
            owner, epoch, beat = item
            out.append(owner)
            self.epoch(epoch, value, epoch, out)
            self.beat(beat, value, epoch, out)

    def truth(self, item: object, value: object, epoch: int, out: Flat) -> None:
        out.append(bool(item))


@cache
def _roles(kind: type) -> tuple[tuple[str, Role | None], ...]:
    return tuple((part.name, _role(kind, part.name)) for part in fields(kind) if part.name not in LEFT_OUT)


def _role(kind: type, name: str) -> Role | None:
    """None: it counts as it is."""
    if name in EPOCHS:
        return Frame.epoch
    if name in BEATS:
        return (
            Frame.member_beat
            if kind is Member
            else Frame.beat
            if name == "beat" or kind is not Claim
            else Frame.seen_beat
        )
    if name in TRUTHS:
        return Frame.truth
    if name in ("crashes", "gone"):
        return Frame.instants
    if name == "mark":
        return Frame.mark
    if name in COUNTS_MAX:
        most = COUNTS_MAX[name]
        return lambda frame, item, value, epoch, out: out.append(min(item, most))
    return Frame.instant if name.endswith("_ns") and name not in SPANS else None


class Keys:
    """Keys of worlds. What a move leaves alone is not looked at again: most hosts and calls are their parent's."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Frame, bytes]] = {}

    def forget(self) -> None:
        self._known.clear()

    def of(self, world: World) -> bytes:
        """Equal for worlds with the same future, as far as this page can tell."""
        frame = Frame(world)
        calls = sorted(self._part(call, frame, _call) for call in world.calls)
        rows = [self._part(world.lease, frame, _row), self._part(world.members, frame, _row)]
        hosts = [b"down" if host is None else self._part(host, frame, _host) for host in world.hosts]
        rest = marshal.dumps((world.faults, world.deleted, world.started - world.reached), 2)
        parts = [*hosts, *rows, *calls, rest]
        return hashlib.blake2b(b"|".join(parts), digest_size=16).digest()

    def _part(self, value: object, frame: Frame, flat: Callable[[object, Frame], Flat]) -> bytes:
        known = self._known.get(id(value))
        if known is not None and known[1].is_like(frame):
            return known[2]
        part = marshal.dumps(flat(value, frame), 2)
        self._known[id(value)] = (value, frame, part)  # holds the value, so that its id stays its own
        return part


def _host(host: Host, frame: Frame) -> Flat:
    out: Flat = [host.me, host.paused, host.ended is not None]
    frame.flatten(host.child, out)
    frame.flatten(host.state, out)
    return out


def _row(row: object, frame: Frame) -> Flat:
    out: Flat = []
    frame.flatten(row, out)
    return out


def _call(call: Call, frame: Frame) -> Flat:
    """`host` is left out of rows and members, where it is for people; here it matters."""
    out: Flat = [call.host]
    frame.flatten(call, out)
    return out
