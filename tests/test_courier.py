"""What becomes of a call to a store: an event by its deadline, whatever the store does, and no secret in it."""

from __future__ import annotations

import asyncio
import builtins
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from supervisor.core import lease as lease_of
from supervisor.core.model import (
    Answered,
    Event,
    ProofFailed,
    Proved,
    ReadFailed,
    RowRead,
    SnapshotFailed,
    Snapshotted,
)
from supervisor.courier import Courier
from supervisor.records import BadRow, Lease, Member, Snapshot
from supervisor.stores.interface import Unavailable, Unfit
from supervisor.writes import Applied, Outcome, Refused, Renew, Unknown, Write
from tests.core import claim, held, lease, member, report, snapshot, turn
from tests.wait import until

SECRET = "AKIA-very-secret"


class Answering:
    """A store whose every call does what `act` says."""

    url = "fake://store"
    batch = 3

    def __init__(self, act: Callable[..., Any], lanes: int = 2) -> None:
        self.act = act
        self.lanes = lanes
        self.calls: list[tuple[str, object]] = []

    def _called(self, name: str, argument: object) -> Any:
        self.calls.append((name, argument))
        return self.act(name, argument)

    def initialize(self) -> str:
        raise NotImplementedError

    def inspect(self, timeout_s: float) -> None:
        self._called("inspect", None)

    def prove(self, member: Member, timeout_s: float) -> None:
        self._called("prove", member)

    def apply(self, write: Write, timeout_s: float) -> Outcome:
        return self._called("apply", write)

    def renew(self, writes: Sequence[Renew], timeout_s: float) -> list[Outcome]:
        return self._called("renew", tuple(writes))

    def read(self, shard: str, timeout_s: float) -> Lease | None:
        return self._called("read", shard)

    def snapshot(self, timeout_s: float, full: bool = False) -> Snapshot:
        return self._called("snapshot", full)

    def close(self) -> None: ...


