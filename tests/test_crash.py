"""Why a child ended is in its shard's row from the first crash on, wherever the shard goes, until one has lived on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core import claim, crash, lease, poll, reload
from supervisor.core.model import SECOND, Apply, Exited, Reconfigured, Report, ShardRule
from supervisor.core.phases import Held, Idle, Shard, Tried, Turn, Vacant, Wanted
from supervisor.records import TROUBLE_MAX_BYTES, Lease
from supervisor.writes import Applied, Claim, Release, Renew, after_claim
from tests.core import OTHER, free, held, ns, only, own_row, report, shard, snapshot, state, turn
from tests.core import claim as claim_of
from tests.core import lease as row_of

SAID = "KeyError: 'price' at feed.py:12"
WHY = f"its child exited with 1; it said: {SAID}"


def crashed(**changes: object) -> tuple[Shard, Turn]:
    now = turn(0.1)
    died = Exited("s/0", 8, report(0.1, trouble=SAID), "exited with 1")
    return lease.exited(replace(held(), **changes), now, died), now


def written(now: Turn, kind: type[Claim] | type[Release]) -> Claim | Release:
    write = only(now.out, Apply).write
    assert isinstance(write, kind)
    return write


def won(known: Shard, seconds: float) -> Shard:
    """The claim under way is applied, and its child runs."""
    assert isinstance(known.phase, claim.Claiming)
    row = after_claim(own_row(), known.phase.claim)
    known = claim.answer_claim(known, turn(seconds), known.phase.claim, Applied(row))
    assert isinstance(known.phase, Held)
    return lease.tick_held(known, turn(seconds), Report(row.epoch, heartbeat_ns=ns(seconds), started=True))


def renewed(known: Shard, seconds: float, trouble: str = "") -> Renew | None:
    assert isinstance(known.phase, Held)
    _, write = lease.renewal(known, turn(seconds), report(seconds, epoch=known.phase.tenure.epoch, trouble=trouble))
    return write


def test_a_crash_stands_in_the_claim_after_it_and_in_each_renewal_until_a_child_has_lived_on() -> None:
    known, _ = crashed()
    again = turn(1.2)
    known = claim.tick_vacant(known, again)
    assert written(again, Claim).trouble == WHY
    known = won(known, 1.3)
    assert renewed(known, 3, trouble="sink: no answer").trouble == WHY
    over_s = 1.3 + crash.OVER_AFTER_NS / SECOND
    alive = replace(known, phase=replace(known.phase, deadline_ns=ns(over_s + 9)))
    for seconds, trouble in ((over_s - 0.1, WHY), (over_s, "")):
        found = lease.tick_held(alive, turn(seconds), report(seconds, epoch=9))
        assert renewed(found, seconds).trouble == trouble


def test_an_owner_that_gives_up_says_why_and_so_does_who_takes_the_shard_then() -> None:
    _, now = crashed(crashes=tuple(ns(-number) for number in (4, 3, 2, 1)))
    assert written(now, Release).trouble == WHY
    taking = turn(1)
    known = claim.read_wanted(
        shard(Wanted(ns(2), ns(2))),
        taking,
        free(trouble=WHY, history=("7 bbbbbbbb 1800000000 crashed",)),
        claimable=True,
    )
    assert written(taking, Claim).trouble == WHY
    assert renewed(won(known, 1.3), 3).trouble == WHY


def test_what_the_child_of_a_dead_owner_said_is_not_taken_over() -> None:
    now = turn(1)
    claim.read_wanted(shard(Wanted(ns(2), ns(2))), now, row_of(owner=OTHER, trouble="sink: no answer"), claimable=True)
    assert written(now, Claim).trouble == ""


def test_a_child_that_is_replaced_and_one_that_is_released_for_another_reason_leave_no_trouble() -> None:
    stopped = lease.stop(held(), turn(0.1), "reload", release=False)
    known = lease.exited(stopped, turn(0.2), Exited("s/0", 8, report(0.2, trouble=SAID), "exited with 0"))
    assert (isinstance(known.phase, Vacant), known.crash) == (True, "")
    now = turn(0.3)
    moving = lease.stop(replace(held(), crash=WHY), turn(0.2), "moved")
    known = lease.exited(moving, now, Exited("s/0", 8, report(0.3)))
    assert (written(now, Release).trouble, known.crash) == ("", "")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (free(), WHY),
        (own_row(), WHY),
        (row_of(), ""),
        (free(paused=True), ""),
    ],
    ids=["free", "ours", "of another", "paused"],
)
def test_a_crash_of_ours_is_told_until_somebody_else_has_the_shard_or_nobody_shall(row: Lease, told: str) -> None:
    known = state(shard(Idle(), crash=WHY))
    assert poll.snapshotted(known, turn(1), snapshot(row), ns(0.9)).shards["s/0"].crash == told


def test_a_crash_is_forgotten_when_its_shard_is_no_longer_configured_here() -> None:
    known = state(shard(Idle(), crash=WHY))
    now = turn(1)
    known = reload.reconfigure(known, now, Reconfigured(replace(known.rules, shards={"s/1": ShardRule()})))
    assert known.shards["s/0"].crash == ""


@pytest.mark.parametrize("told", ["", "its child was killed by SIGSEGV"])
def test_a_claim_that_is_found_late_tells_the_crash_that_it_was_made_for_and_no_older_one(told: str) -> None:
    late = Tried(claim_of(trouble=told), ns(0))
    known = shard(Wanted(ns(5), ns(3)), crash=WHY, unsettled=(late,))
    known = claim.read_wanted(known, turn(1), own_row(), claimable=False)
    again = turn(1.1)
    claim.tick_vacant(known, again)
    assert written(again, Claim).trouble == told


@pytest.mark.parametrize(
    ("reason", "event", "told"),
    [
        ("", Exited("s/0", 8, report(1), "was killed by SIGSEGV"), "its child was killed by SIGSEGV"),
        ("hung", Exited("s/0", 8, report(1), "was killed by SIGKILL"), "its child hung and was killed"),
        (
            "start-timeout",
            Exited("s/0", 8, report(1, trouble="connection 0: refused"), "was killed by SIGKILL"),
            "its child did not start in time and was killed; it said: connection 0: refused",
        ),
        ("", Exited("s/0", 8, None, "no slot is free"), "its child could not be started: no slot is free"),
    ],
)
def test_it_says_how_the_child_ended_and_what_it_said_last(reason: str, event: Exited, told: str) -> None:
    known = held(reason=reason).phase
    assert isinstance(known, Held)
    assert crash.sentence(known, event) == told


def test_a_long_sentence_keeps_its_beginning_and_its_end() -> None:
    known = held().phase
    assert isinstance(known, Held)
    said = f"ValueError: {'ä' * 300} at feed.py:12"
    told = crash.sentence(known, Exited("s/0", 8, report(1, trouble=said), "exited with 1"))
    assert len(told.encode()) <= TROUBLE_MAX_BYTES
    assert told.startswith("its child exited with 1; it said: ValueError: ä")
    assert told.endswith("ä at feed.py:12")
