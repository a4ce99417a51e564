"""Whether this supervisor does its work, as `health`, `/readyz` and systemd's status line say it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.core.model import SECOND, Report
from supervisor.core.phases import Held
from supervisor.core.state import State

TROUBLES_MAX = 8


def health(state: State, stuck_calls: int, reports: Mapping[str, Report]) -> dict[str, Any]:
    """The answer to `health`: `ready` unless there is a `reason`. An outage of the store makes it unready, not ill, and
    so do children that crash, from the first time until one has run for a while, so that no look falls in between;
    what else is wrong with a shard (`troubles`, of `TROUBLES_MAX` at most) makes it neither: another host would fare
    no better with a feed that refuses us."""
    held = [shard.phase for shard in state.shards.values() if isinstance(shard.phase, Held)]
    reasons = _reasons(state, held)
    return {
        "supervisor": state.me,
        "stage": state.stage,
        "ready": not reasons,
        "reason": "; ".join(reasons),
        "shards": len(held),
        "homeless": state.homeless,
        "rejected": state.rejected,
        "troubles": _troubles(state, reports),
        "stuck_calls": stuck_calls,
    }


def _troubles(state: State, reports: Mapping[str, Report]) -> dict[str, str]:
    found: dict[str, str] = {}
    for shard in state.shards.values():
        report = reports.get(shard.name)
        text = shard.crash or (report.trouble if report else "")
        if text and len(found) < TROUBLES_MAX:
            found[shard.name] = text
    return found


def _reasons(state: State, held: list[Held]) -> list[str]:
    reasons = []
    if state.stage != "active":
        reasons.append(f"it is {state.stage}")
    if not state.reachable:
        reasons.append("the store cannot be reached")
    waiting = sum(phase.stage != "running" for phase in held)
    if waiting:
        reasons.append(f"{waiting} of {len(held)} children do not run")
    crashed = [shard.name for shard in state.shards.values() if shard.crash]
    if crashed:
        reasons.append(f"of {len(crashed)} shards no child has run for a minute since a crash, {crashed[0]} among them")
    bad = sorted(state.watch.bad.keys() & state.rules.shards.keys())
    if bad:
        reasons.append(f"the rows of {len(bad)} shards do not parse, that of {bad[0]} among them")
    return reasons


def line(state: State) -> str:
    """`active: 12 of 16 configured shards run here; the last reload was rejected`"""
    running = sum(isinstance(shard.phase, Held) and shard.phase.stage == "running" for shard in state.shards.values())
    texts = [f"{state.stage}: {running} of {len(state.rules.shards)} configured shards run here"]
    if crashed := sum(bool(shard.crash) and isinstance(shard.phase, Held) for shard in state.shards.values()):
        texts.append(f"{crashed} of them crashed of late")
    if not state.reachable:
        texts.append("the store cannot be reached")
    if state.rejected:
        texts.append("the last reload was rejected")
    return "; ".join(texts)


def progresses(state: State, oldest_renewal_ns: int | None, now_ns: int) -> bool:
    """Whether rounds of renewals begin and end. An outcome that is unknown ends one, too: it is for the watchdog to
    replace a loop that hangs, not to punish us for a store that does."""
    patience_ns = state.rules.attempt_ns + SECOND
    if oldest_renewal_ns is not None and now_ns > oldest_renewal_ns + patience_ns:
        return False
    return state.stage not in ("active", "draining") or now_ns <= state.round_ns + patience_ns
