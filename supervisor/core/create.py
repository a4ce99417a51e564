"""Which missing rows a snapshot makes us create: one supervisor makes each row, and a few at a time.

What holds: a row is created only where no deleted one can have a live child (see `watch.creatable`), or where the store
was empty when we joined and has not been out of our sight since; in a fleet that starts together each row is created by
about one supervisor, not tried by all of them; and no snapshot makes more calls than a client can make before the next.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import balance
from supervisor.core.fleet import Fleet
from supervisor.core.model import Apply
from supervisor.core.phases import Shard, Turn
from supervisor.core.state import State
from supervisor.core.watch import creatable, missing_ns
from supervisor.writes import Create

CREATIONS_MAX = 500  # after one snapshot: what one client can make within an attempt
LEFT_POLLS = 2  # for which a missing row is left to the first of its possible creators


def create(state: State, turn: Turn, fleet: Fleet) -> State:
    """A free row for each configured shard that misses one. Its epoch is above all that we know of, and above
    what any deleted row can have reached: no shard changes hands once a second for long."""
    created: list[Shard] = []
    for name in _ours_to_create(state, turn, fleet)[:CREATIONS_MAX]:
        shard = state.shards[name]
        epoch = max(shard.seen + 1, shard.tried + 1, turn.now.unix_ms // 1000)
        nonce = turn.now.nonce(f"create {name}")
        turn.out.append(Apply(Create(name, epoch, nonce, state.rules.duration_ms, turn.now.unix_ms)))
        created.append(replace(shard, tried=epoch))
    return state.with_shards(created)


def _ours_to_create(state: State, turn: Turn, fleet: Fleet) -> list[str]:
    """The missing rows that may be created, each by the member that the common order puts first, since all others
    would be refused; what it leaves missing for two polls since it could create it, by anybody."""
    watch, now_ns = state.watch, turn.ns
    empty = state.empty_ns is not None and watch.watched_ns <= state.empty_ns
    missing = [
        name
        for name, shard in state.shards.idle.items()
        if shard.rule and name not in watch.leases and creatable(watch, name, now_ns, empty and name not in watch.gone)
    ]
    if not missing:
        return []
    creators = balance.assign(
        missing, [replace(peer, capacity=len(missing)) for peer in fleet.peers.values()], {}, len(missing)
    )

    def is_overdue(name: str) -> bool:
        since_ns = missing_ns(watch, name)
        if since_ns is None:
            return False
        due_ns = max(since_ns + watch.longest_ns, state.shards[name].configured_ns)
        return now_ns >= due_ns + LEFT_POLLS * state.poll_ns

    return [name for name in missing if creators.get(name) == state.me or is_overdue(name)]
