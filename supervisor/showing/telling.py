"""What a fleet's status says in words: the headline, a note beside a shard, the sentences below the tables. Pure.

Texts from rows stand in these as they are; who prints them makes them printable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from supervisor.configuration.values import duration_text
from supervisor.core import wishes
from supervisor.names import compact
from supervisor.records import short_id
from supervisor.showing.status import STATES, FleetView, ShardView, SupervisorView
from supervisor.showing.verdict import FINE, is_in_trouble, last_crash, refuses

_LISTED_MAX = 12
_FOLDED_MAX = 60
_CRASHING = "its child ended again and again"
_HINTS = {
    "silent": "owned and renewed, but no connection is open; the note says why, or the log of the owner",
    "stale": "not renewed in time; whoever is live and configured for it claims it once the lease has run out",
    "homeless": "no supervisor that is configured for it has room; start another, or raise `capacity`",
    "free": "nobody owns it; a supervisor that is configured for it takes it within a few polls",
}
_HINTS_WHILE_NOBODY_LIVES = _HINTS | {
    "stale": "not renewed in time, and no supervisor is live that could claim it; start one",
    "free": "nobody owns it, and no supervisor is live that could take it; start one",
}


def headline(fleet: FleetView, whole: FleetView | None = None) -> str:
    """`fleet f is degraded: 1 free, 15 held of 16 shards; 15 of 15 connections open; 2 supervisors live, 1 stale`.
    `whole`, here and below: the fleet of which this is the part that was asked for."""
    if not (fleet.shards or fleet.supervisors or fleet.bad):
        return f"fleet {fleet.fleet or '(unnamed)'} is empty: no supervisor, no shard"
    parts = [_shards(fleet)]
    if fleet.bad:
        parts.append(f"{_number(len(fleet.bad), 'row')} {'does' if len(fleet.bad) == 1 else 'do'} not parse")
    known = [shard for shard in fleet.shards if shard.state in ("held", "silent") and not shard.starting]
    if wanted := sum(shard.want for shard in known):
        parts.append(f"{sum(shard.open for shard in known)} of {_number(wanted, 'connection')} open")
    if holding := sum(shard.holding for shard in fleet.shards):
        parts.append(f"{_number(holding, 'shard')} may be run by an owner that is cut off")
    if troubled := sum(map(is_in_trouble, fleet.shards)):
        parts.append(f"{_number(troubled, 'shard')} in trouble")
    if starting := sum(shard.starting for shard in fleet.shards):
        parts.append(f"{_number(starting, 'shard')} just started")
    parts.append(_supervisors((whole or fleet).supervisors))
    if refusing := sum(map(refuses, fleet.supervisors)):
        parts.append(f"{_number(refusing, 'supervisor')} rejected the last reload")
    name = f"{'this part of ' if whole else ''}fleet {fleet.fleet or '(unnamed)'}"
    return f"{name} is {'degraded' if fleet.degraded else 'fine'}: {'; '.join(parts)}"


def _shards(fleet: FleetView) -> str:
    shards = _number(len(fleet.shards), "shard")
    if list(fleet.counts) == ["held"]:
        return f"{shards}, {'held' if len(fleet.shards) == 1 else 'all held'}"
    states = ", ".join(f"{count} {state}" for state, count in fleet.counts.items())
    return f"{states} of {shards}" if states else "no shard"


def _supervisors(supervisors: Sequence[SupervisorView]) -> str:
    found = Counter(supervisor.state for supervisor in supervisors)
    if not found:
        return "no supervisor"
    live = found["active"] + found["draining"]
    draining = f" ({found['draining']} draining)" if found["draining"] else ""
    stale = f", {found['stale']} stale" if found["stale"] else ""
    return f"{_number(live, 'supervisor') if live else 'no supervisor'} live{draining}{stale}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --- names ------------------------------------------------------------------------------------------------


def labels(supervisors: Sequence[SupervisorView]) -> dict[str, str]:
    """The shortest name of each supervisor by its id that no other has: the first part of its host, its host, or that
    and the random part of its id."""
    ways: tuple[Callable[[SupervisorView], str], ...] = (
        lambda one: short_host(one.host),
        lambda one: one.host,
        lambda one: f"{one.host}:{short_id(one.id)}",
    )
    names = {one.id: one.id for one in supervisors}
    for way in reversed(ways):
        found = Counter(map(way, supervisors))
        names |= {one.id: way(one) for one in supervisors if one.host and way(one) and found[way(one)] == 1}
    return names


def short_host(host: str) -> str:
    """The first part of a host's name; an address has no such part."""
    return host if host.replace(".", "").isdecimal() else host.partition(".")[0]


def folded(shards: Sequence[str]) -> str:
    """`trades/0-3,7, chat`, cut where it would be long. The shards are in their order."""
    text, stream = "", ""
    for name in compact(tuple(shards)):
        prefix, slash, index = name.rpartition("/")
        text += f",{index}" if slash and prefix == stream else f"{', ' if text else ''}{name}"
        stream = prefix if slash else ""
        if len(text) > _FOLDED_MAX:
            return f"{text[:_FOLDED_MAX]}..."
    return text


# --- beside a shard ---------------------------------------------------------------------------------------


