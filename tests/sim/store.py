"""The store as its contract reads: the reference against which the core is simulated."""

from __future__ import annotations

from dataclasses import replace

from supervisor.records import Lease, Member, Snapshot
from supervisor.writes import (
    Applied,
    Claim,
    Create,
    DeleteMember,
    Depose,
    Forget,
    OperatorsWrite,
    Outcome,
    Pause,
    PutMember,
    Refused,
    Release,
    Renew,
    Wish,
    Write,
    after_claim,
    after_depose,
)


class ModelStore:
    """Rows in memory; every write is atomic and does what its docstring says, nothing else."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.members: dict[str, Member] = {}
        self.spoiled: dict[str, str] = {}  # rows that do not parse, with the reason
        self.ever_spoiled: set[str] = set()
        self._sound: dict[str, Lease] = {}  # what they were before
        self._lean: dict[str, tuple[Lease, Lease]] = {}  # rows, and what a snapshot shows of them

    def snapshot(self) -> Snapshot:
        leases = {name: self._lean_row(name, row) for name, row in self.leases.items()}
        return Snapshot(leases, dict(self.members), dict(self.spoiled))

    def _lean_row(self, name: str, row: Lease) -> Lease:
        known = self._lean.get(name)
        if known is None or known[0] is not row:
            known = self._lean[name] = (row, replace(row, history=(), checkpoint=None))
        return known[1]

    def spoil(self, name: str) -> None:
        """Somebody writes nonsense into a row by hand."""
        self._sound[name] = self.leases.pop(name)
        self.ever_spoiled.add(name)
        self.spoiled[name] = "epoch is 'x', expected a whole number"

    def mend(self) -> None:
        """Somebody takes it out again."""
        self.leases |= self._sound
        self._sound.clear()
        self.spoiled.clear()

    def apply(self, write: Write) -> Outcome:
        match write:
            case PutMember(member):
                self.members[member.id] = member
                return Applied()
            case DeleteMember(id=key, beat=beat, nonce=nonce):
                member = self.members.get(key)
                if member is None or (member.beat, member.nonce) != (beat, nonce):
                    return Refused(None)
                del self.members[key]
                return Applied()
            case Create(shard=name):
                if name in self.spoiled:
                    return Refused(None, self.spoiled[name])
                if name in self.leases:
                    return Refused(self.leases[name])
                row = Lease(name, None, write.epoch, 0, write.nonce, write.duration_ms, since=write.at)
                self.leases[name] = row
                return Applied(row)
        if write.shard in self.spoiled:
            return Refused(None, self.spoiled[write.shard])
        row = self.leases.get(write.shard)
        if row is None or not self._holds(write, row):
            return Refused(row)
        if isinstance(write, Forget):
            del self.leases[write.shard]
            return Applied()
        row = self._after(write, row)
        self.leases[write.shard] = row
        return Applied(row if isinstance(write, Claim) else None)

    @staticmethod
    def _holds(write: Claim | Renew | Release | OperatorsWrite, row: Lease) -> bool:
        match write:
            case Claim():
                seen = (write.seen_owner, write.seen_epoch) == (row.owner, row.epoch)
                return seen and write.beat_low <= row.beat <= write.beat_high and not row.paused
            case Renew():
                ours = (write.owner, write.epoch) == (row.owner, row.epoch)
                return ours and write.beat_low <= row.beat <= write.beat_high
            case Release():
                return (write.owner, write.epoch) == (row.owner, row.epoch)
            case Wish():
                seen = (write.seen_owner, write.seen_epoch, write.seen_move)
                return seen == (row.owner, row.epoch, row.move)
            case Pause() | Depose():
                return (write.seen_owner, write.seen_epoch) == (row.owner, row.epoch)
            case Forget():
                return row.owner is None and write.seen_epoch == row.epoch

    @staticmethod
    def _after(write: Claim | Renew | Release | Wish | Pause | Depose, row: Lease) -> Lease:
        match write:
            case Claim():
                return after_claim(row, write)
            case Renew():
                return replace(
                    row,
                    beat=write.beat,
                    nonce=write.nonce,
                    open=write.open,
                    want=write.want,
                    quiet_ms=row.quiet_ms if write.quiet_ms is None else write.quiet_ms,
                    trouble=row.trouble if write.trouble is None else write.trouble,
                    policy=write.policy,
                    checkpoint=row.checkpoint if write.checkpoint is None else write.checkpoint,
                    renewed_at=write.at,
                )
            case Release():
                return replace(
                    row,
                    owner=None,
                    nonce=write.nonce,
                    open=0,
                    quiet_ms=None,
                    trouble=write.trouble,
                    history=write.history,
                    checkpoint=row.checkpoint if write.checkpoint is None else write.checkpoint,
                    renewed_at=write.at,
                )
            case Wish():
                return replace(row, move=write.move)
            case Pause():
                return replace(row, paused=write.paused)
            case Depose():
                return after_depose(row, write)
