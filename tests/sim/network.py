"""The network between the simulated hosts and the store: it loses, delays, repeats and reorders as the weather says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor import model
from supervisor.model import MS
from supervisor.records import Member
from supervisor.writes import Applied, Claim, Outcome, Refused, Release, Renew, Unknown, Write
from tests.sim import laws
from tests.sim.parts import Answer, Host, Weather

if TYPE_CHECKING:
    from tests.sim.world import World


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self.adrift: list[tuple[Host, Write, int]] = []  # writes that were lost on their way, with their sending

    def _weather(self, host: Host) -> Weather:
        return host.weather or self._world.weather

    def _attempt(self, host: Host, silence: model.Event) -> Answer:
        """A call begins: how its answer comes back, after a delay. The caller is told `silence` at its deadline
        unless the answer came before; a later answer is passed on too."""
        attempt_ms = self._world.rules.attempt_ns / MS
        answered = False

        def give_up() -> None:
            if not answered:
                self._world.feed(host, silence)

        def arrive(event: model.Event) -> None:
            nonlocal answered
            answered = True
            self._world.feed(host, event)

        self._world.after(attempt_ms, attempt_ms, give_up)
        late = self._world.rng.random() < self._weather(host).late_answer

        def answer(event: model.Event, high_ms: float = 10) -> None:
            self._world.after(*((attempt_ms, 3 * attempt_ms) if late else (1, high_ms)), lambda: arrive(event))

        return answer

    def send(self, host: Host, write: Write) -> None:
        weather, rng = self._weather(host), self._world.rng
        sent_ns = host.clock(self._world.now_ns)
        answer = self._attempt(host, model.Answered(write, Unknown("timeout")))
        if rng.random() < weather.unsent:
            host.tried.discard((getattr(write, "shard", ""), getattr(write, "epoch", 0)))
            answer(model.Answered(write, Unknown("refused", unsent=True)))
            return
        if weather.outage or rng.random() < weather.lost_request + weather.lost_write:
            self.adrift.append((host, write, sent_ns))
            return
        if rng.random() < weather.throttled:
            answer(model.Answered(write, Unknown("throttled")), 20)
            return
        late = rng.random() < weather.late_request
        eaten = rng.random() < weather.lost_answer
        repeated = rng.random() < weather.repeated

        def land() -> None:
            outcome = self._apply(host, write, sent_ns)
            if repeated:
                outcome = self._apply(host, write, sent_ns)
            if not eaten:
                answer(model.Answered(write, outcome))

        attempt_ms = self._world.rules.attempt_ns / MS
        self._world.after(*((500, 3 * attempt_ms) if late else (1, 10)), land)

    def _apply(self, host: Host, write: Write, sent_ns: int) -> Outcome:
        before = getattr(write, "shard", None) and self._world.store.leases.get(write.shard)
        outcome = self._world.store.apply(write)
        if isinstance(write, Claim | Release | Renew) and isinstance(outcome, Applied):
            laws.row_changed(self._world, host, write, before, self._world.store.leases[write.shard])
        if isinstance(write, Claim | Renew) and isinstance(outcome, Applied):
            key = (write.shard, write.epoch)
            host.proofs[key] = max(sent_ns, host.proofs.get(key, sent_ns))
        if isinstance(write, Claim | Release) or isinstance(outcome, Refused):
            epoch = getattr(write, "epoch", "")
            self._world.note(
                f"store: {host.name} {type(write).__name__} {getattr(write, 'shard', '')} {epoch} "
                f"-> {type(outcome).__name__}"
            )
        return outcome

    def land(self, kind: type[Claim] | type[Renew], number: int, answered: bool = True) -> Outcome:
        """A lost write of this kind (0: the first) was only delayed: it lands now, and its answer may come."""
        host, write, sent_ns = [entry for entry in self.adrift if isinstance(entry[1], kind)][number]
        outcome = self._apply(host, write, sent_ns)
        if answered:
            self._world.feed(host, model.Answered(write, outcome))
        return outcome

    def read(self, host: Host, shard: str) -> None:
        asked_ns = host.clock(self._world.now_ns)
        answer = self._attempt(host, model.ReadFailed(shard, "timeout"))
        if self._lost(host):
            return

        def land() -> None:
            answer(model.RowRead(shard, self._world.store.leases.get(shard), asked_ns))

        self._world.after(1, 10, land)

    def snapshot(self, host: Host) -> None:
        asked_ns = host.clock(self._world.now_ns)
        answer = self._attempt(host, model.SnapshotFailed("timeout"))
        if self._lost(host):
            return
        self._world.after(1, 10, lambda: answer(model.Snapshotted(self._world.store.snapshot(), asked_ns), 50))

    def prove(self, host: Host, member: Member) -> None:
        answer = self._attempt(host, model.ProofFailed("timeout"))
        if self._lost(host):
            return

        def land() -> None:
            self._world.store.members[member.id] = member
            answer(model.Proved(member))

        self._world.after(1, 10, land)

    def _lost(self, host: Host) -> bool:
        weather = self._weather(host)
        return weather.outage or self._world.rng.random() < weather.lost_request + weather.lost_read