def note(shard: ShardView, names: dict[str, str], at: int) -> str:
    """What its state does not say, at this unix millisecond: a shard whose child crashes for ever may be held."""
    told = []
    if shard.holding:
        told.append(f"its {'last ' if shard.owner is None else ''}owner may be holding its connections")
    if shard.state == "paused" and shard.owner is not None:
        told.append("not stopped yet")
    if shard.forced and shard.owner is None:
        told.append("its owner was removed by force; it can be claimed after a lease")
    if shard.move is not None:
        wish = wishes.parse(shard.move)
        target = "anybody else" if wish.target is None else names.get(wish.target, wish.target)
        told.append(f"to go to {target}, {'to even the loads' if wish.by_peer else 'as an operator wishes'}")
    if crash := last_crash(shard, at):
        who = names.get(crash.owner, crash.owner)
        given_up = f", and {who} gave it up" if shard.owner is None else ""
        told.append(f"its child {_ended(crash.times)} {ago(at - (crash.at or 0) * 1000)}{given_up}")
    if shard.trouble is not None:
        told.append(shard.trouble)
    return "; ".join(told)


def note_of(group: Sequence[ShardView], at: int) -> str:
    """Of many shards: in how many something is wrong, and what it is in most of them."""
    wrong = (shard.trouble or (_CRASHING if last_crash(shard, at) else None) for shard in group)
    found = Counter(trouble for trouble in wrong if trouble is not None)
    if not found:
        return ""
    (trouble, _), *_others = found.most_common(1)
    return f"trouble in {found.total()}, such as {trouble}"


def _ended(times: int) -> str:
    return "ended" if times == 1 else f"ended {times} times, the last time"


def ago(ms: int | None) -> str:
    return "-" if ms is None else f"{age(max(0, ms))} ago"


def age(ms: int | None) -> str:
    """The two digits that matter: 840ms, 3.2s, 47s, 12m, 5h, 3d."""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms}ms"
    seconds = ms / 1000
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


# --- below the tables -------------------------------------------------------------------------------------


def troubles(fleet: FleetView, whole: FleetView | None = None) -> list[str]:
    """Sentences about what needs somebody."""
    names = labels((whole or fleet).supervisors)
    told = []
    if fleet.expected:
        told.append(f"this is the store of fleet {fleet.fleet}; the configuration at hand names fleet {fleet.expected}")
    live = any(each.state != "stale" for each in (whole or fleet).supervisors)
    hints = _HINTS if live else _HINTS_WHILE_NOBODY_LIVES
    told += [f"{state}: {hints[state]}" for state in STATES if state in fleet.counts and state not in FINE]
    if waiting := [shard for shard in fleet.shards if shard.state == "free" and shard.wait_ms]:
        last_ms = max(shard.wait_ms for shard in waiting)
        which = folded([shard.shard for shard in waiting])
        told.append(
            f"without a row: {which}; it is made in about {age(last_ms)}, when no child of a deleted one can live"
        )
    if held := folded([shard.shard for shard in fleet.shards if shard.holding]):
        told.append(f"holding: {held}; under outage_policy = hold an owner that is cut off from the store goes on")
    if troubled := folded([shard.shard for shard in fleet.shards if is_in_trouble(shard) and shard.trouble]):
        told.append(f"in trouble: {troubled}; the note says what it is")
    crashes = [(shard.shard, crash.owner) for shard in fleet.shards if (crash := last_crash(shard, fleet.at))]
    if crashes:
        hosts = _listed(sorted({names.get(owner, owner) for _, owner in crashes}))
        shards = folded([shard for shard, _ in crashes])
        told.append(f"crashing: {shards}; the log of {hosts} says why (child.failed, child.exited)")
    told += _limited([f"the row {key} does not parse: {reason}" for key, reason in fleet.bad.items()])
    told += _limited(
        [f"{names[each.id]} rejected its last reload: {each.rejected}" for each in fleet.supervisors if each.rejected]
    )
    return told


def remarks(fleet: FleetView, whole: FleetView | None = None) -> list[str]:
    """Sentences about what is worth knowing."""
    names = labels((whole or fleet).supervisors)
    drifting = [f"{names[each.id]} ({each.config or 'none'})" for each in fleet.supervisors if each.drift]
    told = []
    if drifting:
        most = any(not each.drift and each.state != "stale" for each in (whole or fleet).supervisors)
        what = "another configuration than most" if most else "different configurations"
        told.append(f"{_listed(drifting)} {'runs' if len(drifting) == 1 else 'run'} {what}")
    told += _limited([f"the row {key} has a flaw: {reason}" for key, reason in fleet.flaws.items()])
    polls = sorted({each.poll_ms for each in fleet.supervisors if each.poll_ms and each.state != "stale"})
    if polls:
        span = duration_text(polls[0]) + (f" to {duration_text(polls[-1])}" if len(polls) > 1 else "")
        told.append(f"the poll interval in force is {span}")
    return told


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
    return ", ".join(names[:_LISTED_MAX]) + more


def _limited(sentences: Sequence[str]) -> list[str]:
    more = [f"and {len(sentences) - _LISTED_MAX} more like that"] if len(sentences) > _LISTED_MAX else []
    return [*sentences[:_LISTED_MAX], *more]
