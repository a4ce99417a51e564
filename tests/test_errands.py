"""How an operator's order is carried to the store and waited for: on a store in memory that fails when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

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


def hand_over(store: Store, shard: str, owner: str, *history: str) -> None:
    row = store.model.leases[shard]
    if row.owner:
        store.model.apply(Release(shard, row.owner, row.epoch, "r", row.history, None, unix_ms()))
    row = store.model.leases[shard]
    seen = (row.owner, row.epoch, row.beat, row.beat)
    entries = history or ("8 bb 1 claimed",)
    store.model.apply(Claim(shard, *seen, owner, row.epoch + 1, "c", 10_000, "fence", 1, entries, unix_ms()))


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
            store.model.leases[shard] = replace(store.model.leases[shard], owner=A, epoch=7, history=())


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


# --- lost answers -----------------------------------------------------------------------------------------


def lose_answers(store: Store, monkeypatch: pytest.MonkeyPatch, heed: Callable[[Write], object]) -> None:
    """Every write is applied, and heeded before the next look; no answer ever comes."""
    apply = store.apply

    def eaten(write: Write, timeout_s: float) -> Outcome:
        apply(write, timeout_s)
        heed(write)
        return Unknown("no answer in time")

    monkeypatch.setattr(store, "apply", eaten)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("order", [Order("move"), Order("move", to="b")])
def test_one_move_is_one_wish_although_no_write_is_ever_answered(
    store: Store, monkeypatch: pytest.MonkeyPatch, order: Order, back: bool
) -> None:
    """It moves while the command waits for the answer, and may move on, for whatever reason, before the next look."""

    def heed(_: Write) -> None:
        hand_over(store, "t/0", B, "7 aa 1 moved", "8 bb 2 claimed")
        if back:
            hand_over(store, "t/0", A, "7 aa 1 moved", "8 bb 2 claimed", "8 bb 3 stopped", "9 aa 4 claimed")

    lose_answers(store, monkeypatch, heed)
    (report,) = carry_out(store, order)
    assert report.done
    assert report.line.startswith(f"t/0 moved from {A} to ")
    assert store.calls == ["Wish", "read t/0"]


def test_a_lost_answer_of_each_other_command_is_told_by_the_row(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def heed(write: Write) -> None:
        match write:
            case Pause(shard=shard, paused=True) if store.model.leases[shard].owner:
                row = store.model.leases[shard]
                store.model.apply(Release(shard, A, row.epoch, "r", row.history, None, unix_ms()))
            case Pause(shard=shard, paused=False):
                hand_over(store, shard, B, "8 bb 1 claimed")

    lose_answers(store, monkeypatch, heed)
    (report,) = carry_out(store, Order("pause"))
    assert (report.done, store.calls) == (True, ["Pause", "read t/0"])
    (report,) = carry_out(store, Order("resume"))
    assert (report.done, store.calls) == (True, ["Pause", "read t/0"])
    (report,) = carry_out(store, Order("pause", force=True))
    assert (report.done, store.calls) == (True, ["Depose", "read t/0"])
    for name in (A, B):
        store.model.members[name] = replace(store.model.members[name], shards=())
    store.model.leases["t/0"] = replace(store.model.leases["t/0"], forced=False)
    (report,) = carry_out(store, Order("forget"))
    assert report == Report("t/0", True, "t/0 is forgotten, epoch 9 was its last, after 0.0 s")
    assert store.calls == ["Forget", "read t/0"]


def test_a_write_that_certainly_was_not_sent_counts_as_none(store: Store) -> None:
    store.failures = [None, Unknown("refused", unsent=True)]
    store.between = happen(lambda: hand_over(store, "t/0", A, "8 aa 1 moved"), None, lambda: hand_over(store, "t/0", B))
    (report,) = carry_out(store, Order("move"))
    assert report.done
    assert store.calls[:4] == ["Wish", "read t/0", "snapshot", "Wish"]


def test_a_wish_that_the_row_shows_is_no_failure_of_the_store_when_the_time_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(store, monkeypatch, lambda _: None)
    (report,) = carry_out(store, Order("move"), timeout_s=0.05)
    assert report.line.startswith(f"t/0 was not moved within 0.05 s: {A} owns it, epoch 7")
    assert store.calls.count("Wish") == 1


# --- the time ---------------------------------------------------------------------------------------------


class Clock:
    """Time that goes on when somebody sleeps, or waits for a store that hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.wrong_s = 0.0
        monkeypatch.setattr(errands, "time", SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.go_on))
        monkeypatch.setattr(errands, "unix_ms", lambda: int((self.now_s + self.wrong_s) * 1000))
        monkeypatch.setattr(errands, "FEW_EVERY_S", 0.2)
        monkeypatch.setattr(errands, "MANY_EVERY_S", 0.5)

    def go_on(self, seconds: float) -> None:
        self.now_s += seconds


