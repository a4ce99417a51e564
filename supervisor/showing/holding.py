"""Which shards may be run by somebody whom the row cannot reach: the price of `outage_policy = hold`. Pure.

Under `hold` an owner that is cut off from the store goes on with its connections, whatever becomes of the row
meanwhile: also when an operator pauses the shard, or removes the owner by force. The row tells that until it is claimed
anew. That nobody runs the shard any more is known once the owner is seen to renew its member row a lease after it was
removed: it has reached the store by then, was refused there, and killed its child.

Like all of `status` this compares wall clocks, and who was removed and then died looks as if it were cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from supervisor.changes import change_of
from supervisor.records import Lease, Member, short_id


def contacts_of(members: Iterable[Member]) -> Mapping[str, int]:
    """When each supervisor, by the random part of its id, last renewed its own row."""
    return {short_id(member.id): member.renewed_at for member in members}


def may_hold(lease: Lease, contacts: Mapping[str, int], now_unix_ms: int) -> bool:
    if lease.policy != "hold":
        return False
    if lease.owner is not None:
        return now_unix_ms - lease.renewed_at > lease.duration_ms
    if not lease.forced:
        return False
    last = change_of(lease.history[-1]) if lease.history else None
    removed = last.owner if last and last.reason == "deposed" else ""
    return contacts.get(removed, 0) <= lease.renewed_at + lease.duration_ms
