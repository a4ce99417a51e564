"""A graceful stop, step by step: settle, mark, wait, stop, release, part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core import leaseset
from supervisor.core.model import (
    Answered,
    Apply,
    Effects,
    Event,
    Exit,
    Exited,
    Kill,
    Proved,
    Renewals,
    Snapshotted,
    Stop,
    StopRequested,
    TakeSnapshot,
    Ticked,
)
from supervisor.core.phases import Claiming, Held, Idle, Phase, Releasing, Vacant, Wanted
from supervisor.core.state import State, begin
from supervisor.writes import Applied, Claim, DeleteMember, Outcome, PutMember, Refused, Release, Unknown, Write
from tests.core import (
    ME,
    OTHER,
    RULES,
    claim,
    held,
    lease,
    member,
    moment,
    none,
    ns,
    only,
    own_row,
    report,
    snapshot,
    tenure,
)


def step(state: State, seconds: float, event: Event) -> tuple[State, Effects]:
    return leaseset.step(state, event, moment(seconds))


def active(phase: Phase | None = None, peers: int = 0) -> State:
    """A supervisor that has joined; its shard `s/0` is in this phase."""
    state = replace(begin(RULES, ME, ns(0)), stage="proving")
    state, _ = step(state, 0, Proved(member(ME)))
    if phase is not None:
        state = state.with_shard(replace(state.shards["s/0"], phase=phase, seen=8, tried=8))
    return replace(state, live_members=1 + peers, round_ns=ns(1000), snapshot_ns=ns(1000))


def written(effects: Effects, kind: type[Write]) -> list[Write]:  # type: ignore[valid-type]
    return [effect.write for effect in effects if isinstance(effect, Apply) and isinstance(effect.write, kind)]


def marked(state: State, seconds: float = 1) -> State:
    """After the stop was requested and the member row shows it."""
    state, effects = step(state, seconds, StopRequested())
    (write,) = written(effects, PutMember)
    state, _ = step(state, seconds, Answered(write, Applied()))
    return state


def test_a_stop_marks_the_member_row_before_anything_else() -> None:
    state, effects = step(active(held().phase, peers=1), 1, StopRequested())
    (write,) = written(effects, PutMember)
    assert isinstance(write, PutMember)
    assert write.member.state == "draining"
    assert none(effects, Stop)
    assert written(effects, Release) == []
    assert state.stage == "draining"


def test_the_children_are_stopped_one_poll_after_the_mark_if_there_are_peers() -> None:
    state = marked(active(held().phase, peers=1))
    state, early = step(state, 1.999, Ticked({"s/0": report(1.999)}))
    assert none(early, Stop)
    assert leaseset.due_ns(state) <= ns(2)
    _, late = step(state, 2, Ticked({"s/0": report(2)}))
    assert only(late, Stop).shard == "s/0"


def test_the_children_are_stopped_at_once_if_there_are_no_peers() -> None:
    state, effects = step(active(held().phase), 1, StopRequested())
    (write,) = written(effects, PutMember)
    state, effects = step(state, 1.1, Answered(write, Applied()))
    assert only(effects, Stop).shard == "s/0"


@pytest.mark.parametrize("outcome", [None, Unknown("timeout")])
def test_a_store_that_does_not_take_the_mark_does_not_hold_up_the_stop(outcome: Outcome | None) -> None:
    state, effects = step(active(held().phase), 1, StopRequested())
    (write,) = written(effects, PutMember)
    if outcome is not None:
        state, effects = step(state, 2.6, Answered(write, outcome))
        assert none(effects, Stop)
    assert leaseset.due_ns(state) <= ns(4.2)
    _, effects = step(state, 4.2, Ticked({"s/0": report(4.2)}))
    assert only(effects, Stop).shard == "s/0"


def test_a_claim_in_flight_is_settled_before_the_mark_and_given_back() -> None:
    state, effects = step(active(Claiming(claim(), ns(0.5), None)), 1, StopRequested())
    assert written(effects, PutMember) == []
    state, effects = step(state, 1.2, Answered(claim(), Applied(own_row())))
    assert written(effects, Release) == []
    (mark,) = written(effects, PutMember)
    state, effects = step(state, 1.3, Answered(mark, Applied()))
    assert leaseset.due_ns(state) <= ns(1.3)
    state, effects = step(state, 1.3, Ticked())
    assert isinstance(state.shards["s/0"].phase, Releasing)
    assert len(written(effects, Release)) == 1


def test_a_shard_that_was_only_wanted_is_left_alone() -> None:
    state, _ = step(active(Wanted(ns(5), ns(3))), 1, StopRequested())
    assert isinstance(state.shards["s/0"].phase, Idle)
    state, effects = step(marked(active()), 2, Snapshotted(snapshot(lease(owner=None)), ns(1.9)))
    assert isinstance(state.shards["s/0"].phase, Idle)
    assert written(effects, Claim) == []


def test_each_lease_is_released_the_moment_its_child_is_dead_and_then_the_member_row_goes() -> None:
    state, _ = step(marked(active(held().phase)), 1.1, Ticked({"s/0": report(1.1)}))
    state, effects = step(state, 1.5, Exited("s/0", 8, report(1.5, checkpoint="last")))
    (write,) = written(effects, Release)
    assert isinstance(write, Release)
    assert write.checkpoint == "last"
    assert written(effects, DeleteMember) == []
    state, effects = step(state, 1.6, Answered(write, Applied()))
    (parting,) = written(effects, DeleteMember)
    state, effects = step(state, 1.7, Answered(parting, Applied()))
    assert only(effects, Exit) == Exit(0, "stopped")
    assert state.stage == "over"


def test_our_lease_without_a_child_is_released_too() -> None:
    state = marked(active(Vacant(tenure(), ns(5))))
    assert leaseset.due_ns(state) <= ns(1.1)
    _, effects = step(state, 1.1, Ticked())
    assert len(written(effects, Release)) == 1


def test_a_second_request_kills_at_once_and_still_releases() -> None:
    state, _ = step(active(held().phase, peers=1), 1, StopRequested())
    state, effects = step(state, 1.1, StopRequested())
    assert only(effects, Kill).reason == "hurried"
    state, effects = step(state, 1.11, Exited("s/0", 8))
    assert len(written(effects, Release)) == 1


def test_a_lease_that_cannot_be_released_before_it_runs_out_makes_the_exit_code_75() -> None:
    state = marked(active(Releasing(tenure(), "stopped", ns(3))))
    state, effects = step(state, 10, Ticked())
    (parting,) = written(effects, DeleteMember)
    _, effects = step(state, 10.1, Answered(parting, Unknown("timeout")))
    assert only(effects, Exit).code == 75
    assert "s/0" in only(effects, Exit).reason


def test_a_lease_that_ran_out_in_an_outage_long_before_the_stop_does_not() -> None:
    state, _ = step(active(Releasing(tenure(), "crashed", ns(3))), 10, Ticked())
    state, effects = step(marked(state, 500), 500.1, Ticked())
    state, effects = step(state, 504, Ticked())
    assert only(effects, Exit).code == 0


def test_a_store_that_does_not_answer_the_last_write_does_not_hold_the_process() -> None:
    state = marked(active())
    assert leaseset.due_ns(state) <= ns(4.2)
    _, effects = step(state, 4.2, Ticked())
    assert only(effects, Exit).code == 0


@pytest.mark.parametrize("stage", ["looking", "proving"])
def test_a_stop_before_joining_ends_at_once(stage: str) -> None:
    state, effects = step(replace(begin(RULES, ME, ns(0)), stage=stage), 1, StopRequested())
    assert only(effects, Exit).code == 0
    assert state.stage == "over"
    state, effects = step(state, 1.1, Proved(member(ME)))
    assert state.stage == "over"
    assert none(effects, TakeSnapshot)


def test_a_late_proof_does_not_call_off_a_stop() -> None:
    state = marked(active(held().phase, peers=1))
    state, _ = step(state, 1.1, Proved(member(ME)))
    assert state.stage == "draining"
    _, effects = step(state, 2, Ticked({"s/0": report(2)}))
    assert only(effects, Stop).shard == "s/0"


def test_a_second_copy_met_while_draining_changes_the_id_and_does_not_call_off_the_stop() -> None:
    state, _ = step(marked(active(held().phase)), 1.1, Ticked({"s/0": report(1.1)}))
    conflict = snapshot(own_row(beat=3, nonce="the copy's"), member(OTHER))
    state, effects = step(state, 1.2, Snapshotted(conflict, ns(1.15)))
    assert only(effects, Kill).reason == "lost"
    assert state.me != ME
    assert state.member is not None
    assert (state.member.id, state.member.state) == (state.me, "draining")
    state, effects = step(state, 1.21, Exited("s/0", 8))
    (parting,) = written(effects, DeleteMember)
    _, effects = step(state, 1.3, Answered(parting, Refused(None)))
    assert only(effects, Exit).code == 0


def test_a_held_lease_is_renewed_while_its_child_takes_its_time_to_stop() -> None:
    state, _ = step(marked(active(held().phase)), 1.1, Ticked({"s/0": report(1.1)}))
    assert isinstance(state.shards["s/0"].phase, Held)
    state = replace(state, round_ns=ns(3))
    _, effects = step(state, 3, Ticked({"s/0": report(3)}))
    assert only(effects, Renewals).writes[0].shard == "s/0"
