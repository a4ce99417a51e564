"""What a supervisor says of itself, and when its watchdog should go unanswered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.model import SECOND
from supervisor.core.phases import Idle, Phase, Vacant, Wanted
from supervisor.core.state import State
from supervisor.health import TROUBLES_MAX, health, line, progresses
from tests.core import RULES, claiming, held, ns, report, saw, shard, snapshot, state, tenure

PATIENCE_NS = RULES.attempt_ns + SECOND


def active(*shards: object, **changes: object) -> State:
    return replace(state(*shards), **{"stage": "active", "round_ns": ns(3), **changes})


def reasons(known: State) -> str:
    return str(health(known, 0, {})["reason"])


def test_one_whose_children_run_is_ready() -> None:
    answer = health(active(held()), 3, {})
    assert (answer["ready"], answer["reason"], answer["shards"], answer["stuck_calls"]) == (True, "", 1, 3)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (active(held(), stage="draining"), "it is draining"),
        (active(held(), reachable=False), "the store cannot be reached"),
        (active(held("starting")), "1 of 1 children do not run"),
    ],
)
def test_whatever_keeps_it_from_its_work_is_named(known: State, reason: str) -> None:
    assert reason in reasons(known)
    assert not health(known, 0, {})["ready"]


def test_rows_of_ours_that_do_not_parse_are_named_and_those_of_others_are_not() -> None:
    found = saw(active(held()), 1, snapshot(bad={"s/1": "no epoch", "else/0": "no epoch", "@x:1:y": "no fleet"}))
    assert reasons(found) == "the rows of 1 shards do not parse, that of s/1 among them"
    assert not health(found, 0, {})["ready"]
    assert reasons(saw(found, 2, snapshot())) == ""


@pytest.mark.parametrize(
    "phase",
    [Idle(), Vacant(tenure(), ns(5)), held("starting").phase, held().phase, Wanted(ns(5), ns(3)), claiming().phase],
    ids=lambda phase: type(phase).__name__,
)
def test_a_crash_is_told_and_leaves_it_unready_in_whatever_phase_its_shard_is(phase: Phase) -> None:
    """Nobody who looks between two crashes must find all well."""
    answer = health(active(shard(phase, crash="its child exited with 1")), 0, {"s/0": report(1)})
    assert answer["troubles"] == {"s/0": "its child exited with 1"}
    assert "of 1 shards no child has run for a minute since a crash, s/0 among them" in answer["reason"]


def test_what_is_wrong_with_its_shards_is_named_and_leaves_it_ready() -> None:
    def troubles(known: State, trouble: str = "") -> object:
        answer = health(known, 0, {"s/0": report(1, trouble=trouble)})
        assert answer["ready"]
        return answer["troubles"]

    assert troubles(active(held())) == {}
    assert troubles(active(held()), "sink: no answer") == {"s/0": "sink: no answer"}
    assert troubles(active(shard(Idle()))) == {}
    many = {f"t/{number}": report(1, trouble="sink: no answer") for number in range(100)}
    assert len(health(active(*(replace(held(), name=name) for name in many)), 0, many)["troubles"]) == TROUBLES_MAX


def test_the_line_for_systemd_counts_what_runs_and_names_troubles() -> None:
    known = active(replace(held(), crash="its child exited with 1"), reachable=False, rejected="line 3: unknown key")
    configured = len(known.rules.shards)
    assert line(known) == (
        f"active: 1 of {configured} configured shards run here; 1 of them crashed of late; "
        "the store cannot be reached; "
        "the last reload was rejected"
    )


# --- the watchdog -----------------------------------------------------------------------------------------


def test_rounds_that_come_on_time_are_progress() -> None:
    assert progresses(active(), None, ns(3) + PATIENCE_NS)
    assert progresses(active(), ns(3), ns(3) + PATIENCE_NS)


def test_a_round_that_is_overdue_is_none() -> None:
    assert not progresses(active(), None, ns(3) + PATIENCE_NS + 1)


def test_a_renewal_without_an_outcome_after_its_deadline_is_none() -> None:
    assert not progresses(active(round_ns=ns(100)), ns(3), ns(3) + PATIENCE_NS + 1)


@pytest.mark.parametrize("stage", ["looking", "proving"])
def test_one_that_waits_for_its_store_at_the_start_has_no_rounds(stage: str) -> None:
    assert progresses(active(stage=stage), None, ns(1000))
