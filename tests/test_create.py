"""Which missing rows a snapshot makes us create, and which we leave to others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core import poll, reload
from supervisor.core.create import CREATIONS_MAX, LEFT_POLLS
from supervisor.core.model import SECOND, Apply, Effects, Reconfigured
from supervisor.core.state import State
from supervisor.records import Lease, Member
from supervisor.writes import Create
from tests.core import ME, OTHER, lease, member, ns, saw, snapshot, state, turn
from tests.sim.parts import rules

ALL = ("s/0-9999",)
COUNT = 40


def joined(empty: bool, shards: int = COUNT) -> State:
    """A supervisor whose last look before its first write showed nothing, or one row of a member that is gone."""
    known = state(rules=rules(shards))
    known = saw(known, 0, snapshot() if empty else snapshot(member("gone:1:1", shards=ALL)))
    return replace(known, empty_ns=ns(0) if empty else None)


def look(known: State, seconds: float, *rows: Lease | Member, me: str = ME) -> tuple[State, Effects]:
    now = replace(turn(seconds), me=me)
    beat = round(seconds * 10)
    both = [member(name, shards=ALL, beat=beat) for name in (ME, OTHER)]
    after = poll.snapshotted(replace(known, me=me), now, snapshot(*both, *rows), ns(seconds))
    return after, now.out


def created(out: Effects) -> list[str]:
    return [each.write.shard for each in out if isinstance(each, Apply) and isinstance(each.write, Create)]


def test_of_two_that_start_together_each_creates_its_part_and_nobody_anothers() -> None:
    ours, theirs = (created(look(joined(True), 0.1, me=me)[1]) for me in (ME, OTHER))
    assert ours
    assert theirs
    assert sorted([*ours, *theirs]) == sorted(f"s/{index}" for index in range(COUNT))


def test_what_was_missing_all_the_time_since_the_store_was_empty_is_created_at_a_later_look_too() -> None:
    known, out = look(joined(True, 3 * CREATIONS_MAX), 0.1)
    first = created(out)
    assert len(first) == CREATIONS_MAX
    _, out = look(known, 1.1, *(lease(shard=name, owner=None) for name in first))
    assert created(out)
    assert not set(first) & set(created(out))


@pytest.mark.parametrize("cause", ["the row was there", "nobody looked for long", "the store was not empty"])
def test_what_may_have_been_owned_waits_for_a_lease_duration(cause: str) -> None:
    known = joined(empty=cause != "the store was not empty")
    later_s = 9.0 if cause == "nobody looked for long" else 1.0
    if cause == "the row was there":
        known, _ = look(known, 0.1, *(lease(shard=f"s/{index}", owner=None) for index in range(COUNT)))
    known, out = look(known, later_s)
    assert created(out) == []
    for seconds in (later_s + 4, later_s + 8):
        known, out = look(known, seconds)
        assert created(out) == []
    assert created(look(known, later_s + 11)[1])


def test_of_a_fleet_that_a_reload_gives_more_shards_each_creates_its_part_and_nobody_anothers() -> None:
    members = [ME, OTHER, *(f"h{number}:{number}:{number}" for number in range(8))]
    found = []
    for me in members:
        known = replace(state(rules=rules(1), polls=100, own_seen=100), me=me)
        for second in range(60):
            known, out = look_among(known, second, me, members)
            assert created(out) == []
        known = replace(reload.reconfigure(known, turn(59.5), Reconfigured(rules(COUNT))), me=me)
        known, out = look_among(known, 60, me, members)
        ours = created(out)
        found += ours
        assert created(look_among(known, 61, me, members)[1]) == ours
        left_s = 59.5 + LEFT_POLLS * known.poll_ns / SECOND
        assert len(created(look_among(known, left_s, me, members)[1])) == COUNT - 1
    assert sorted(found) == sorted(f"s/{index}" for index in range(1, COUNT))


def look_among(known: State, seconds: float, me: str, members: list[str]) -> tuple[State, Effects]:
    now = replace(turn(seconds), me=me)
    seen = [member(name, shards=ALL, beat=round(seconds * 10)) for name in members]
    row = lease(shard="s/0", owner=members[-1], beat=round(seconds * 10))
    after = poll.snapshotted(known, now, snapshot(*seen, row), ns(seconds))
    return after, now.out


def test_what_its_creator_leaves_missing_is_created_by_anybody_two_polls_later() -> None:
    known = joined(empty=False)
    known, _ = look(known, 1)
    waited_s = [float(second) for second in range(2, 20)]
    missing: dict[float, int] = {}
    for seconds in waited_s:
        known, out = look(known, seconds)
        missing[seconds] = len(created(out))
    first = min(seconds for seconds, count in missing.items() if count)
    whole = min(seconds for seconds, count in missing.items() if count == COUNT)
    assert 0 < missing[first] < COUNT
    assert whole == first + LEFT_POLLS
