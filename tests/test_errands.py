"""How an operator's order is carried to the store and waited for: on a store in memory that fails when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from supervisor.clock import unix_ms
from supervisor.operating import errands
from supervisor.operating.errands import Errands, Report, sight_of
from supervisor.operating.orders import Order
from supervisor.records import BadRow, Lease, Member, Snapshot
from supervisor.stores.interface import Denied, Unavailable
from supervisor.writes import Claim, Outcome, Pause, Release, Unknown, Wish, Write
from tests.sim.store import ModelStore

A, B = "a:1:aa", "b:2:bb"


@dataclass
class Store:
    """Every call is noted in `calls`. `read` and `snapshot` let `between` happen first; the next of `failures` is
    raised, or answered, by the call whose turn it is (None: nothing is wrong)."""

    model: ModelStore = field(default_factory=ModelStore)
    calls: list[str] = field(default_factory=list)
    between: Iterator[object] = field(default_factory=lambda: iter(()))
    failures: list[Exception | Outcome | None] = field(default_factory=list)
    url: str = "memory:"
    lanes: int = 1
    batch: int = 1

    def apply(self, write: Write, timeout_s: float) -> Outcome:
        self.calls.append(type(write).__name__)
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, Unknown):
            return failure
        return self.model.apply(write)

    def read(self, shard: str, timeout_s: float) -> Lease | None:
        self._look(f"read {shard}")
        if shard in self.model.spoiled:
            raise BadRow(self.model.spoiled[shard])
        return self.model.leases.get(shard)

    def snapshot(self, timeout_s: float, full: bool = False) -> Snapshot:
        assert full
        self._look("snapshot")
        return Snapshot(dict(self.model.leases), dict(self.model.members), dict(self.model.spoiled))

    def _look(self, call: str) -> None:
        self.calls.append(call)
        next(self.between, None)
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, Exception):
            raise failure


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "FEW_EVERY_S", 0.001)
    monkeypatch.setattr(errands, "MANY_EVERY_S", 0.001)


@pytest.fixture
def store() -> Store:
    """Shards `t/0` to `t/9` at A, and B beside it."""
    made = Store()
    for index in range(10):
        row = Lease(f"t/{index}", A, 7, 3, "n", 10_000, renewed_at=unix_ms(), history=("7 aa 1 claimed",))
        made.model.leases[row.shard] = row
    for name in (A, B):
        made.model.members[name] = Member(name, "f", "active", 1, "n", 10_000, 99, ("t/0-9",), renewed_at=unix_ms())
    return made


def carry_out(store: Store, order: Order, *shards: str, wait: bool = True, timeout_s: float = 5) -> list[Report]:
    first = sight_of(store.snapshot(1, full=True))
    store.calls.clear()
    return list(Errands(store, order, first, shards or ("t/0",), wait, 1).run(timeout_s))


def happen(*steps: Callable[[], object] | None) -> Iterator[object]:
    """One with each look."""
    for step in (None, *steps):  # the first look is that of `carry_out`
        yield step and step()


def hand_over(store: Store, shard: str, owner: str) -> None:
    row = store.model.leases[shard]
    if row.owner:
        store.model.apply(Release(shard, row.owner, row.epoch, "r", row.history, None, unix_ms()))
    row = store.model.leases[shard]
    seen = (row.owner, row.epoch, row.beat, row.beat)
    store.model.apply(
        Claim(shard, *seen, owner, row.epoch + 1, "c", 10_000, "fence", 1, ("8 bb 1 claimed",), unix_ms())
    )


def take_back(store: Store, shard: str) -> None:
    row = store.model.leases[shard]
    store.model.apply(Wish(shard, row.owner, row.epoch, row.move, None))


def moved(shard: str = "t/0") -> str:
    return f"{shard} moved from {A} to {B}, epoch 7 -> 8, after 0.0 s"


def test_a_few_shards_are_read_one_by_one_until_the_effect_is_there(store: Store) -> None:
    store.between = happen(None, lambda: hand_over(store, "t/0", B))
    assert carry_out(store, Order("move")) == [Report("t/0", True, moved())]
    assert store.calls == ["Wish", "read t/0", "read t/0"]


def test_many_shards_are_read_at_once_and_told_as_they_come(store: Store) -> None:
    shards = [f"t/{index}" for index in range(8)]
    store.between = happen(*(lambda shard=shard: hand_over(store, shard, B) for shard in shards))
    reports = carry_out(store, Order("move"), *shards)
    assert [report.shard for report in reports] == shards
    assert all(report.done for report in reports)
    assert store.calls[:8] == ["Wish"] * 8
    assert store.calls[8:12] == ["snapshot", "snapshot", "snapshot", "read t/3"]


def test_who_does_not_wait_ends_with_the_write(store: Store) -> None:
    (report,) = carry_out(store, Order("pause"), wait=False)
    assert report == Report("t/0", True, f"t/0 is paused as soon as {A} has stopped it")
    assert store.model.leases["t/0"].paused


def test_before_anything_is_given_up_the_whole_fleet_is_looked_at(store: Store) -> None:
    """B, the target, is full by the time at which the owner takes the wish back."""

    def fill() -> None:
        store.model.members[B] = replace(store.model.members[B], capacity=0)
        take_back(store, "t/0")

    store.between = happen(fill)
    (report,) = carry_out(store, Order("move", to="b"))
    assert report.line == f"t/0 was not moved: {B} has no room: it has 0 shards of at most 0"
    assert store.calls == ["Wish", "read t/0", "snapshot"]


def test_a_write_that_is_refused_is_decided_anew_on_the_row_that_is_there(store: Store) -> None:
    def change_hands() -> None:
        hand_over(store, "t/0", "c:3:cc")

    first = sight_of(store.snapshot(1, full=True))
    change_hands()
    store.calls.clear()
    store.between = iter(())
    reports = Errands(store, Order("pause"), first, ["t/0"], False, 1).run(5)
    assert [report.line for report in reports] == ["t/0 is paused as soon as c:3:cc has stopped it"]
    assert store.calls == ["Pause", "read t/0", "snapshot", "Pause", "read t/0"]


def test_an_unknown_outcome_is_settled_by_the_row_whether_or_not_the_write_was_applied(store: Store) -> None:
    store.failures = [None, Unknown("timeout")]
    (report,) = carry_out(store, Order("pause"), wait=False)
    assert report.done
    assert store.calls == ["Pause", "read t/0", "snapshot", "Pause", "read t/0"]
    store.failures = [None, Unknown("timeout")]
    store.between = happen(lambda: store.model.apply(Pause("t/1", A, 7, True)))
    (report,) = carry_out(store, Order("pause"), "t/1", wait=False)
    assert report.done
    assert store.calls == ["Pause", "read t/1"]


def test_a_look_that_fails_is_tried_again_and_says_nothing(store: Store) -> None:
    failure = Unavailable("timeout")
    for shards in (["t/0"], [f"t/{index}" for index in range(9)]):
        store.failures = [None, *(None for _ in shards), failure, failure, failure]
        store.between = happen(*[None] * 4, lambda shards=shards: [hand_over(store, shard, B) for shard in shards])
        reports = carry_out(store, Order("move", to="b"), *shards)
        assert [report.line for report in reports] == [moved(shard) for shard in shards]
        for shard in shards:
            store.model.leases[shard] = replace(store.model.leases[shard], owner=A, epoch=7)


def test_a_store_that_does_not_answer_in_time_is_no_answer_about_the_shard(store: Store) -> None:
    store.failures = [None, None, *[Unavailable("no answer in time")] * 10_000]
    with pytest.raises(Unavailable, match="no answer in time"):
        carry_out(store, Order("move"), timeout_s=0.05)
    store.failures = [None, *[Unknown("throttled"), None, None] * 10_000]
    with pytest.raises(Unavailable, match="throttled"):
        carry_out(store, Order("pause"), timeout_s=0.05)


def test_what_is_not_permitted_ends_everything_at_once(store: Store) -> None:
    store.failures = [None, Unknown("dynamodb:UpdateItem is not permitted", denied=True)]
    with pytest.raises(Denied, match="UpdateItem is not permitted"):
        carry_out(store, Order("move"))
    store.failures = [None, None, Denied("dynamodb:GetItem is not permitted")]
    with pytest.raises(Denied, match="GetItem is not permitted"):
        carry_out(store, Order("move"))


def test_what_is_not_there_in_time_is_told_for_each_shard(store: Store) -> None:
    reports = carry_out(store, Order("move"), "t/0", "t/1", timeout_s=0)
    assert [report.done for report in reports] == [False, False]
    assert reports[0].line.startswith(f"t/0 was not moved within 0 s: {A} owns it, epoch 7, renewed 0.")


def test_a_row_that_is_spoiled_meanwhile_is_told(store: Store) -> None:
    store.between = happen(lambda: store.model.spoil("t/0"))
    (report,) = carry_out(store, Order("move"))
    assert report.line.startswith("t/0 was not moved: its row does not parse: epoch is 'x'")
