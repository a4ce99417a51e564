"""A world of the exploration, and a move in it, in lines for people."""

from __future__ import annotations

from supervisor.core.phases import Claiming, Held, Releasing, Vacant
from supervisor.writes import Applied, Claim, Create, Refused, Release, Renew, Unknown
from tests.sim.explore.world import QUANTUM_NS, READS, WRITES, Call, Host, Move, World


def shown(world: World) -> list[str]:
    """One line for the clock, the row, each supervisor and each call under way."""
    lines = [f"    time {_at(world.now_ns)}, {world.faults} faults left", f"    row {_row(world.lease)}"]
    for name, host in zip("abc", world.hosts, strict=False):
        lines.append(f"    {name}: {_host(host)}")
    return [*lines, *(f"    under way: {_call(call)}" for call in world.calls)]


def told(world: World, move: Move) -> str:
    """The move and what it is about."""
    kind, index = move
    if kind in ("advance", "delete"):
        return kind
    if kind in READS | WRITES | {"land", "deliver", "tell"}:
        return f"{kind}: {_call(world.calls[index])}"
    return f"{kind}: {'abc'[index]}"


def _at(instant_ns: int) -> str:
    return f"{instant_ns / QUANTUM_NS:g}"


def _row(row: object) -> str:
    return "missing" if row is None else f"{row.owner} {row.epoch}/{row.beat}"


def _host(host: Host | None) -> str:
    if host is None:
        return "down"
    (shard,) = host.state.shards.values()
    child = host.child
    words = [host.me, host.state.stage, type(shard.phase).__name__]
    match shard.phase:
        case Held(tenure, deadline_ns, stage):
            words.append(f"{tenure.epoch}/{tenure.applied.beat}..{tenure.beat_tried} {stage} until {_at(deadline_ns)}")
        case Vacant(tenure) | Releasing(tenure):
            words.append(f"{tenure.epoch}")
        case Claiming(claim):
            words.append(f"{claim.epoch}")
    if child:
        words.append(f"child {child.epoch} until {_at(child.deadline_ns)}")
        words += ["doomed"] * child.doomed + ["hung"] * (child.hung_ns is not None)
    return " ".join([*words, *["STOPPED"] * host.paused])


def _call(call: Call) -> str:
    match call.asked:
        case str(text):
            asked = text
        case Claim():
            asked = f"claim {call.asked.epoch} of {call.asked.seen_epoch}/{call.asked.beat_low}-{call.asked.beat_high}"
        case Renew():
            asked = f"renew {call.asked.epoch}/{call.asked.beat}"
        case Create() | Release():
            asked = f"{type(call.asked).__name__.lower()} {call.asked.epoch}"
        case _:
            asked = type(call.asked).__name__.lower()
    words = [f"{'abc'[call.host]}'s {asked} of {_at(call.sent_ns)}, {call.stage}", _payload(call)]
    words += [f"held up until {_at(call.free_ns)}"] * bool(call.free_ns)
    return ", ".join(filter(None, [*words, *["given up"] * call.told, *["nobody waits"] * call.silent]))


def _payload(call: Call) -> str:
    match call.payload:
        case Applied():
            return "applied"
        case Refused(row):
            return f"refused by {_row(row)}"
        case Unknown(cause):
            return cause
        case None:
            return "no row" if call.stage == "back" and call.asked == "read" else ""
        case _ if call.asked == "read":
            return f"shows {_row(call.payload)}"
        case snapshot:
            return f"shows {', '.join(map(_row, snapshot.leases.values())) or 'no row'}"