def many(store: Store, clock: Clock) -> list[str]:
    """40 shards at A, and members, renewed just now."""
    shards = [f"t/{index}" for index in range(40)]
    for shard in shards:
        store.model.leases[shard] = Lease(shard, A, 7, 3, "n", 10_000, renewed_at=int(clock.now_s * 1000))
    for name, each in store.model.members.items():
        store.model.members[name] = replace(each, renewed_at=int(clock.now_s * 1000), shards=("t/0-39",))
    return shards


@pytest.mark.parametrize("call_timeout_s", [0.2, 1, 10])
def test_a_store_that_hangs_ends_the_command_with_its_time_however_many_shards_there_are(
    store: Store, monkeypatch: pytest.MonkeyPatch, call_timeout_s: float
) -> None:
    clock = Clock(monkeypatch)
    shards = many(store, clock)
    first = sight_of(store.snapshot(1, full=True))

    def hang(_: object, timeout_s: float) -> Outcome:
        clock.go_on(timeout_s)
        return Unknown("no answer in time")

    monkeypatch.setattr(store, "apply", hang)
    with pytest.raises(Unavailable, match="no answer in time"):
        list(Errands(store, Order("pause"), first, shards, True, call_timeout_s).run(1))
    assert clock.now_s - 1000 <= 1 + min(call_timeout_s, errands.CALL_MIN_S)


def test_what_was_written_at_the_last_moment_is_looked_at_once_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    shards = many(store, clock)
    first = sight_of(store.snapshot(1, full=True))
    apply = store.apply

    def slow(write: Write, timeout_s: float) -> Outcome:
        clock.go_on(0.4)
        return apply(write, timeout_s)

    monkeypatch.setattr(store, "apply", slow)
    reports = list(Errands(store, Order("move", to="b"), first, shards, True, 10).run(1))
    assert [report.done for report in reports] == [False] * 40
    wished = [report for report in reports if f"and the wish to move to {B} stands in its row" in report.line]
    assert [report.shard for report in wished] == shards[:3]
    assert clock.now_s - 1000 <= 1.5


@pytest.mark.parametrize("wrong_s", [-3600, 0, 15, 3600])
def test_a_pause_waits_while_the_beat_of_the_owner_moves_whatever_the_clock_of_the_command_says(
    store: Store, monkeypatch: pytest.MonkeyPatch, wrong_s: float
) -> None:
    """Its child takes 30 s to stop."""
    clock = Clock(monkeypatch)
    clock.wrong_s = wrong_s
    many(store, clock)

    def live() -> Iterator[object]:
        while True:
            gone_s = clock.now_s - 1000
            row = store.model.leases["t/0"]
            if gone_s > 30 and row.owner:
                store.model.apply(Release("t/0", A, 7, "r", ("7 aa 1 paused",), None, 0))
            elif row.owner:
                beat = 3 + int(gone_s / 3)
                store.model.leases["t/0"] = replace(row, beat=beat, renewed_at=1_000_000 + int(gone_s) // 3 * 3000)
            yield

    store.between = live()
    (report,) = carry_out(store, Order("pause"), timeout_s=60)
    assert report.done
    assert report.line.startswith(f"t/0 is paused, {A} gave it up, after 30.")
