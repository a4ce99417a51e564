"""One `move` on a store that loses answers, and writes, or lets them land late, while the owner does what owners do.

Hypothesis chooses what becomes of each write, and what happens before each look. Nobody else wishes anything, so that
all that is given up to a wish is given up to this command.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.changes import history_after
from supervisor.core.wishes import MOVED, parse
from supervisor.operating import errands
from supervisor.operating.errands import Errands, Report, sight_of
from supervisor.operating.orders import Order
from supervisor.records import Lease, Member, Snapshot
from supervisor.stores.interface import Unavailable
from supervisor.writes import Claim, Outcome, Release, Unknown, Wish, Write
from tests.sim.store import ModelStore

S = "s/0"
A, AGAIN, B, C = "a:1:aa", "a:9:a9", "b:2:bb", "c:3:cc"
AT = 1_000_000
EVENTS = ("heed", "take back", "restart", "reclaim", "claim A", "claim B", "claim C", "expire", "land", "", "")
FATES = ("answered", "lost on the way back", "lost on the way there", "late", "refused connection")


class World:
    """A shard at A, and B and C beside it. It is a `Store` for the command."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.model = ModelStore()
        self.model.leases[S] = Lease(S, A, 7, 3, "n", 10_000, renewed_at=AT, history=("7 aa 1 claimed",))
        for name in (A, B, C):
            self.model.members[name] = Member(name, "f", "active", 1, "n", 10_000, 9, (S,), renewed_at=AT)
        self.gave_up: list[str] = []  # who gave it up to a wish, in order
        self.owners = [A]
        self.late: list[Write] = []
        self.now_s = 0.0

    # --- what the command calls ---------------------------------------------------------------------------

    def apply(self, write: Write, timeout_s: float) -> Outcome:
        fate = self.data.draw(st.sampled_from(FATES))
        if fate == "answered":
            return self.model.apply(write)
        if fate == "lost on the way back":
            self.model.apply(write)
        if fate == "late":
            self.late.append(write)
        return Unknown(fate, unsent=fate == "refused connection")

    def read(self, shard: str, timeout_s: float) -> Lease | None:
        self.happen()
        return self.model.leases.get(shard)

    def snapshot(self, timeout_s: float, full: bool = False) -> Snapshot:
        self.happen()
        return Snapshot(dict(self.model.leases), dict(self.model.members), {})

    def go_on(self, seconds: float) -> None:
        self.now_s += seconds

    # --- what happens -------------------------------------------------------------------------------------

    def happen(self) -> None:
        for event in self.data.draw(st.lists(st.sampled_from(EVENTS), max_size=4)):
            self.step(event)

    def step(self, event: str) -> None:
        row = self.model.leases[S]
        match event:
            case "heed" if row.owner and row.move and parse(row.move).target != row.owner:
                self.gave_up.append(row.owner)
                history = history_after(row.history, row.epoch, row.owner, AT, MOVED)
                self.model.apply(Release(S, row.owner, row.epoch, "r", history, None, AT))
            case "take back" if row.owner and row.move:
                self.model.apply(Wish(S, row.owner, row.epoch, row.move, None))
            case "restart" if row.owner:
                self.claim(row, row.owner, "restart", keep_move=True)
            case "reclaim" if row.owner == A:
                self.claim(row, AGAIN, "reclaimed")
            case "expire" if row.owner:
                self.claim(row, C if row.owner == B else B, "expired")
            case "claim A" | "claim B" | "claim C" if row.owner is None:
                self.claim(row, {"A": A, "B": B, "C": C}[event[-1]], "claimed")
            case "land" if self.late:
                self.model.apply(self.late.pop(0))

    def claim(self, row: Lease, owner: str, reason: str, keep_move: bool = False) -> None:
        history = history_after(row.history, row.epoch + 1, owner, AT, reason)
        seen = (row.owner, row.epoch, row.beat, row.beat)
        self.model.apply(
            Claim(S, *seen, owner, row.epoch + 1, "c", 10_000, "fence", 1, history, AT, keep_move=keep_move)
        )
        self.owners.append(owner)


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Its `go_on` is that of the world of the example."""
    made = SimpleNamespace(world=None)
    made.monotonic = lambda: made.world.now_s
    made.sleep = lambda seconds: made.world.go_on(seconds)
    monkeypatch.setattr(errands, "time", made)
    monkeypatch.setattr(errands, "unix_ms", lambda: AT)
    return made


def command(world: World, order: Order) -> Report | None:
    """None: the store was not to be reached in the end."""
    first = sight_of(Snapshot(dict(world.model.leases), dict(world.model.members), {}))
    try:
        (report,) = Errands(world, order, first, [S], True, 1).run(3)  # type: ignore[arg-type]
    except Unavailable:
        return None
    return report


def settle(world: World) -> None:
    """Whatever is under way lands, and is heeded."""
    while world.late:
        world.step("land")
        world.step("heed")
        world.step("claim B")
    world.step("heed")


many = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(st.data())
def test_one_move_to_anybody_interrupts_one_owner_once_at_most(time: SimpleNamespace, data: st.DataObject) -> None:
    world = time.world = World(data)
    report = command(world, Order("move"))
    elsewhere = world.model.leases[S].owner in (B, C)
    if report and report.done:
        assert set(world.owners) - {A}, report.line
    elif report and world.gave_up:
        assert not elsewhere, f"it has moved: {report.line}"
    settle(world)
    assert len(world.gave_up) <= 1, world.gave_up


@many
@given(st.data())
def test_one_move_to_a_given_supervisor_interrupts_nobody_twice_and_none_there(
    time: SimpleNamespace, data: st.DataObject
) -> None:
    world = time.world = World(data)
    report = command(world, Order("move", to=B))
    settle(world)
    assert len(set(world.gave_up)) == len(world.gave_up), world.gave_up
    assert B not in world.gave_up
    if report and report.done:
        assert B in world.owners, report.line
