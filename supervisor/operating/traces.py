"""What the history of a row tells about the time since a command began. Pure.

A command looks a few times a second at best, and may wait for a lost answer for many seconds. What it did not see
happen stands in the history of the row, written by the same conditional writes. The history holds the last changes
only; what has left it is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.changes import AGAIN, Change, change_of
from supervisor.core import wishes
from supervisor.records import Lease, short_id

_SAME_PLACE = ("reclaimed", *AGAIN)  # of the same host, which took its own back


def ended(row: Lease, epoch: int, *reasons: str) -> bool:
    """Whether this epoch ended for one of these reasons."""
    return any(change.epoch == epoch and change.reason in reasons for change in map(change_of, row.history))


def gave_up(first: Lease, row: Lease) -> bool:
    """Whether the owner of the row is one that gave it up to a wish to move since `first`."""
    if row.owner is None:
        return False
    mine = (change for change in _since(first, row, first.epoch) if change.owner == short_id(row.owner or ""))
    return row.epoch > first.epoch and any(change.reason == wishes.MOVED for change in mine)


def was_at(first: Lease, row: Lease, owner: str) -> Change | None:
    """The change since `first` by which somebody got the shard, or lost it."""
    part = short_id(owner)
    return next((change for change in _since(first, row, first.epoch + 1) if change.owner == part), None)


def was_elsewhere(first: Lease, row: Lease) -> Change | None:
    """The first change since `first` that shows another owner, which is not the next incarnation on the same host."""
    if first.owner is None:
        return None
    part = short_id(first.owner)
    found = (change for change in _since(first, row, first.epoch + 1) if change.reason not in _SAME_PLACE)
    return next((change for change in found if change.owner != part), None)


def stayed(first: Lease, row: Lease) -> bool:
    """Whether another owner is the next incarnation on the same host."""
    since = list(_since(first, row, first.epoch + 1))
    return bool(since) and all(change.reason in _SAME_PLACE for change in since)


def _since(first: Lease, row: Lease, epoch: int) -> Iterator[Change]:
    """The changes that are new since `first`, from this epoch on."""
    for change in map(change_of, row.history):
        if change.epoch is not None and change.epoch >= epoch:
            yield change
