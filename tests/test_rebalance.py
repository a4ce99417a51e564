"""Moving shards between live owners: what an owner grants, what is asked for, and where a whole fleet ends up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import rebalance
from supervisor.core.fleet import Fleet, fleet_of
from supervisor.core.model import SECOND, Apply, Effects, Log, Read, Stop
from supervisor.core.phases import Held, Idle, Releasing, Shard, Vacant, Wanted
from supervisor.core.state import State
from supervisor.core.watch import live
from supervisor.core.wishes import ANYBODY, BALANCED, MOVED, of_peer, parse
from supervisor.records import Lease, Member, Snapshot
from supervisor.writes import Release, Wish
from tests.core import ME, OTHER, lease, member, mine, ns, only, saw, shard, snapshot, state, tenure, turn
from tests.sim.parts import rules

ALL = ("s/0-9",)
TEN = rules(10)
THIRD = "else:3:cccccccc"


def row(index: int, owner: str | None = OTHER, **changes: object) -> Lease:
    return lease(**{"shard": f"s/{index}", "owner": owner, "epoch": 8, **changes})


def viewed(known: State, shown: Snapshot, seconds: float = 1) -> tuple[State, Fleet]:
    known = saw(known, seconds, shown)
    now = replace(turn(seconds), me=known.me)
    return known, fleet_of(known, now, shown, live(known.watch, shown, now.ns))


# --- the owner --------------------------------------------------------------------------------------------


def heed(known: State, *rows: Lease | Member, asked_s: float = 1) -> tuple[State, Effects]:
    shown = snapshot(*rows)
    known, fleet = viewed(known, shown)
    now = replace(turn(1), me=known.me)
    return rebalance.heed(known, now, shown, fleet, ns(asked_s)), now.out


def holding(*indices: int, **changes: object) -> State:
    return state(*(mine(f"s/{index}") for index in indices), rules=replace(TEN, **changes))


def ours(*indices: int, **changes: object) -> list[Lease]:
    return [row(index, ME, **changes) for index in indices]


def stage(known: State, index: int) -> str:
    phase = known.shards[f"s/{index}"].phase
    assert isinstance(phase, Held)
    return phase.stage


def test_a_paused_shard_is_stopped_and_released() -> None:
    known, out = heed(holding(0), row(0, ME, paused=True, move=OTHER))
    assert (only(out, Stop).shard, only(out, Stop).reason) == ("s/0", "paused")
    phase = known.shards["s/0"].phase
    assert isinstance(phase, Held)
    assert phase.release
    assert known.shards["s/0"].gave_up_ns is None, "resumed, it may run here again"


@pytest.mark.parametrize(("move", "reason"), [(OTHER, MOVED), (ANYBODY, MOVED), (of_peer(OTHER), BALANCED)])
def test_a_wish_is_granted_by_a_graceful_stop_whose_reason_says_whose_wish_it_was(move: str, reason: str) -> None:
    known, out = heed(holding(0, 1), member(shards=ALL), row(0, ME, move=move), row(1, ME))
    assert [type(effect) for effect in out] == [Stop]
    assert only(out, Stop).reason == reason
    assert known.shards["s/0"].gave_up_ns == ns(1), "somebody else may claim it first"
    assert stage(known, 1) == "running"


def test_an_operators_wish_is_granted_however_the_loads_are() -> None:
    known, _ = heed(holding(0), member(shards=ALL), row(0, ME, move=OTHER), row(1), row(2))
    assert stage(known, 0) == "stopping"


@pytest.mark.parametrize(("theirs", "granted"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_peers_wish_is_granted_only_while_the_loads_differ_by_two(theirs: int, granted: bool) -> None:
    rows = [row(0, ME, move=of_peer(OTHER)), *ours(1, 2), *(row(index) for index in range(3, 3 + theirs))]
    known, out = heed(holding(0, 1, 2), member(shards=ALL), *rows)
    assert (stage(known, 0) == "stopping") is granted
    assert any(isinstance(effect, Apply) for effect in out) is not granted


TARGETS = {
    "dead": [],
    "draining": [member(shards=ALL, state="draining")],
    "full": [member(shards=ALL, capacity=0)],
    "not configured for it": [member(shards=("s/1-9",))],
    "of another fleet": [member(shards=ALL, fleet="other")],
}


@pytest.mark.parametrize("members", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("move", [OTHER, ANYBODY, of_peer(OTHER)])
def test_a_wish_that_cannot_come_true_is_taken_back_and_told(move: str, members: list[Member]) -> None:
    known, out = heed(holding(0, 1, 2), *members, row(0, ME, move=move), *ours(1, 2))
    assert stage(known, 0) == "running"
    assert only(out, Apply).write == Wish("s/0", ME, 8, move, None)
    assert only(out, Log).event == "wish.refused"


@pytest.mark.parametrize("move", [ME, of_peer(ME)])
def test_a_wish_for_the_place_where_it_is_is_taken_back(move: str) -> None:
    _, out = heed(holding(0, 1), member(shards=ALL), row(0, ME, move=move), row(1, ME))
    assert only(out, Apply).write == Wish("s/0", ME, 8, move, None)


def test_one_peer_is_granted_one_shard_at_a_time_and_the_others_wishes_wait() -> None:
    rows = [*ours(0, 1, 2, move=of_peer(OTHER)), *ours(3, 4)]
    known, out = heed(holding(*range(5)), member(shards=ALL), *rows)
    assert [stage(known, index) for index in range(5)] == ["stopping", "running", "running", "running", "running"]
    assert only(out, Stop).shard == "s/0"
    again, out = heed(known, member(shards=ALL), *rows)
    assert out == []
    leaving = replace(shard(Releasing(tenure(), BALANCED, ns(9))), name="s/0")
    again, out = heed(again.with_shard(leaving), member(shards=ALL), *rows)
    assert out == []


def test_an_operators_wish_does_not_wait_for_a_peers_move() -> None:
    known = holding(0, 1, 2).with_shard(mine("s/0", stage="stopping", reason=BALANCED))
    known, _ = heed(known, member(shards=ALL), *ours(0, 2), row(1, ME, move=OTHER))
    assert stage(known, 1) == "stopping"


def test_an_operators_wish_in_the_place_of_a_peers_that_is_being_granted_pins_the_shard() -> None:
    members = [member(shards=ALL), member(THIRD, shards=ALL)]
    known, _ = heed(holding(0, 1, 2), *members, row(0, ME, move=of_peer(OTHER)), *ours(1, 2))
    known, out = heed(known, *members, row(0, ME, move=THIRD), *ours(1, 2))
    assert out == []
    phase = known.shards["s/0"].phase
    assert isinstance(phase, Held)
    assert (phase.stage, phase.reason) == ("stopping", MOVED)


@pytest.mark.parametrize("asked_s", [0, 0.01])
def test_a_snapshot_asked_for_before_the_claim_was_answered_moves_nothing(asked_s: float) -> None:
    rows = [row(0, ME, paused=True), row(1, ME, move=OTHER)]
    assert heed(holding(0, 1), member(shards=ALL), *rows, asked_s=asked_s)[1] == []


@pytest.mark.parametrize("change", [{"epoch": 7}, {"owner": OTHER}])
def test_a_row_that_is_not_our_lease_moves_nothing(change: dict[str, object]) -> None:
    rows = [row(0, **{"owner": ME, "move": OTHER, **change}), row(1, **{"owner": ME, "paused": True, **change})]
    assert heed(holding(0, 1), member(shards=ALL), *rows)[1] == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"paused": True}, "paused"), ({"move": OTHER}, MOVED), ({"move": of_peer(OTHER)}, BALANCED)],
)
def test_a_lease_whose_child_waits_to_start_again_is_given_up_without_a_stop(
    changes: dict[str, object], reason: str
) -> None:
    waiting = replace(shard(Vacant(tenure(), ns(99))), name="s/0")
    known = holding(1, 2).with_shard(waiting)
    known, out = heed(known, member(shards=ALL), *ours(0, **changes), *ours(1, 2))
    assert isinstance(only(out, Apply).write, Release)
    phase = known.shards["s/0"].phase
    assert isinstance(phase, Releasing)
    assert phase.reason == reason


@pytest.mark.parametrize("found", ["stopping", "killing"])
def test_a_child_that_ends_already_is_not_stopped_again(found: str) -> None:
    known = state(mine("s/0", stage=found), mine("s/1", stage=found), rules=TEN)
    assert heed(known, member(shards=ALL), row(0, ME, move=OTHER), row(1, ME, paused=True))[1] == []


WISHES = st.sampled_from(
    [None, ANYBODY, ME, OTHER, "nobody", "", of_peer(ME), of_peer(OTHER), of_peer(THIRD), of_peer(ANYBODY)]
)


@given(
    wishes=st.lists(st.tuples(WISHES, st.booleans()), min_size=1, max_size=6),
    theirs=st.integers(0, 4),
    capacities=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    under_way=st.booleans(),
)
def test_each_wish_that_is_looked_at_is_granted_or_taken_back_unless_a_peers_move_is_under_way(
    wishes: list[tuple[str | None, bool]], theirs: int, capacities: tuple[int, int], under_way: bool
) -> None:
    rows = [row(index, ME, move=move, paused=paused) for index, (move, paused) in enumerate(wishes)]
    rows += [row(index) for index in range(6, 6 + theirs)]
    known = holding(*range(len(wishes)))
    if under_way:
        known = known.with_shard(replace(mine("s/9", stage="stopping", reason=BALANCED), name="s/9"))
    members = [member(name, shards=ALL, capacity=room) for name, room in zip((OTHER, THIRD), capacities, strict=True)]
    after, out = heed(known, *members, *rows)
    stopped = {effect.shard: effect.reason for effect in out if isinstance(effect, Stop)}
    taken_back = {effect.write.shard: effect.write for effect in out if isinstance(effect, Apply)}
    balanced = sum(reason == BALANCED for reason in stopped.values()) + under_way
    assert balanced <= 1
    assert not stopped.keys() & taken_back.keys()
    for found in rows[: len(wishes)]:
        assert (found.shard in stopped) is (stage(after, int(found.shard[2:])) == "stopping")
        if found.paused:
            assert stopped[found.shard] == "paused"
        elif not found.move:
            assert found.shard not in stopped.keys() | taken_back.keys()
        elif found.shard in taken_back:
            assert taken_back[found.shard] == Wish(found.shard, ME, 8, found.move, None)
        elif found.shard not in stopped:
            assert parse(found.move).by_peer
            assert balanced == 1


# --- a capacity that was lowered --------------------------------------------------------------------------


def shed(known: State, *rows: Lease | Member) -> tuple[State, Effects]:
    shown = snapshot(*rows)
    known, fleet = viewed(known, shown)
    now = replace(turn(1), me=known.me)
    return rebalance.shed(known, now, fleet), now.out


def test_what_is_above_a_lowered_capacity_is_given_up_one_at_a_time() -> None:
    rows = [member(shards=ALL), *ours(0, 1, 2)]
    known, out = shed(holding(0, 1, 2, capacity=1), *rows)
    assert only(out, Stop).reason == "crowded"
    again, out = shed(known, *rows)
    assert (again.shards, out) == (known.shards, [])


@pytest.mark.parametrize("others", [[], [member(shards=ALL, capacity=0)], [member(shards=("t/0-9",))]])
def test_nothing_is_given_up_that_nobody_else_can_take(others: list[Member]) -> None:
    _, out = shed(holding(0, 1, 2, capacity=1), *others, *ours(0, 1, 2))
    assert out == []


def test_nothing_is_given_up_within_the_capacity() -> None:
    _, out = shed(holding(0, 1, 2, capacity=3), member(shards=ALL), *ours(0, 1, 2))
    assert out == []


def test_a_target_with_room_for_one_is_given_one() -> None:
    rows = ours(0, 1, 2, move=OTHER)
    known, out = heed(holding(0, 1, 2), member(shards=ALL, capacity=1), *rows)
    assert [stage(known, index) for index in range(3)] == ["stopping", "running", "running"]
    assert [effect.write.shard for effect in out if isinstance(effect, Apply)] == ["s/1", "s/2"]


# --- who asks ---------------------------------------------------------------------------------------------


def ask(known: State, *rows: Lease | Member, seconds: float = 1) -> tuple[State, Effects]:
    shown = snapshot(*rows)
    known, fleet = viewed(known, shown, seconds)
    now = replace(turn(seconds), me=known.me)
    return rebalance.ask(known, now, fleet), now.out


def asked(known: State) -> list[str]:
    return [each.name for each in known.shards.values() if isinstance(each.phase, Wanted) and each.phase.asking]


def test_a_member_under_its_share_asks_the_most_loaded_one_for_its_youngest_lease() -> None:
    rows = [
        *(row(index, OTHER, beat=9 - index, epoch=8 + index) for index in range(4)),
        *(row(index, THIRD, beat=0) for index in range(4, 7)),
    ]
    known, out = ask(state(rules=TEN), member(shards=ALL), member(THIRD, shards=ALL), *rows)
    assert asked(known) == ["s/3"]
    assert [type(effect) for effect in out] == [Read], "the wish is written on the row as it is by then"


def test_of_equally_young_leases_the_one_that_changed_hands_less_often_is_asked_for() -> None:
    known, _ = ask(state(rules=TEN), member(shards=ALL), row(0, epoch=9), row(1, epoch=7), row(2, epoch=8))
    assert asked(known) == ["s/1"]


@pytest.mark.parametrize(("theirs", "ours_", "asks"), [(1, 0, False), (2, 0, True), (3, 2, False), (4, 2, True)])
def test_nobody_asks_unless_the_loads_differ_by_two(theirs: int, ours_: int, asks: bool) -> None:
    rows = [row(index) for index in range(theirs)] + ours(*range(5, 5 + ours_))
    known, _ = ask(holding(*range(5, 5 + ours_)), member(shards=ALL), *rows)
    assert bool(asked(known)) is asks


def test_what_is_asked_for_by_others_counts_as_moved() -> None:
    rows = [row(0, move=of_peer(THIRD)), row(1, move=of_peer(THIRD)), row(2)]
    members = [member(shards=ALL), member(THIRD, shards=ALL)]
    assert asked(ask(state(rules=TEN), *members, *rows)[0]) == []
    assert asked(ask(state(rules=TEN), *members, *rows, row(3), row(4))[0])


def test_after_a_wish_was_taken_back_nobody_is_asked_for_a_lease_duration() -> None:
    rows = [row(index) for index in range(4)]
    known = state(rules=TEN, ask_ns=ns(11))
    assert asked(ask(known, member(shards=ALL), *rows, seconds=10.9)[0]) == []
    assert asked(ask(known, member(shards=ALL, beat=1), *rows, seconds=11)[0])


def test_what_a_poorer_peer_could_have_is_left_to_it() -> None:
    rows = [*(row(index) for index in range(5)), *ours(8, 9)]
    poorer = member(THIRD, shards=("s/0-3",))
    assert asked(ask(holding(8, 9), member(shards=ALL), poorer, *rows)[0]) == ["s/4"]
    full = member(THIRD, shards=("s/0-4",), capacity=0)
    assert asked(ask(holding(8, 9), member(shards=ALL), full, *rows)[0])


def test_nobody_asks_for_more_than_it_can_hold_or_its_share() -> None:
    rows = [row(index) for index in range(8)]
    assert asked(ask(holding(8, capacity=1), member(shards=ALL), *rows, *ours(8))[0]) == []
    small = member(shards=ALL, capacity=8)
    assert asked(ask(holding(8, capacity=2), small, *rows, *ours(8))[0]) != []


@pytest.mark.parametrize(
    "changes",
    [{"kept": 8}, {"start_ns": ns(99)}, {"phase": Wanted(ns(5), ns(3))}, {"phase": Releasing(tenure(), "x", ns(9))}],
)
def test_nobody_asks_for_what_was_refused_or_crashed_here_or_is_in_hand(changes: dict[str, object]) -> None:
    known = state(replace(Shard("s/0", TEN.shards["s/0"]), **changes), rules=TEN)
    rows = [row(index, beat=index) for index in range(4)]
    assert asked(ask(known, member(shards=ALL), *rows)[0]) == ["s/1"]


def test_what_was_refused_in_an_earlier_epoch_may_be_asked_for_again() -> None:
    known = state(Shard("s/0", TEN.shards["s/0"], kept=7), rules=TEN)
    assert asked(ask(known, member(shards=ALL), *(row(index, beat=index) for index in range(4)))[0]) == ["s/0"]


def test_the_wait_for_an_owner_covers_its_graceful_stop() -> None:
    known, _ = ask(state(rules=TEN), member(shards=ALL), row(0), row(1))
    (name,) = asked(known)
    phase = known.shards[name].phase
    assert isinstance(phase, Wanted)
    assert phase.until_ns == ns(1) + TEN.stop_ns + 4 * SECOND


@given(
    owners=st.lists(st.sampled_from([None, ME, OTHER, OTHER, OTHER, THIRD]), min_size=1, max_size=10),
    odd=st.lists(st.sampled_from(["", "", "", "moving", "paused", "kept", "crashed"]), min_size=10, max_size=10),
    capacity=st.integers(0, 10),
)
def test_whatever_the_fleet_looks_like_an_ask_is_for_one_shard_that_may_be_asked_for(
    owners: list[str | None], odd: list[str], capacity: int
) -> None:
    rows = [
        row(index, owner, move=ANYBODY if what == "moving" else None, paused=what == "paused")
        for index, (owner, what) in enumerate(zip(owners, odd, strict=False))
    ]
    held = [mine(each.shard) for each in rows if each.owner == ME]
    idle = [
        replace(shard(Idle()), name=each.shard, kept=8 * (what == "kept"), start_ns=ns(99) * (what == "crashed"))
        for each, what in zip(rows, odd, strict=False)
        if each.owner != ME
    ]
    known = state(*held, *idle, rules=replace(TEN, capacity=capacity))
    members = [member(shards=ALL), member(THIRD, shards=ALL)]
    after, out = ask(known, *members, *rows)
    names = asked(after)
    assert len(names) == len(out) <= 1
    if names:
        (found,) = (each for each in rows if each.shard == names[0])
        loads = Counter(each.owner for each in rows if not each.paused)
        assert odd[int(found.shard[2:])] == ""
        assert loads[found.owner] - len(held) >= rebalance.WORTH_MIN
        assert len(held) < capacity
        again, out = ask(after, *members, *rows)
        assert (asked(again), out) == (names, []), "never a second one"


# --- a whole fleet ----------------------------------------------------------------------------------------


class Equals:
    """Members that are configured for the same shards and have room for all; rows change only by moves."""

    def __init__(self, loads: Sequence[int]) -> None:
        self.names = [f"h{number}:1:{number}" for number in range(len(loads))]
        owners = [name for name, load in zip(self.names, loads, strict=True) for _ in range(load)]
        self.rules = rules(len(owners))
        self.rows = {f"s/{index}": row(index, owner, beat=100) for index, owner in enumerate(owners)}
        self.moves: Counter[str] = Counter()

    @property
    def loads(self) -> list[int]:
        owners = Counter(each.owner for each in self.rows.values())
        return [owners[name] for name in self.names]

    def _look(self, me: str) -> tuple[State, Snapshot, Fleet]:
        own = [mine(name, each.epoch, owner=me) for name, each in self.rows.items() if each.owner == me]
        shown = snapshot(*self.rows.values(), *(member(name, shards=tuple(self.rows)) for name in self.names))
        known, fleet = viewed(state(*own, me=me, rules=self.rules), shown)
        return known, shown, fleet

    def ask(self, me: str) -> bool:
        """Whether it asks, or has asked and waits: the wish stands in the row."""
        if any(each.move == of_peer(me) for each in self.rows.values()):
            return True
        known, _, fleet = self._look(me)
        for name in asked(rebalance.ask(known, replace(turn(1), me=me), fleet)):
            self.rows[name] = replace(self.rows[name], move=of_peer(me))
            return True
        return False

    def heed(self, me: str) -> None:
        """It grants and takes back; what it grants is at once the target's."""
        known, shown, fleet = self._look(me)
        now = replace(turn(1), me=me)
        rebalance.heed(known, now, shown, fleet, ns(1))
        for effect in now.out:
            if isinstance(effect, Apply) and isinstance(effect.write, Wish):
                self.rows[effect.write.shard] = replace(self.rows[effect.write.shard], move=None)
            elif isinstance(effect, Stop):
                found = self.rows[effect.shard]
                target = parse(found.move or "").target
                loads = dict(zip(self.names, self.loads, strict=True))
                assert target is not None
                assert loads[me] - loads[target] >= rebalance.WORTH_MIN, "a move that only changes sides"
                self.rows[found.shard] = replace(found, owner=target, epoch=found.epoch + 1, beat=0, move=None)
                self.moves[found.shard] += 1


