"""Why a child ended is in its shard's row from the first crash on, wherever the shard goes, until one has lived on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core import claim, crash, lease
from supervisor.core.model import SECOND, Apply, Exited, Report
from supervisor.core.phases import Held, Shard, Turn, Vacant, Wanted
from supervisor.records import TROUBLE_MAX_BYTES
from supervisor.writes import Applied, Claim, Release, Renew, after_claim
from tests.core import OTHER, free, held, ns, only, own_row, report, shard, turn
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
    lease.exited(lease.stop(replace(held(), crash=WHY), turn(0.2), "moved"), now, Exited("s/0", 8, report(0.3)))
    assert written(now, Release).trouble == ""


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
