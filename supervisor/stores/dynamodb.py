"""Leases in a DynamoDB table.

What holds:
- every call is one request; a refusal that comes without its row is followed by one consistent read;
- `Applied` only if the answer carries the nonce that we wrote; for a wish, which has none, if it carries the row as it
  was seen with the wish in it; for a batch, if there is one response per statement. `Refused` only if the service says
  that the condition failed; everything else is `Unknown`;
- renewals have a client of their own, so that they never queue behind a snapshot or a claim;
- only `initialize` creates anything, and no exception of botocore leaves `calls`.

It does not promise that a call ends within `timeout_s`: botocore's timeouts, which the store got when it was made,
bound the silence and not the call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from supervisor.records import Lease, Member, Snapshot, lease_from, snapshot_from
from supervisor.stores import probe
from supervisor.stores.calls import Item, Lane, Table
from supervisor.stores.errors import MISSING_TABLE, UNSUPPORTED, Failed, no_answer
from supervisor.stores.expressions import item_of
from supervisor.stores.interface import Unavailable, Unfit
from supervisor.stores.location import DynamoLocation
from supervisor.stores.outcomes import applied_with, refused_by
from supervisor.stores.statements import (
    FOR_DECISIONS,
    KEY,
    Change,
    Delete,
    Put,
    check_batch,
    member_attributes,
    renewal,
    statement_of,
)
from supervisor.writes import (
    Applied,
    Claim,
    Create,
    DeleteMember,
    Forget,
    Outcome,
    Pause,
    PutMember,
    Refused,
    Release,
    Renew,
    Unknown,
    Wish,
    Write,
)

_LANES = 8
_BATCH = 25  # the service's limit
_ACTIVE_TIMEOUT_S = 60.0
_ACTIVE_POLL_S = 0.25


class DynamoStore:
    """Raises ValueError for an unknown profile or a missing region; makes no connection."""

    def __init__(self, location: DynamoLocation, call_timeout_s: float) -> None:
        self.url = location.url
        self.lanes = _LANES
        self.batch = 1  # until `prove` has shown that more is safe
        self._table = Table(location, call_timeout_s, _LANES)

    def initialize(self) -> str:
        deadline = time.monotonic() + _ACTIVE_TIMEOUT_S
        try:
            made = self._table.create()
            while not self._active(deadline):
                time.sleep(_ACTIVE_POLL_S)
        except Failed as failure:
            raise failure.unavailable from None
        return f"{self._where} was created" if made else f"{self._where} exists already"

    def inspect(self, timeout_s: float) -> None:
        try:
            probe.check_table(self._table.name, self._table.describe())
        except Failed as failure:
            if failure.code == MISSING_TABLE:
                raise Unfit(f"{self._where} does not exist", "`tenured init` creates it") from None
            raise failure.unavailable from None

    def prove(self, member: Member, timeout_s: float) -> None:
        try:
            self._put(member)
            if found := probe.flaw(member, self._update, lambda: self._digest(member), "updates"):
                raise Unfit(f"{self._where} is on an engine that {found}, expected one that honours conditions")
            self.batch = _BATCH if self._batches_are_safe(member) else 1
            self._put(member)
        except Failed as failure:
            raise failure.unavailable from None

    def apply(self, write: Write, timeout_s: float) -> Outcome:
        lane: Lane = "renewals" if isinstance(write, Renew) else "others"
        statement = statement_of(write)
        try:
            if isinstance(statement, Delete):
                written = self._table.delete(statement)
            else:
                whole = not isinstance(write, PutMember | Renew | Release)
                written = self._table.update(statement, whole, lane)
        except Failed as failure:
            return self._failed(write, failure, lane)
        return _proven(write, written)

    def renew(self, writes: Sequence[Renew], timeout_s: float) -> list[Outcome]:
        check_batch(writes, self.batch)
        if len(writes) == 1:
            return [self.apply(writes[0], timeout_s)]
        try:
            results = self._table.execute([renewal(write) for write in writes])
        except Failed as failure:
            return [failure.unknown for _ in writes]
        return [
            Applied() if failure is None else self._failed(write, failure, "renewals")
            for write, failure in zip(writes, results, strict=True)
        ]

    def read(self, shard: str, timeout_s: float) -> Lease | None:
        try:
            item = self._table.get(shard)
        except Failed as failure:
            raise failure.unavailable from None
        return None if item is None else lease_from(item)

    def snapshot(self, timeout_s: float, full: bool = False) -> Snapshot:
        try:
            items = self._table.scan(None if full else FOR_DECISIONS, time.monotonic() + timeout_s)
        except Failed as failure:
            raise failure.unavailable from None
        return snapshot_from(items)

    def close(self) -> None:
        self._table.close()

    @property
    def _where(self) -> str:
        return f"table {self._table.name} in {self._table.region}"

    def _active(self, deadline: float) -> bool:
        try:
            probe.check_table(self._table.name, self._table.describe())
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
            return False
        return True

    def _failed(self, write: Write, failure: Failed, lane: Lane) -> Outcome:
        if not failure.refused:
            return failure.unknown
        if isinstance(write, PutMember | DeleteMember):
            return Refused(None)
        try:
            # Some engines refuse without the row, and all do when there is none.
            row = item_of(failure.row) or self._table.get(write.shard, lane)
        except Failed as unread:
            return Unknown(f"refused, but the row could not be read: {unread.cause}")
        return refused_by(row)

    # --- the probe ----------------------------------------------------------------------------------------

    def _put(self, member: Member) -> None:
        written = self._table.update(Put(member.key, member_attributes(member), new=False), whole=False)
        if written.get("nonce") != member.nonce:
            raise no_answer("UpdateItem")

    def _digest(self, member: Member) -> object:
        return (self._table.get(member.key) or {}).get("digest")

    def _update(self, change: Change) -> bool:
        try:
            return self._table.update(change, whole=False).get("digest") == change.sets["digest"]
        except Failed as failure:
            return _refused(failure)

    def _execute(self, change: Change) -> bool:
        failure = self._table.execute([change])[0]
        return failure is None or _refused(failure)

    def _batches_are_safe(self, member: Member) -> bool:
        try:
            return not probe.flaw(member, self._execute, lambda: self._digest(member), "batches")
        except Failed as failure:
            if failure.code in UNSUPPORTED:
                return False
            raise


def _refused(failure: Failed) -> bool:
    if failure.refused:
        return False
    raise failure


def _proven(write: Write, written: Item) -> Outcome:
    if not _carries(written, write):
        return Unknown("the answer does not carry what was written")
    return applied_with(written) if isinstance(write, Create | Claim) else Applied()


def _carries(written: Item, write: Write) -> bool:
    match write:
        case Wish():
            return _is_as_seen(written, write) and written.get("move") == write.move
        case Pause():
            return _is_as_seen(written, write) and written.get("paused", False) is write.paused
        case Forget():
            return (written.get(KEY), written.get("epoch")) == (write.shard, write.seen_epoch)
        case PutMember():
            return bool(written.get("nonce") == write.member.nonce)
    return bool(written.get("nonce") == write.nonce)


def _is_as_seen(written: Item, write: Wish | Pause) -> bool:
    seen = (write.shard, write.seen_owner, write.seen_epoch)
    return seen == (written.get(KEY), written.get("owner"), written.get("epoch"))