LOADS = st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any)


def fewest_moves(loads: list[int]) -> int:
    """What it takes at least to bring the loads within one of each other: the most loaded keep one more."""
    share, more = divmod(sum(loads), len(loads))
    return sum(max(0, load - share - (place < more)) for place, load in enumerate(sorted(loads, reverse=True)))


@given(LOADS)
def test_when_the_poorest_asks_first_equals_end_within_one_of_each_other_by_the_fewest_moves(loads: list[int]) -> None:
    fleet = Equals(loads)
    for _ in range(sum(loads)):
        if not any(fleet.ask(name) for _, name in sorted(zip(fleet.loads, fleet.names, strict=True))):
            break
        for name in fleet.names:
            fleet.heed(name)
    assert max(fleet.loads) - min(fleet.loads) < rebalance.WORTH_MIN
    assert sum(fleet.moves.values()) == fewest_moves(loads)
    assert all(count == 1 for count in fleet.moves.values()), f"moved twice: {fleet.moves}"


@given(LOADS)
def test_when_all_ask_at_once_equals_end_within_one_of_each_other_and_no_shard_moves_twice(loads: list[int]) -> None:
    fleet = Equals(loads)
    for _ in range(4 * sum(loads)):
        if not [name for name in fleet.names if fleet.ask(name)]:
            break
        for name in fleet.names:
            fleet.heed(name)
    assert max(fleet.loads) - min(fleet.loads) < rebalance.WORTH_MIN
    assert not any(each.move for each in fleet.rows.values())
    assert all(count == 1 for count in fleet.moves.values()), f"moved twice: {fleet.moves}"
