"""The whole state of the lease set between two steps, and the questions that every part of it asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from supervisor.core.lease import KILL_AGAIN_NS, is_in_doubt
from supervisor.core.model import MS, Rules
from supervisor.core.phases import Claiming, Dying, Held, Releasing, Shard, Vacant, Wanted
from supervisor.core.shards import Shards
from supervisor.core.watch import Watch
from supervisor.records import Member

POLL_COST_RATIO = 20


@dataclass(frozen=True, slots=True)
class Drain:
    """A graceful stop under way. `marked_ns`: since when the store shows us draining, or we gave up on that."""

    since_ns: int
    marked_ns: int | None = None
    stopping: bool = False
    parting_ns: int | None = None  # since when our member row is being deleted


@dataclass(frozen=True, slots=True)
class State:
    """`stage`: looking (nothing was written yet), proving, active, draining, over."""

    rules: Rules
    me: str
    shards: Shards
    stage: str = "looking"
    watch: Watch = field(default_factory=Watch)
    member: Member | None = None  # our own row as last written or tried
    live_members: int = 1
    moving_members: int = 1  # live ones whose beat we saw move: the rows of the dead must not slow us down
    round_ns: int = 0  # the next round of renewals
    snapshot_ns: int = 0  # the next snapshot; while one is under way, when we stop waiting for it
    polls: int = 0
    own_seen: int = 0  # snapshots that showed our own member row
    reachable: bool = True
    answered_ns: int = 0  # when the store last answered anything
    able: frozenset[str] = frozenset()  # live members of our fleet that do not drain
    ask_ns: int = 0  # until then we ask nobody for a shard: a wish of ours was taken back
    homeless: int = 0  # shards that nobody had room for in the last snapshot
    strangers: frozenset[str] = frozenset()  # members of other fleets that were logged
    empty_ns: int | None = None  # when, just before our first write, no row of any kind stood in the store
    drain: Drain | None = None
    replacing: str = ""  # the shard whose child is being replaced after a reload
    replacing_ns: int = 0  # since when
    rejected: str = ""  # why the last reload was rejected

    @property
    def round_every_ns(self) -> int:
        """The renew interval in force: a reload cannot stretch it beyond what leases claimed before need."""
        held = (shard.phase.tenure for shard in self.shards.busy.values() if isinstance(shard.phase, Held))
        return min([self.rules.renew_every_ns, *(tenure.renew_every_ns(self.rules) for tenure in held)])

    @property
    def shortest_ns(self) -> int:
        """The shortest duration that any of our leases has, those to come included."""
        held = (shard.phase.tenure for shard in self.shards.busy.values() if isinstance(shard.phase, Held))
        return min([self.rules.duration_ns, *(tenure.duration_ns for tenure in held)])

    @property
    def poll_ns(self) -> int:
        """The poll interval in force. On DynamoDB a snapshot costs a fortieth as much per row as a write does per
        lease (a strongly consistent read unit covers 4 KiB and costs a fifth of a write unit of 1 KiB), halved for
        safety: with this floor the fleet never pays more for reading than for renewing. It ends at half of a lease
        duration: who looks less often cannot tell an owner that died from a store that was away."""
        floor_ns = min(self.moving_members * self.rules.renew_every_ns // POLL_COST_RATIO, self.rules.duration_ns // 2)
        return max(self.rules.poll_every_ns, floor_ns)

    @property
    def gap_max_ns(self) -> int:
        """How far apart two snapshots may be that both show a row missing, to say that it was missing in between."""
        return max(self.watch.longest_ns // 2, 2 * self.poll_ns)

    def silent(self, now_ns: int) -> bool:
        """Whether the store has not answered anything for long: a poll or a renewal should have brought something."""
        return now_ns - self.answered_ns >= max(self.rules.duration_ns // 4, 2 * self.poll_ns)

    def with_shard(self, shard: Shard) -> State:
        return self if self.shards.get(shard.name) is shard else self.with_shards((shard,))

    def with_shards(self, changed: Iterable[Shard]) -> State:
        return replace(self, shards=self.shards.having(changed))


def begin(rules: Rules, me: str, now_ns: int, dead: frozenset[str] = frozenset()) -> State:
    """A supervisor that has just started and knows nothing but which earlier incarnations of it are proven `dead`."""
    shards = Shards({name: Shard(name, rule) for name, rule in rules.shards.items()})
    watch = Watch(longest_ns=rules.duration_ns, dead=dead)
    return State(
        rules=rules, me=me, shards=shards, watch=watch, snapshot_ns=now_ns, round_ns=now_ns, answered_ns=now_ns
    )


def member_row(state: State, nonce: str, unix_ms: int, draining: bool) -> Member:
    """Our member row for its next write."""
    rules, last = state.rules, state.member
    return Member(
        id=state.me,
        fleet=rules.fleet,
        state="draining" if draining else "active",
        beat=last.beat + 1 if last else 0,
        nonce=nonce,
        duration_ms=rules.duration_ms,
        capacity=rules.capacity,
        shards=rules.folded,
        version=rules.version,
        digest=rules.digest,
        host=rules.host,
        task=rules.task,
        zone=rules.zone,
        since=last.since if last else unix_ms,
        renewed_at=unix_ms,
        poll_ms=state.poll_ns // MS,
        rejected=state.rejected,
    )


def owned(state: State) -> int:
    """How many shards we hold or are about to hold."""
    return sum(not isinstance(shard.phase, Dying | Releasing) for shard in state.shards.busy.values())


def shard_due_ns(shard: Shard, state: State) -> int | None:
    """The next instant at which time alone changes something for this shard."""
    rules = state.rules
    match shard.phase:
        case Wanted(_, read_ns):
            return read_ns
        case Claiming(unknown_ns=None, sent_ns=sent_ns):
            return sent_ns + 2 * rules.attempt_ns
        case Claiming(read_ns=read_ns):
            return read_ns
        case Held() as held:
            return _held_due_ns(held, shard, state)
        case Dying(_, since_ns, _):
            return since_ns + KILL_AGAIN_NS
        case Vacant(_, due_ns):
            if state.drain is None:
                return due_ns
            return 0 if state.drain.stopping else None
        case Releasing(_, _, retry_ns):
            return retry_ns
        case _:
            return None


def _held_due_ns(held: Held, shard: Shard, state: State) -> int:
    rules = state.rules
    if held.stage == "killing":
        return held.since_ns + KILL_AGAIN_NS
    due_ns = held.deadline_ns
    if held.tenure.policy == "hold" and is_in_doubt(held):
        due_ns -= held.tenure.renew_every_ns(rules) // 2
    if held.retry_ns is not None:
        due_ns = min(due_ns, held.retry_ns)
    if held.stage == "starting":
        due_ns = min(due_ns, held.since_ns + rules.start_ns)
    if held.stage == "stopping":
        due_ns = min(due_ns, held.since_ns + rules.stop_ns)
    return due_ns
