"""What a supervisor says of itself, and when its watchdog should go unanswered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.model import SECOND
from supervisor.core.phases import Idle, Vacant
from supervisor.core.state import State
from supervisor.health import TROUBLES_MAX, health, line, progresses
from tests.core import RULES, held, ns, report, saw, shard, snapshot, state, tenure

PATIENCE_NS = RULES.attempt_ns + SECOND


def active(*shards: object, **changes: object) -> State:
    return replace(state(*shards), **{"stage": "active", "round_ns": ns(3), **changes})


def reasons(known: State, seconds: float = 1) -> str:
    return str(health(known, ns(seconds), 0, {})["reason"])


def test_one_whose_children_run_is_ready() -> None:
    answer = health(active(held()), ns(1), 3, {})
    assert (answer["ready"], answer["reason"], answer["shards"], answer["stuck_calls"]) == (True, "", 1, 3)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (active(held(), stage="draining"), "it is draining"),
        (active(held(), reachable=False), "the store cannot be reached"),
        (active(held("starting")), "1 of 1 children do not run"),
        (active(shard(Idle(), start_ns=ns(5))), "1 shards wait to start again after a crash, s/0 among them"),
        (active(shard(Vacant(tenure(), ns(5)), start_ns=ns(5))), "1 shards wait to start again after a crash"),
    ],
)
def test_whatever_keeps_it_from_its_work_is_named(known: State, reason: str) -> None:
    assert reason in reasons(known)
    assert not health(known, ns(1), 0, {})["ready"]


def test_rows_of_ours_that_do_not_parse_are_named_and_those_of_others_are_not() -> None:
    found = saw(active(held()), 1, snapshot(bad={"s/1": "no epoch", "else/0": "no epoch", "@x:1:y": "no fleet"}))
    assert reasons(found) == "the rows of 1 shards do not parse, that of s/1 among them"
    assert not health(found, ns(1), 0, {})["ready"]
    assert reasons(saw(found, 2, snapshot())) == ""


def test_a_crash_is_forgotten_when_its_wait_is_over() -> None:
    assert reasons(active(shard(Idle(), start_ns=ns(5))), 5) == ""


def test_what_is_wrong_with_its_shards_is_named_and_leaves_it_ready() -> None:
    def troubles(known: State, trouble: str = "") -> object:
        answer = health(known, ns(1), 0, {"s/0": report(1, trouble=trouble)})
        assert answer["ready"]
        return answer["troubles"]

    assert troubles(active(held())) == {}
    assert troubles(active(held()), "sink: no answer") == {"s/0": "sink: no answer"}
    assert troubles(active(replace(held(), crash="its child exited with 1")), "x") == {"s/0": "its child exited with 1"}
    assert troubles(active(shard(Idle(), crash="its child exited with 1"))) == {}
    many = [replace(held(), name=f"t/{number}", crash="its child exited with 1") for number in range(100)]
    assert len(health(active(*many), ns(1), 0, {})["troubles"]) == TROUBLES_MAX


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
