"""A new configuration under a running supervisor, step by step: what is replaced, in which order, and what stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core import leaseset
from supervisor.core.model import (
    SECOND,
    Answered,
    Apply,
    Effects,
    Event,
    Exited,
    Extend,
    Kill,
    Outdated,
    Proved,
    Reconfigured,
    ReloadRejected,
    Renewals,
    Report,
    Rules,
    ShardRule,
    Start,
    Stop,
    StopRequested,
    Ticked,
)
from supervisor.core.phases import Held, Idle, Phase, Releasing, Vacant, Wanted
from supervisor.core.shards import Shards
from supervisor.core.state import Drain, State, begin, member_row
from supervisor.writes import Applied, Claim, Release, Unknown
from tests.core import ME, RULES, held, member, moment, none, ns, only, own_row, tenure

SHARDS = ("s/0", "s/1", "s/2")


def rules(*shards: str, **changes: object) -> Rules:
    return replace(RULES, shards={shard: ShardRule() for shard in shards or SHARDS}, **changes)


def step(state: State, seconds: float, *events: Event) -> tuple[State, Effects]:
    effects: Effects = []
    for event in events:
        state, more = leaseset.step(state, event, moment(seconds))
        effects += more
    return state, effects


def active(*held_here: str, phase: Phase | None = None) -> State:
    """A supervisor that has joined and holds these shards of `SHARDS`; `s/0` may stand otherwise."""
    state = replace(begin(rules(), ME, ns(0)), stage="proving")
    state, _ = step(state, 0, Proved(member(ME)))
    for name in held_here:
        mine = replace(tenure(), shard=name)
        state = state.with_shard(replace(held(), name=name, phase=Held(mine, ns(9), "running", ns(0))))
    if phase is not None:
        state = state.with_shard(replace(state.shards["s/0"], phase=phase, seen=8, tried=8))
    return replace(state, round_ns=ns(1000), snapshot_ns=ns(1000))


def restarted(state: State, shard: str, seconds: float) -> State:
    """The stopped child dies, the lease is claimed again, and the new child runs."""
    state, _ = step(state, seconds, Exited(shard, state.shards[shard].phase.tenure.epoch))
    state, effects = step(state, seconds, Ticked())
    claim = only(effects, Apply).write
    row = own_row(shard=shard, epoch=claim.epoch, nonce=claim.nonce)
    state, effects = step(state, seconds, Answered(claim, Applied(row)))
    assert only(effects, Start).epoch == claim.epoch > 8
    state, _ = step(state, seconds, Ticked({shard: Report(claim.epoch, ns(seconds), started=True)}))
    return state


# --- children that are replaced ---------------------------------------------------------------------------


def test_an_unchanged_configuration_changes_nothing() -> None:
    state = replace(active(*SHARDS), round_ns=ns(4))
    after, effects = step(state, 1, Reconfigured(rules()))
    assert effects == []
    assert after == state  # renewals included: they come when they would have come


def test_only_children_whose_shard_changed_are_replaced() -> None:
    state, effects = step(active(*SHARDS), 1, Reconfigured(rules()), Outdated(frozenset({"s/1"})))
    assert effects == [Stop("s/1", 8, "reloaded")]
    for _ in range(3):
        state, effects = step(state, 2, Ticked())
        assert none(effects, Stop)


def test_they_are_replaced_one_at_a_time() -> None:
    state, effects = step(active(*SHARDS), 1, Reconfigured(rules()), Outdated(frozenset({"s/0", "s/2"})))
    assert only(effects, Stop).shard == "s/0"
    state, effects = step(state, 1.5, Ticked())
    assert none(effects, Stop)
    state, effects = step(restarted(state, "s/0", 2), 2.5, Ticked())
    assert state.shards["s/2"].phase.stage == "stopping"
    assert state.shards["s/1"].phase == active(*SHARDS).shards["s/1"].phase


def test_the_lease_of_a_replaced_child_is_kept() -> None:
    state, _ = step(active("s/0"), 1, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    state, effects = step(state, 2, Exited("s/0", 8))
    assert none(effects, Apply)
    assert isinstance(state.shards["s/0"].phase, Vacant)
    assert state.shards["s/0"].crashes == ()
    state, effects = step(state, 2, Ticked())
    claim = only(effects, Apply).write
    assert isinstance(claim, Claim)
    assert claim.keep_move


def test_a_child_that_never_runs_again_holds_up_the_others_for_a_bounded_time() -> None:
    quick = rules(start_ns=SECOND, stop_ns=SECOND)
    state, _ = step(active(*SHARDS), 1, Reconfigured(quick), Outdated(frozenset({"s/0", "s/1"})))
    state, _ = step(state, 2, Exited("s/0", 8))
    state = state.with_shard(replace(state.shards["s/0"], phase=Vacant(tenure(), ns(99))))
    assert leaseset.due_ns(state) <= ns(3)
    _, effects = step(state, 2.9, Ticked())
    assert none(effects, Stop)
    _, effects = step(state, 3, Ticked())
    assert only(effects, Stop).shard == "s/1"


@pytest.mark.parametrize("phase", [Idle(), Wanted(ns(9), ns(9)), Releasing(tenure(), "x", ns(9))])
def test_a_shard_without_a_child_needs_no_replacement(phase: Phase) -> None:
    state, effects = step(active(phase=phase), 1, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    assert none(effects, Stop)
    assert state.shards["s/0"].phase == phase


def test_a_second_reload_of_the_same_shard_waits_for_the_first() -> None:
    state, _ = step(active("s/0"), 1, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    state, effects = step(state, 1.5, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    assert none(effects, Stop)
    state = restarted(state, "s/0", 2)
    _, effects = step(state, 3, Ticked())
    assert none(effects, Stop)  # it was started after the second, and so under it


# --- shards that come and go ------------------------------------------------------------------------------


def test_a_shard_that_is_no_longer_configured_is_stopped_and_released() -> None:
    state, effects = step(active(*SHARDS), 1, Reconfigured(rules("s/1")))
    assert {effect.shard for effect in effects if isinstance(effect, Stop)} == {"s/0", "s/2"}
    state, effects = step(state, 2, Exited("s/0", 8))
    release = only(effects, Apply).write
    assert isinstance(release, Release)
    assert release.history[-1].endswith(" unconfigured")
    _, effects = step(state, 2, Answered(release, Applied()))
    assert none(effects, Apply)


def test_one_that_waits_to_start_again_is_released_at_once() -> None:
    _, effects = step(active(phase=Vacant(tenure(), ns(99))), 1, Reconfigured(rules("s/1")))
    assert isinstance(only(effects, Apply).write, Release)


def test_one_that_is_being_claimed_is_released_without_a_child() -> None:
    state = active(phase=Vacant(tenure(), ns(0)))
    state, effects = step(state, 0.5, Ticked())
    claim = only(effects, Apply).write
    state, _ = step(state, 1, Reconfigured(rules("s/1")))
    state, effects = step(state, 1, Answered(claim, Applied(own_row(epoch=claim.epoch, nonce=claim.nonce))))
    assert none(effects, Start)
    _, effects = step(state, 1, Ticked())
    assert isinstance(only(effects, Apply).write, Release)


def test_a_new_shard_is_known_from_then_on() -> None:
    state, _ = step(active(), 1, Reconfigured(rules(*SHARDS, "s/9")))
    assert state.shards["s/9"].rule == ShardRule()
    assert "s/9" in state.rules.shards


def test_one_that_comes_back_keeps_what_was_known_of_it() -> None:
    state = active(phase=Idle())
    state, _ = step(state, 1, Reconfigured(rules("s/1")))
    assert state.shards["s/0"].rule is None
    state, _ = step(state, 2, Reconfigured(rules()))
    assert (state.shards["s/0"].rule, state.shards["s/0"].seen) == (ShardRule(), 8)


# --- what an epoch was promised ---------------------------------------------------------------------------


def test_a_lease_keeps_its_duration_margin_and_policy_until_the_next_claim() -> None:
    new = rules(duration_ns=60 * SECOND, renew_every_ns=20 * SECOND, margin_ns=6 * SECOND)
    new = replace(new, shards={shard: ShardRule("hold") for shard in SHARDS})
    state, _ = step(active("s/0"), 1, Reconfigured(new))
    state, effects = step(replace(state, round_ns=ns(2)), 2, Ticked({"s/0": Report(8, ns(2), started=True)}))
    write = only(effects, Renewals).writes[0]
    assert write.policy == "fence"
    state, effects = step(state, 2.1, Answered(write, Applied()))
    assert only(effects, Extend).deadline_ns == ns(11)


def test_renewals_come_as_often_as_the_shortest_lease_needs() -> None:
    state, _ = step(active("s/0"), 1, Reconfigured(rules(duration_ns=60 * SECOND, renew_every_ns=20 * SECOND)))
    assert state.round_every_ns == 10 * SECOND // 3
    state, _ = step(replace(active("s/0"), round_ns=ns(3)), 1, Reconfigured(rules(renew_every_ns=SECOND)))
    assert state.round_ns == ns(2)


def test_a_shorter_lease_duration_takes_effect_at_the_next_claim() -> None:
    new = rules(duration_ns=3 * SECOND, renew_every_ns=SECOND, margin_ns=SECOND // 2)
    state, _ = step(active("s/0"), 1, Reconfigured(new), Outdated(frozenset({"s/0"})))
    state, _ = step(state, 2, Exited("s/0", 8))
    _, effects = step(replace(state, round_ns=ns(99)), 2, Ticked())
    assert only(effects, Apply).write.duration_ms == 3000


def test_the_margin_of_a_claim_sent_under_older_rules_fits_its_duration() -> None:
    state, effects = step(active(phase=Vacant(tenure(), ns(0))), 0.5, Ticked())
    claim = only(effects, Apply).write
    state, _ = step(
        state, 0.6, Reconfigured(rules(duration_ns=SECOND, renew_every_ns=SECOND // 4, margin_ns=SECOND // 4))
    )
    _, effects = step(state, 1, Answered(claim, Applied(own_row(epoch=claim.epoch, nonce=claim.nonce))))
    assert only(effects, Start).deadline_ns == ns(0.5) + 9 * SECOND


def test_an_outage_under_a_new_policy_fences_what_was_claimed_under_the_old_one() -> None:
    hold = replace(rules(), shards={shard: ShardRule("hold") for shard in SHARDS})
    state, _ = step(active("s/0"), 1, Reconfigured(hold))
    state, effects = step(replace(state, round_ns=ns(2)), 2, Ticked({"s/0": Report(8, ns(2), started=True)}))
    state, _ = step(state, 3, Answered(only(effects, Renewals).writes[0], Unknown("timeout")))
    _, effects = step(state, 9, Ticked({"s/0": Report(8, ns(9), started=True)}))
    assert only(effects, Kill).reason == "fenced"


def test_renewals_of_a_shorter_lease_take_their_share_of_its_time_and_not_of_a_longer_ones() -> None:
    longer = rules(duration_ns=60 * SECOND, renew_every_ns=20 * SECOND, attempt_ns=10 * SECOND, margin_ns=6 * SECOND)
    state, _ = step(active("s/0"), 1, Reconfigured(longer))
    state, effects = step(replace(state, round_ns=ns(2)), 2, Ticked({"s/0": Report(8, ns(2), started=True)}))
    renewals = only(effects, Renewals)
    assert renewals.within_ns == 10 * SECOND // 3 // 2
    state, _ = step(state, 2.5, Answered(renewals.writes[0], Unknown("timeout")))
    retry_ns = state.shards["s/0"].phase.retry_ns
    assert ns(2.5) < retry_ns <= ns(2.5) + 10 * SECOND // 3 // 8 * 3 // 2


def test_hold_moves_a_deadline_when_it_is_near_for_its_own_duration() -> None:
    state = active("s/0")
    mine = replace(state.shards["s/0"].phase.tenure, policy="hold")
    state = state.with_shard(replace(state.shards["s/0"], phase=replace(state.shards["s/0"].phase, tenure=mine)))
    state, _ = step(state, 1, Reconfigured(rules(duration_ns=60 * SECOND, renew_every_ns=20 * SECOND)))
    state, effects = step(replace(state, round_ns=ns(2)), 2, Ticked({"s/0": Report(8, ns(2), started=True)}))
    state, _ = step(state, 2.5, Answered(only(effects, Renewals).writes[0], Unknown("timeout")))
    assert leaseset.due_ns(state) > ns(2.5)
    state, effects = step(replace(state, snapshot_ns=ns(99)), 7.2, Ticked({"s/0": Report(8, ns(7.2), started=True)}))
    assert none(effects, Extend)
    _, effects = step(state, 7.4, Ticked({"s/0": Report(8, ns(7.4), started=True)}))
    assert only(effects, Extend).deadline_ns == ns(7.4) + 9 * SECOND


def test_the_watchdog_hears_of_the_shortest_lease_in_force() -> None:
    state, _ = step(active("s/0"), 1, Reconfigured(rules(duration_ns=60 * SECOND, renew_every_ns=20 * SECOND)))
    assert state.shortest_ns == 10 * SECOND
    state, _ = step(active("s/0"), 1, Reconfigured(rules(duration_ns=3 * SECOND, renew_every_ns=SECOND)))
    assert state.shortest_ns == 3 * SECOND


# --- what crashed before ----------------------------------------------------------------------------------


def test_a_shard_whose_configuration_changed_starts_at_once_whatever_it_crashed_of() -> None:
    state = active(phase=Vacant(tenure(), ns(60)))
    crashed = replace(state.shards["s/0"], crashes=(ns(0), ns(1)), start_ns=ns(60), failed_ns=ns(1), gave_up_ns=ns(1))
    state, _ = step(state.with_shard(crashed), 2, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    shard = state.shards["s/0"]
    assert (shard.crashes, shard.start_ns, shard.failed_ns, shard.gave_up_ns) == ((), 0, None, None)
    _, effects = step(state, 2, Ticked())
    assert isinstance(only(effects, Apply).write, Claim)


def test_a_shard_that_is_dropped_while_its_child_is_replaced_is_released_as_unconfigured() -> None:
    state, _ = step(active("s/0"), 1, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    state, _ = step(state, 1.5, Reconfigured(rules("s/1")))
    _, effects = step(state, 2, Exited("s/0", 8))
    assert only(effects, Apply).write.history[-1].endswith(" unconfigured")


@pytest.mark.parametrize(("hurried", "reason"), [(False, "stopped"), (True, "hurried")])
def test_a_stop_while_a_child_is_replaced_releases_it_for_the_reason_of_the_stop(hurried: bool, reason: str) -> None:
    state, _ = step(active("s/0"), 1, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    state = replace(state, stage="draining", drain=Drain(ns(1), ns(1)))
    state, _ = step(state, 2, StopRequested() if hurried else Ticked())
    _, effects = step(state, 3, Exited("s/0", 8))
    assert only(effects, Apply).write.history[-1].endswith(f" {reason}")


def test_a_drain_ends_the_wait_for_a_replacement() -> None:
    state, _ = step(active("s/0"), 1, Reconfigured(rules()), Outdated(frozenset({"s/0"})))
    state = replace(state, stage="draining", drain=Drain(ns(2), ns(2), stopping=True))
    seconds = 2 + (RULES.stop_ns + RULES.start_ns) / SECOND
    assert leaseset.due_ns(replace(state, round_ns=ns(99), snapshot_ns=ns(99), shards=Shards())) > ns(seconds)


# --- what the fleet is told -------------------------------------------------------------------------------


def test_a_rejected_reload_stands_in_the_member_row_until_one_is_taken() -> None:
    state, effects = step(active(*SHARDS), 1, ReloadRejected("line 3: unknown key urk"))
    assert effects == []
    assert member_row(state, "n", 0, draining=False).rejected == "line 3: unknown key urk"
    state, _ = step(state, 2, Reconfigured(rules()))
    assert member_row(state, "n", 0, draining=False).rejected == ""


def test_a_member_row_tells_the_shards_configured_now_and_the_poll_interval_in_force() -> None:
    state, _ = step(active(), 1, Reconfigured(rules("a/0", "a/1", poll_every_ns=2 * SECOND)))
    row = member_row(state, "n", 0, draining=False)
    assert (row.shards, row.poll_ms) == (("a/0-1",), 2000)


def test_a_draining_supervisor_replaces_nobody() -> None:
    state = replace(active(*SHARDS), stage="draining")
    state = replace(state, drain=Drain(ns(0), ns(0)), live_members=2)
    _, effects = step(state, 0.1, Reconfigured(rules()), Outdated(frozenset(SHARDS)))
    assert none(effects, Stop)
