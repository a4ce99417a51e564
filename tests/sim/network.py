"""The network between the simulated hosts and the store: it loses, delays, repeats and reorders as the weather says.

Every message that something happens to is counted in `faults`, by kind.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from supervisor.core import model
from supervisor.core.model import MS
from supervisor.records import Lease, Member
from supervisor.writes import Applied, Claim, Create, Outcome, Release, Renew, Unknown, Wish, Write
from tests.sim import laws
from tests.sim.parts import CLEAR, Answer, Host

if TYPE_CHECKING:
    from tests.sim.world import World

DELAYS = ("late_request", "late_answer")  # kinds of faults that only delay


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self.faults: Counter[str] = Counter()
        self.adrift: list[tuple[Host, Write, int]] = []  # writes that were lost on their way, with their sending
        self.revived: set[tuple[str, int]] = set()  # claims that were refused, and applied when they came again

    def _strikes(self, host: Host, kind: str) -> bool:
        """Whether the weather does this to a message."""
        weather = self._world.weather_of(host)
        if weather is CLEAR:
            return False
        chance = getattr(weather, kind)
        if not chance or self._world.rng.random() >= chance:
            return False
        self.faults[kind] += 1
        return True

    def _attempt(self, host: Host, silence: model.Event) -> Answer:
        """A call begins: how its answer comes back, after a delay. The caller is told `silence` at its deadline
        unless the answer came before; a later answer is passed on too."""
        world = self._world
        attempt_ms = world.rules.attempt_ns / MS
        answered = False

        def give_up() -> None:
            if not answered:
                world.feed(host, silence)

        def arrive(event: model.Event) -> None:
            nonlocal answered
            answered = True
            if late:
                world.service.disturb_host(host)
            world.feed(host, event)

        world.after(attempt_ms, attempt_ms, give_up)
        late = self._strikes(host, "late_answer")

        def answer(event: model.Event, high_ms: float = 10) -> None:
            world.after(*((attempt_ms, 3 * attempt_ms) if late else (1, high_ms)), lambda: arrive(event))

        return answer

    # --- writes -------------------------------------------------------------------------------------------

    def send(self, host: Host, write: Write) -> None:
        world = self._world
        sent_ns = host.clock(world.now_ns)
        answer = self._attempt(host, model.Answered(write, Unknown("timeout")))
        if self._strikes(host, "unsent"):
            host.tried.discard((getattr(write, "shard", ""), getattr(write, "epoch", 0)))
            answer(model.Answered(write, Unknown("refused", unsent=True)))
            return
        if self._lost(host, "lost_write"):
            self.adrift.append((host, write, sent_ns))
            return
        if self._strikes(host, "throttled"):
            answer(model.Answered(write, Unknown("throttled")), 20)
            return
        late = self._strikes(host, "late_request")
        eaten = self._strikes(host, "lost_answer")
        repeated = self._strikes(host, "repeated")

        def land() -> None:
            outcome = self._apply(host, write, sent_ns, late)
            if repeated:
                outcome = self._apply(host, write, sent_ns, late)
            if not eaten:
                answer(model.Answered(write, outcome))

        attempt_ms = world.rules.attempt_ns / MS
        world.after(*((500, 3 * attempt_ms) if late else (1, 10)), land)
        if not isinstance(write, Create) and self._strikes(host, "replayed"):
            world.after(10, 3 * attempt_ms, lambda: self._replay(host, write, sent_ns))

    def _replay(self, host: Host, write: Write, sent_ns: int) -> None:
        outcome = self._apply(host, write, sent_ns, strange=True)
        if isinstance(write, Claim) and isinstance(outcome, Applied):
            self.revived.add((write.shard, write.epoch))

    def _apply(self, host: Host, write: Write, sent_ns: int, strange: bool = False) -> Outcome:
        """The write reaches the store. `strange`: not as it should."""
        world = self._world
        shard: str = getattr(write, "shard", "")
        before = world.store.leases.get(shard)
        outcome = world.store.apply(write)
        if shard and isinstance(outcome, Applied):
            self._applied(host, write, before, sent_ns)
            in_vain = isinstance(write, Claim) and host.state.drain is not None  # it was sent before the stop
            if strange or in_vain or not (host.awake and world.weather_of(host).clear):
                world.service.disturb_shard(shard)
        if shard and not (isinstance(write, Renew) and isinstance(outcome, Applied)):
            world.note(
                f"store: {host.name} {type(write).__name__} {shard} {getattr(write, 'epoch', '')}"
                f" -> {type(outcome).__name__}"
            )
        return outcome

    def _applied(self, host: Host, write: Write, before: Lease | None, sent_ns: int) -> None:
        if isinstance(write, Claim | Release | Renew):
            laws.row_changed(self._world, host, write, before, self._world.store.leases[write.shard])
        if isinstance(write, Wish):
            self._world.service.wishes.written(write.shard)
        if isinstance(write, Claim | Renew):
            key = (write.shard, write.epoch)
            host.proofs[key] = max(sent_ns, host.proofs.get(key, sent_ns))

    def land(self, kind: type[Claim] | type[Renew], number: int, answered: bool = True) -> Outcome:
        """A lost write of this kind (0: the first) was only delayed: it lands now, and its answer may come."""
        host, write, sent_ns = [entry for entry in self.adrift if isinstance(entry[1], kind)][number]
        outcome = self._apply(host, write, sent_ns)
        if answered:
            self._world.feed(host, model.Answered(write, outcome))
        return outcome

    # --- reads --------------------------------------------------------------------------------------------

    def read(self, host: Host, shard: str) -> None:
        asked_ns = host.clock(self._world.now_ns)
        answer = self._attempt(host, model.ReadFailed(shard, "timeout"))
        if self._lost(host, "lost_read"):
            return

        def land() -> None:
            store = self._world.store
            if shard in store.spoiled:
                answer(model.ReadFailed(shard, store.spoiled[shard]))
            else:
                answer(model.RowRead(shard, store.leases.get(shard), asked_ns))

        self._world.after(1, 10, land)

    def snapshot(self, host: Host) -> None:
        asked_ns = host.clock(self._world.now_ns)
        answer = self._attempt(host, model.SnapshotFailed("timeout"))
        if self._lost(host, "lost_read"):
            return
        self._world.after(1, 10, lambda: answer(model.Snapshotted(self._world.store.snapshot(), asked_ns), 50))

    def prove(self, host: Host, member: Member) -> None:
        answer = self._attempt(host, model.ProofFailed("timeout"))
        if self._lost(host, "lost_read"):
            return

        def land() -> None:
            self._world.store.members[member.id] = member
            answer(model.Proved(member))

        self._world.after(1, 10, land)

    def _lost(self, host: Host, kind: str) -> bool:
        return self._strikes(host, "outage") or self._strikes(host, "lost_request") or self._strikes(host, kind)
