"""What follows from a snapshot for the supervisor that took it: whom it leaves shards, what it takes, what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core import balance, poll
from supervisor.core.model import Apply, Effects, Log, Read
from supervisor.core.phases import Idle, Shard, Wanted
from supervisor.core.poll import OVERDUE_MIN, OWN_SEEN_MIN, START_CLAIMS_MIN, START_POLLS
from supervisor.core.state import State
from supervisor.core.wishes import of_peer
from supervisor.records import Lease, Member
from supervisor.writes import DeleteMember
from tests.core import ME, OTHER, lease, member, mine, ns, only, snapshot, state, turn
from tests.sim.parts import rules

ALL = ("s/0-99",)
SETTLED = {"polls": START_POLLS, "own_seen": OWN_SEEN_MIN}


def row(index: int, owner: str | None = OTHER, **changes: object) -> Lease:
    """A lease; one of ours is as our claim left it."""
    as_claimed = {"beat": 0, "nonce": "claim nonce"} if owner == ME else {}
    return lease(**{"shard": f"s/{index}", "owner": owner, "epoch": 8, **as_claimed, **changes})


def free(*indices: int, **changes: object) -> list[Lease]:
    return [row(index, None, **changes) for index in indices]


def look(known: State, seconds: float, *rows: Lease | Member) -> tuple[State, Effects]:
    now = replace(turn(seconds), me=known.me, dead=known.watch.dead)
    after = poll.snapshotted(known, now, snapshot(*rows, member(ME, shards=ALL, beat=round(seconds))), ns(seconds))
    return after, now.out


def read(out: Effects) -> set[str]:
    return {effect.shard for effect in out if isinstance(effect, Read)}


# --- what is homeless -------------------------------------------------------------------------------------


def test_homeless_shards_are_told_once_again_when_they_grow_and_when_there_is_room() -> None:
    small = replace(rules(4), capacity=1)
    known = state(mine("s/0"), rules=small, **SETTLED)
    said: list[str] = []
    for second, indices in enumerate([(), (1, 2), (1, 2), (1, 2, 3), (1,), ()]):
        known, out = look(known, second, row(0, ME), *free(*indices))
        logs = [effect for effect in out if isinstance(effect, Log)]
        assert all(each.event == "shard.homeless" for each in logs)
        said += [f"{second} {each.level} {each.reason.partition(' have')[0]}" for each in logs]
    assert said == [
        "1 warning 2 shards",
        "3 warning 3 shards",
        "5 info there is room for every shard again",
    ]


def test_what_a_peer_has_room_for_is_not_homeless() -> None:
    known = state(mine("s/0"), rules=replace(rules(2), capacity=1), **SETTLED)
    known, out = look(known, 0, member(shards=ALL), row(0, ME), *free(1))
    assert known.homeless == 0
    assert not [effect for effect in out if isinstance(effect, Log)]


# --- overdue rows -----------------------------------------------------------------------------------------


def test_of_many_overdue_rows_each_takes_a_part_and_two_do_not_begin_with_the_same() -> None:
    """Rows that many members with room leave alone; the poll interval of so many is 5 s."""
    parts = []
    for me in (ME, "third:3:3"):
        known = replace(state(rules=rules(100), **SETTLED), me=me)
        members = [member(OTHER, shards=ALL, capacity=100), *(member(f"idle:{n}:{n}", shards=ALL) for n in range(30))]
        known, out = look(known, 0, *members, *free(*range(100)))
        given = read(out)
        known = replace(known, shards=state(rules=rules(100)).shards)
        again = [replace(each, beat=1) for each in members]
        _, out = look(known, 5.5, *again, *free(*range(100)))
        parts.append(read(out) - given)
    assert all(len(part) <= OVERDUE_MIN for part in parts)
    assert len(parts[0] | parts[1]) > OVERDUE_MIN


def test_rows_that_we_must_leave_alone_take_the_place_of_no_overdue_row() -> None:
    """They are not configured here, or wait for their backoff. The one that we may take is the lowest in our order,
    and first meant for somebody else."""
    names = [f"s/{index}" for index in range(200)]
    lowest = min(names, key=lambda name: balance.rank(name, ME))
    known = state(rules=rules(200), **SETTLED)
    waiting = [replace(known.shards[name], start_ns=ns(1000), had_owner=True) for name in names]
    known = known.with_shards(waiting).with_shard(replace(known.shards[lowest], had_owner=True))
    everywhere = ("s/0-199", "x/0-199")
    taker = next(
        name
        for number in range(1000)
        if balance.rank(lowest, name := f"there:{number}:{number}") > balance.rank(lowest, ME)
    )
    elsewhere = [row(index, None, shard=f"x/{index}") for index in range(200)]
    reads = []
    for seconds in (0, 1.1):
        members = [member(taker, shards=everywhere, capacity=1000)]
        members += [member(f"full:{n}:{n}", shards=everywhere, capacity=0) for n in range(20)]
        known, out = look(known, seconds, *members, *free(*range(200)), *elsewhere)
        reads.append(read(out))
    assert reads == [set(), {lowest}]


# --- fresh rows -------------------------------------------------------------------------------------------


def test_who_has_just_started_claims_no_fresh_row_before_its_own_row_was_seen_twice() -> None:
    known = state(rules=rules(4))
    for second in range(OWN_SEEN_MIN - 1):
        known, out = look(known, second, *free(0, 1))
        assert read(out) == set()
    assert read(look(known, OWN_SEEN_MIN, *free(0, 1))[1]) == {"s/0", "s/1"}


def test_who_has_just_started_claims_a_bounded_number_of_fresh_rows_a_poll_and_later_all() -> None:
    for polls, most in ((0, START_CLAIMS_MIN), (START_POLLS, 100)):
        known = state(rules=rules(100), polls=polls, own_seen=OWN_SEEN_MIN)
        assert len(read(look(known, 1, *free(*range(100)))[1])) == most


def test_a_row_that_somebody_had_or_moves_to_us_is_not_paced() -> None:
    known = state(rules=rules(4))
    known, _ = look(known, 0, row(0), row(1))
    known, out = look(known, 0.5, *free(0, 1), *free(2, move=ME))
    assert read(out) == {"s/0", "s/1", "s/2"}


def given_to_a_peer(known: State, seconds: float, fresh: bool) -> tuple[State, Effects]:
    """One free row, which the common assignment gives to a peer that has its share before we have ours."""
    known = known.with_shard(replace(known.shards["s/0"], had_owner=not fresh))
    return look(known, seconds, member(shards=ALL), row(0, None), row(1, ME), row(2, ME))


@pytest.mark.parametrize("fresh", [True, False])
def test_a_shard_that_nobody_took_for_a_poll_is_taken_by_whoever_has_room(fresh: bool) -> None:
    known = state(mine("s/1"), mine("s/2"), rules=rules(3), **SETTLED)
    for second in (0, 1):
        known, out = given_to_a_peer(known, second, fresh)
        assert read(out) == set()
    assert read(given_to_a_peer(known, 1.1, fresh)[1]) == {"s/0"}


def test_a_fresh_row_is_not_overdue_while_its_taker_may_pace_itself() -> None:
    known = state(mine("s/1"), mine("s/2"), rules=rules(3), own_seen=OWN_SEEN_MIN)
    for second in range(START_POLLS):
        known, out = given_to_a_peer(known, second, fresh=True)
        assert read(out) == set()
    assert read(given_to_a_peer(known, START_POLLS, fresh=True)[1]) == {"s/0"}


# --- rows that are meant for somebody ---------------------------------------------------------------------


def test_a_row_that_moves_to_a_peer_is_left_to_it_for_two_polls_and_not_longer() -> None:
    known = state(rules=rules(1), **SETTLED)
    for seconds in (0, 1.0, 1.9):
        known, out = look(known, seconds, member(shards=ALL, beat=1), *free(0, move=of_peer(OTHER)))
        assert read(out) == set()
    assert read(look(known, 2, member(shards=ALL, beat=1), *free(0, move=of_peer(OTHER)))[1]) == {"s/0"}


@pytest.mark.parametrize("gone", [{"state": "draining"}, {"fleet": "other"}])
def test_a_row_that_moves_to_somebody_who_cannot_come_for_it_is_left_to_nobody(gone: dict[str, object]) -> None:
    _, out = look(state(rules=rules(1), **SETTLED), 0, member(shards=ALL, **gone), *free(0, move=OTHER))
    assert read(out) == {"s/0"}
    assert read(look(state(rules=rules(1), **SETTLED), 0, *free(0, move=OTHER))[1]) == {"s/0"}


def test_the_target_of_a_wish_reads_the_row_while_its_live_owner_is_still_to_give_it_up() -> None:
    known, out = look(state(rules=rules(1), **SETTLED), 0, member(shards=ALL), row(0, move=ME))
    assert read(out) == {"s/0"}
    phase = known.shards["s/0"].phase
    assert isinstance(phase, Wanted)
    assert not phase.asking
    assert phase.until_ns == ns(2)


def test_who_gave_a_shard_up_by_a_move_leaves_it_to_others_while_one_of_them_can_take_it() -> None:
    gave = Shard("s/0", rules(1).shards["s/0"], gave_up_ns=ns(0))
    known = state(gave, rules=rules(1), **SETTLED)
    for seconds in (0, 5, 9):
        known, out = look(known, seconds, member(shards=ALL), *free(0))
        assert read(out) == set()
    assert read(look(known, 9.5, *free(0))[1]) == {"s/0"}, "nobody else is there"
    assert read(look(known, 9.5, member(shards=ALL, capacity=0), *free(0))[1]) == {"s/0"}, "nobody else has room"
    window_s = known.rules.crash_window_ns / 1e9
    assert read(look(known, window_s, member(shards=ALL, beat=9), *free(0))[1]) == {"s/0"}, "nobody took it for long"


def test_once_somebody_else_had_what_we_gave_up_we_may_take_it_again() -> None:
    gave = Shard("s/0", rules(1).shards["s/0"], gave_up_ns=ns(0), seen=8)
    known, _ = look(state(gave, rules=rules(1), **SETTLED), 1, member(shards=ALL), row(0, epoch=9))
    assert known.shards["s/0"].gave_up_ns is None


# --- the dead of our own house ----------------------------------------------------------------------------


def test_what_a_dead_incarnation_of_ours_owned_is_claimed_at_the_first_look_and_its_member_row_deleted() -> None:
    known = state(rules=rules(20))
    known = replace(known, watch=replace(known.watch, dead=frozenset({OTHER})))
    rows = [row(index) for index in range(20)]
    known, out = look(known, 0, member(shards=ALL), *rows)
    assert read(out) == {each.shard for each in rows}, "all at once, also by one that has just started"
    assert only(out, Apply).write == DeleteMember(OTHER, 0, "n0")


# --- asking -----------------------------------------------------------------------------------------------


def test_who_has_just_started_asks_for_nothing_before_its_own_row_was_seen_twice() -> None:
    known, rows = state(rules=rules(4)), [row(index) for index in range(4)]
    known, out = look(known, 0, member(shards=ALL), *rows)
    assert read(out) == set()
    known, out = look(known, 1, member(shards=ALL), *rows)
    assert len(read(out)) == 1


def test_a_supervisor_that_drains_neither_heeds_wishes_nor_asks_nor_claims() -> None:
    known = state(mine("s/0"), rules=rules(4), **SETTLED)
    now = turn(1, draining=True)
    rows = snapshot(member(shards=ALL), row(0, ME, move=OTHER), row(1), row(2), *free(3))
    known = poll.snapshotted(known, now, rows, ns(1))
    assert now.out == []
    assert isinstance(known.shards["s/3"].phase, Idle)
