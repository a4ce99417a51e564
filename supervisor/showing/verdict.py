"""Whether all is well with a fleet: the one rule behind the first line of `status`, its exit code and the page. Pure.

A shard is fine if nobody may be running it that is cut off, and it is paused or retired, or held by an owner whose
child neither tells of a trouble nor ends again and again. A supervisor is fine unless it is live and rejected its last
reload: it runs what somebody has tried to replace. A row that does not parse is not fine; a flaw of one that does is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from supervisor.changes import RECOVERED, RESTART, Change

if TYPE_CHECKING:
    from supervisor.showing.status import ShardView, SupervisorView

FINE = ("held", "paused", "retired")  # states; a shard that is held has to be well, too
_ON_PURPOSE = ("paused", "retired")
_CRASHES = (RESTART, "crashed")  # reasons of changes
_RESTARTS_MIN = 3
_CRASHES_WITHIN_S = 300


def judged(shard: ShardView, at: int) -> ShardView:
    """With `fine`, at this unix millisecond."""
    runs = shard.state == "held" and shard.trouble is None and last_crash(shard, at) is None
    return replace(shard, fine=not shard.holding and (runs or shard.state in _ON_PURPOSE))


def is_degraded(shards: Iterable[ShardView], supervisors: Iterable[SupervisorView], bad: Mapping[str, str]) -> bool:
    return bool(bad) or not all(shard.fine for shard in shards) or any(map(refuses, supervisors))


def is_in_trouble(shard: ShardView) -> bool:
    """It is held as it should be, and yet not fine."""
    return shard.state in FINE and not shard.fine and not shard.holding


def refuses(supervisor: SupervisorView) -> bool:
    """It goes on with an old configuration, since the new one has a mistake."""
    return bool(supervisor.rejected) and supervisor.state != "stale"


def last_crash(shard: ShardView, at: int) -> Change | None:
    """The last end of a child that ended without having been asked to: one that made its owner give the shard up, or of
    several in a row; `times`: how many. One of long ago counts only while nobody tries again. An outage of the store in
    between changes nothing; a reload may have mended it."""
    in_a_row = takewhile(lambda change: change.reason in (*_CRASHES, "claimed", RECOVERED), reversed(shard.history))
    ends = [change for change in in_a_row if change.reason in _CRASHES and change.at is not None]
    times = sum(change.times for change in ends)
    given_up = any(change.reason == "crashed" for change in ends)
    if not ends or shard.state == "paused" or not (given_up or (shard.owner is not None and times >= _RESTARTS_MIN)):
        return None
    lately = at // 1000 - (ends[0].at or 0) < _CRASHES_WITHIN_S
    return replace(ends[0], times=times) if lately or shard.owner is None else None