class Desk:
    """A courier, its loop on a thread of its own, and what it delivered."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.events: list[Event] = []
        self.unfit: list[str] = []
        self.couriers: list[Courier] = []

    def courier(self, act: Callable[..., Any], attempt_s: float = 5, lanes: int = 2) -> tuple[Courier, Answering]:
        store = Answering(act, lanes)
        made = Courier(store, attempt_s, self.loop, lambda event, _: self.events.append(event), self.unfit.append)
        self.couriers.append(made)
        return made, store

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        self.loop.call_soon_threadsafe(function, *arguments)

    def wait(self, count: int) -> list[Event]:
        until(lambda: len(self.events) >= count, 5)
        return self.events

    def close(self) -> None:
        for courier in self.couriers:
            self.loop.call_soon_threadsafe(courier.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def renewals(count: int) -> tuple[Renew, ...]:
    write = lease_of.renewal(held(), turn(3), report(3))[1]
    assert write is not None
    return tuple(replace(write, shard=f"s/{number}") for number in range(count))


def returns(value: object) -> Callable[..., Any]:
    return lambda *_: value


def raises(error: BaseException) -> Callable[..., Any]:
    def act(*_: object) -> None:
        raise error

    return act


def every_exception() -> list[type[BaseException]]:
    """Every exception type that is built in, and those that are no `Exception`."""
    types = [value for value in vars(builtins).values() if isinstance(value, type) and issubclass(value, Exception)]
    return [*types, SystemExit, KeyboardInterrupt, asyncio.CancelledError]


def made(kind: type[BaseException]) -> BaseException:
    try:
        return kind(SECRET)
    except TypeError:
        if issubclass(kind, BaseExceptionGroup):
            return kind(SECRET, [ValueError(SECRET)])
        return kind("utf-8", b"x", 0, 1, SECRET) if kind is UnicodeDecodeError else kind("utf-8", "x", 0, 1, SECRET)


def test_an_exception_of_any_type_is_an_unknown_outcome_whose_text_is_not_quoted_and_the_lane_lives_on(
    desk: Desk,
) -> None:
    errors = [made(kind) for kind in every_exception() if kind is not UnicodeTranslateError]
    queue = iter(errors)

    def act(name: str, _: object) -> Any:
        error = next(queue, None)
        if error is not None:
            raise error
        return [Applied()]

    courier, _ = desk.courier(act, lanes=1)
    for _ in errors:
        desk.call(courier.renew, renewals(1), courier.attempt_s)
    desk.call(courier.renew, renewals(1), courier.attempt_s)
    events = desk.wait(len(errors) + 1)
    causes = [event.outcome for event in events if isinstance(event, Answered)]
    assert causes[-1] == Applied()
    assert all(isinstance(cause, Unknown) for cause in causes[:-1])
    assert [cause.cause for cause in causes[:-1] if isinstance(cause, Unknown)] == [
        type(error).__name__ for error in errors
    ]
    assert SECRET not in repr(causes)


@pytest.mark.parametrize("answer", [None, [], [Applied()], "<html>", [Applied()] * 4])
def test_a_count_of_answers_other_than_that_of_the_writes_makes_all_unknown(desk: Desk, answer: object) -> None:
    courier, _ = desk.courier(returns(answer))
    desk.call(courier.renew, renewals(3), courier.attempt_s)
    events = desk.wait(3)
    assert all(isinstance(event, Answered) and isinstance(event.outcome, Unknown) for event in events)


def test_renewals_travel_in_calls_of_the_stores_size_and_each_gets_its_own_outcome(desk: Desk) -> None:
    outcomes: list[Outcome] = [Applied(), Unknown("one"), Applied()]
    courier, store = desk.courier(lambda _, writes: outcomes[: len(writes)])
    desk.call(courier.renew, renewals(7), courier.attempt_s)
    events = desk.wait(7)
    assert sorted(len(writes) for _, writes in store.calls) == [1, 3, 3]  # type: ignore[arg-type]
    by_shard = {event.write.shard: event.outcome for event in events if isinstance(event, Answered)}  # type: ignore[union-attr]
    assert [by_shard[f"s/{number}"] for number in range(7)] == [*outcomes, *outcomes, Applied()]


def test_the_refusals_of_a_batch_are_delivered_before_its_other_answers(desk: Desk) -> None:
    courier, _ = desk.courier(returns([Applied(), Unknown("one"), Refused(None)]))
    desk.call(courier.renew, renewals(3), courier.attempt_s)
    shards = [event.write.shard for event in desk.wait(3) if isinstance(event, Answered)]  # type: ignore[union-attr]
    assert shards == ["s/2", "s/0", "s/1"]


def test_renewals_go_out_while_every_other_call_is_stuck(desk: Desk) -> None:
    release = threading.Event()

    def act(name: str, _: object) -> Any:
        return [Applied()] if name == "renew" else release.wait(10)

    courier, _ = desk.courier(act, attempt_s=5)
    for number in range(6):
        desk.call(courier.read, f"s/{number}", number)
    desk.call(courier.renew, renewals(1), courier.attempt_s)
    assert desk.wait(1) == [Answered(renewals(1)[0], Applied())]
    release.set()


def test_an_answer_after_the_deadline_comes_as_unknown_first_and_as_itself_later(desk: Desk) -> None:
    release = threading.Event()

    def act(*_: object) -> Any:
        release.wait(10)
        return Applied()

    courier, _ = desk.courier(act, attempt_s=0.05)
    desk.call(courier.apply, claim())
    assert desk.wait(1) == [Answered(claim(), Unknown("no answer in time"))]
    assert courier.stuck == 1
    release.set()
    assert desk.wait(2)[1] == Answered(claim(), Applied())
    assert courier.stuck == 0


def test_a_call_that_was_never_made_says_so(desk: Desk) -> None:
    release = threading.Event()
    courier, _ = desk.courier(lambda *_: release.wait(10), attempt_s=0.3, lanes=1)
    desk.call(courier.snapshot, 0, False)
    desk.call(courier.apply, claim())
    assert desk.wait(1)[0] == Answered(claim(), Unknown("not sent in time", unsent=True))
    release.set()


@pytest.mark.parametrize(
    ("error", "cause"),
    [(Unavailable("throttled"), "throttled"), (BadRow("epoch is 0"), "epoch is 0"), (OSError(SECRET), "OSError")],
)
def test_a_failed_read_and_a_failed_snapshot_name_their_cause(desk: Desk, error: Exception, cause: str) -> None:
    courier, _ = desk.courier(raises(error), lanes=1)
    desk.call(courier.read, "s/0", 5)
    desk.call(courier.snapshot, 5, False)
    desk.call(courier.prove, member())
    assert desk.wait(3) == [ReadFailed("s/0", cause), SnapshotFailed(cause), ProofFailed(cause)]


@pytest.mark.parametrize("row", [lease(), None])
def test_a_read_tells_when_it_was_asked_for(desk: Desk, row: Lease | None) -> None:
    courier, _ = desk.courier(returns(row))
    desk.call(courier.read, "s/0", 1234)
    assert desk.wait(1) == [RowRead("s/0", row, 1234)]


def test_the_first_snapshot_looks_at_the_store_before_and_later_ones_do_not(desk: Desk) -> None:
    courier, store = desk.courier(lambda name, _: snapshot(lease()) if name == "snapshot" else None, lanes=1)
    desk.call(courier.snapshot, 7, True)
    desk.call(courier.snapshot, 8, False)
    assert desk.wait(2) == [Snapshotted(snapshot(lease()), 7), Snapshotted(snapshot(lease()), 8)]
    assert [name for name, _ in store.calls] == ["inspect", "snapshot", "snapshot"]


def test_a_proof_brings_the_member_row_that_stands_in_the_store(desk: Desk) -> None:
    courier, _ = desk.courier(returns(None))
    desk.call(courier.prove, member())
    assert desk.wait(1) == [Proved(member())]


@pytest.mark.parametrize("first", ["snapshot", "prove"])
def test_an_unfit_store_ends_the_process_with_its_sentence(desk: Desk, first: str) -> None:
    courier, _ = desk.courier(raises(Unfit("the table has another key")))
    desk.call(*((courier.snapshot, 0, True) if first == "snapshot" else (courier.prove, member())))
    until(lambda: desk.unfit, 5)
    assert desk.unfit == ["the table has another key"]
    assert desk.events == []
