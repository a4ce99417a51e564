"""The part of a fleet that somebody asked for: shards by pattern, supervisors by host or id. Pure.

What is left is a fleet as well, degraded or not by what is left alone. Each pattern and each owner has to match
something, or `NoMatch` says which did not: a typo must not look like a fleet in which all is well.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from supervisor.records import MEMBER_PREFIX
from supervisor.showing.status import FleetView, ShardView, SupervisorView, fleet_of


class NoMatch(Exception):
    """`sentences`: one for each pattern or owner that matches nothing."""

    def __init__(self, *sentences: str) -> None:
        super().__init__(*sentences)
        self.sentences = sentences


def select(fleet: FleetView, patterns: Sequence[str], owners: Sequence[str]) -> FleetView:
    """The shards that match one of `patterns` and belong to one of `owners`, with those supervisors; no patterns, or no
    owners: all. A pattern is a name with `*`, `?` and `[...]`; an owner is a part of a supervisor's id or host. Raises
    `NoMatch`."""
    hosts = {supervisor.id: supervisor.host for supervisor in fleet.supervisors}
    sentences = [*_unmatched_patterns(fleet, patterns), *_unmatched_owners(fleet, owners, hosts)]
    if sentences:
        raise NoMatch(*sentences)
    shards = tuple(
        shard
        for shard in fleet.shards
        if _named(shard.shard, patterns) and (not owners or _owned(shard, owners, hosts))
    )
    there = {shard.owner for shard in shards}
    supervisors = tuple(
        supervisor
        for supervisor in fleet.supervisors
        if (_is_one(supervisor, owners) if owners else not patterns or supervisor.id in there)
    )
    bad = {key: reason for key, reason in fleet.bad.items() if _shows_bad(key, patterns, owners)}
    flaws = {shard.shard: fleet.flaws[shard.shard] for shard in shards if shard.shard in fleet.flaws}
    return fleet_of(fleet.fleet, fleet.expected, fleet.at, supervisors, shards, bad, flaws)


def no_such_shard(shard: str, known: Iterable[str]) -> str:
    """The sentence about a shard that nobody knows, with names that are near."""
    near = difflib.get_close_matches(shard, list(known), 3, 0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `tenured status` lists them"
    return f"there is no shard {shard}{hint}"


def _unmatched_patterns(fleet: FleetView, patterns: Sequence[str]) -> Iterable[str]:
    known = [*(shard.shard for shard in fleet.shards), *fleet.bad]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            yield f"--shard {pattern}: {no_such_shard(pattern, known)}"


def _unmatched_owners(fleet: FleetView, owners: Sequence[str], hosts: dict[str, str]) -> Iterable[str]:
    for owner in owners:
        found = any(_is_one(supervisor, [owner]) for supervisor in fleet.supervisors)
        if not found and not any(_owned(shard, [owner], hosts) for shard in fleet.shards):
            known = ", ".join(sorted(set(filter(None, hosts.values())))[:8]) or "there are none"
            yield f"--owner {owner}: no supervisor, and no owner of a shard, has that in its id or host; hosts: {known}"


def _named(shard: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(shard, pattern) for pattern in patterns)


def _is_one(supervisor: SupervisorView, owners: Sequence[str]) -> bool:
    return any(owner in supervisor.id or owner in supervisor.host for owner in owners)


def _owned(shard: ShardView, owners: Sequence[str], hosts: dict[str, str]) -> bool:
    """Also by one whose member row is gone."""
    if shard.owner is None:
        return False
    return any(owner in shard.owner or owner in hosts.get(shard.owner, "") for owner in owners)


def _shows_bad(key: str, patterns: Sequence[str], owners: Sequence[str]) -> bool:
    if key.startswith(MEMBER_PREFIX):
        return any(owner in key for owner in owners) if owners else not patterns
    return _named(key, patterns) and not owners
