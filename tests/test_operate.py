"""What a command of an operator decides about one shard, from rows alone."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.operating.candidates import LISTED_MAX, NAME_MAX, named
from supervisor.operating.operate import WRITES_MAX, decide, known_shards, meant_by
from supervisor.operating.orders import Look, Order, Send, Step, Task, Told, Verb, Wait
from supervisor.operating.sight import Sight, seen_all
from supervisor.operating.words import asked, late
from supervisor.records import Lease, Member, Snapshot
from supervisor.showing.status import view
from supervisor.showing.telling import labels
from supervisor.writes import Depose, Forget, Pause, Wish

NOW = 1_800_000_000_000
A, B, C = "host-a:1:aa", "host-b:2:bb", "host-c:3:cc"
SHARD = "trades/7"
VERBS: tuple[Verb, ...] = ("move", "pause", "resume", "forget")


def row(owner: str | None = A, **changes: object) -> Lease:
    made = Lease(SHARD, owner, 12, 3, "n", 10_000, renewed_at=NOW - 400, history=("12 aa 1800000000 claimed",))
    return replace(made, **changes)


def member(supervisor: str, **changes: object) -> Member:
    host = supervisor.partition(":")[0]
    made = Member(supervisor, "f", "active", 1, "n", 10_000, 4, ("trades/0-15",), host=host, renewed_at=NOW - 500)
    return replace(made, **changes)


def sight(lease: Lease | None, *members: Member, others: int = 0, **bad: str) -> Sight:
    """The row, and so many other shards that A and B have each, at a first look."""
    rows = {lease.shard: lease} if lease else {}
    for owner in (A, B):
        for index in range(others):
            rows[f"x/{owner}/{index}"] = row(owner, shard=f"x/{owner}/{index}")
    return seen_all(Snapshot(rows, {each.id: each for each in members}, bad), NOW, 0)


def later(before: Sight, at_s: float, lease: Lease | None, *members: Member) -> Sight:
    """A look so long after the first one."""
    rows = {lease.shard: lease} if lease else {}
    return seen_all(Snapshot(rows, {each.id: each for each in members}, {}), NOW + int(at_s * 1000), at_s, before)


def watched(lease: Lease | None, *members: Member, for_s: float = 6) -> Sight:
    """None of it moved for so long; by default for longer than half a lease."""
    return later(sight(lease, *members), for_s, lease, *members)


def both(lease: Lease | None, **options: int) -> Sight:
    return sight(lease, member(A), member(B), **options)


def task(first: Lease | None, seen: Lease | None = None, writes: int | None = None) -> Task:
    """`seen`: the row under a write that was applied."""
    return Task(SHARD, "nonce", first, seen, seen is not None, int(seen is not None) if writes is None else writes)


def lost(first: Lease) -> Task:
    """A write on the row was sent, and nobody knows whether it was applied."""
    return Task(SHARD, "nonce", first, first, cause="timeout")


def why_not(step: Step) -> str:
    assert isinstance(step, Told), step
    assert not step.done, step
    return step.text


def done(step: Step) -> str:
    assert isinstance(step, Told), step
    assert step.done, step
    return step.text


MOVE, MOVE_TO_B = Order("move"), Order("move", to="host-b")

# --- moving -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "move"), [(MOVE, "any"), (MOVE_TO_B, B)])
@pytest.mark.parametrize("before", [None, f"{B} balance", f"{C} balance", C])
def test_a_wish_to_move_is_conditional_on_the_row_as_seen_and_replaces_any_other(
    order: Order, move: str, before: str | None
) -> None:
    seen = row(move=before)
    assert decide(order, task(seen), both(seen)) == Send(Wish(SHARD, A, 12, before, move))


def test_a_wish_that_stands_there_already_is_waited_for_and_not_written_again() -> None:
    for order, move in ((MOVE, "any"), (MOVE_TO_B, B)):
        wished = row(move=move)
        assert decide(order, task(wished), both(wished)) == Wait()
        moved = row(B, epoch=13, history=("12 aa 1 moved", "13 bb 2 claimed"))
        assert "moved from host-a:1:aa to host-b:2:bb" in done(decide(order, task(wished), both(moved)))


@pytest.mark.parametrize("order", [MOVE, MOVE_TO_B])
def test_a_move_is_over_when_another_owns_the_shard(order: Order) -> None:
    first = row()
    wished = row(move=B if order.to else "any")
    for waiting in (wished, replace(wished, owner=None), replace(wished, epoch=13)):
        assert decide(order, task(first, first), both(waiting)) == Wait()
    moved = row(B, epoch=13, history=("12 aa 1 moved", "13 bb 2 claimed"))
    text = "moved from host-a:1:aa to host-b:2:bb, epoch 12 -> 13"
    assert done(decide(order, task(first, first), both(moved))) == text


def test_a_shard_that_is_there_already_is_as_good_as_moved() -> None:
    there = row(B)
    assert done(decide(MOVE_TO_B, task(there), both(there))) == f"is at {B} already, epoch 12"


def test_the_next_incarnation_on_the_same_host_is_no_other_place() -> None:
    first = row()
    again = row("host-a:9:a9", epoch=13, history=("13 a9 1800000000 reclaimed",))
    seen = sight(again, member("host-a:9:a9"), member(B))
    assert decide(MOVE, task(first, first), seen) == Send(Wish(SHARD, "host-a:9:a9", 13, None, "any"))


def test_a_shard_that_went_to_a_third_one_is_asked_of_that() -> None:
    first = row()
    third = row(C, epoch=13)
    step = decide(MOVE_TO_B, task(first, first), sight(third, member(A), member(B), member(C)))
    assert step == Send(Wish(SHARD, C, 13, None, B))
    assert "changed 5 times under our hands" in why_not(
        decide(MOVE_TO_B, task(first, first, WRITES_MAX), sight(third, member(A), member(B), member(C)))
    )


def test_a_wish_that_its_owner_took_back_is_told_with_the_reason_and_not_repeated() -> None:
    first = row()
    full = sight(first, member(A), member(B, capacity=2), others=2)
    assert why_not(decide(MOVE_TO_B, task(first, first), full)) == f"{B} has no room: it has 2 shards of at most 2"
    assert "took the wish back; the log of the owner says why" in why_not(
        decide(MOVE_TO_B, task(first, first), both(first))
    )
    other = row(move=C)
    assert f"another wish took the place of ours: to move to {C}" in why_not(
        decide(MOVE_TO_B, task(first, first), both(other))
    )


def test_a_free_row_goes_to_the_target_of_a_wish_and_to_anybody_without_one() -> None:
    free = row(None)
    assert decide(MOVE_TO_B, task(free), both(free)) == Send(Wish(SHARD, None, 12, None, B))
    told = why_not(decide(MOVE, task(free), both(free)))
    assert told == "nobody owns it, epoch 12; whoever has room takes it without being asked"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([], "no live supervisor is configured for it"),
        ([member(A, renewed_at=NOW - 5_000)], "no live supervisor is configured for it"),
        ([member(A, shards=("chat",))], "no live supervisor is configured for it"),
        ([member(A, capacity=0)], f"{A} is full or draining"),
    ],
)
def test_a_free_row_that_nobody_can_take_is_said_to_be_so(members: list[Member], why: str) -> None:
    told = why_not(decide(MOVE, task(row(None)), watched(row(None), *members)))
    assert told == f"nobody owns it, epoch 12; nobody can take it: {why}"


@pytest.mark.parametrize(
    ("members", "order", "sentence"),
    [
        ([member(A)], MOVE, "nobody else can take it: no other live supervisor is configured for it"),
        ([member(A), member(B, capacity=0)], MOVE, f"nobody else can take it: {B} is full or draining"),
        ([member(A), member(B, state="draining")], MOVE, f"nobody else can take it: {B} is full or draining"),
        ([member(A), member(B, shards=("chat",))], MOVE, "nobody else can take it: no other live supervisor"),
        ([member(A), member(B, renewed_at=NOW - 5_000)], MOVE, "nobody else can take it: no other live supervisor"),
        ([member(A), member(B, state="draining")], MOVE_TO_B, f"{B} drains"),
        ([member(A), member(B, shards=("chat",))], MOVE_TO_B, f"it is not configured at {B}"),
        ([member(A), member(B, capacity=0)], MOVE_TO_B, f"{B} has no room: it has 0 shards of at most 0"),
    ],
)
def test_what_is_in_vain_is_told_before_anything_is_written(members: list[Member], order: Order, sentence: str) -> None:
    assert why_not(decide(order, task(row()), watched(row(), *members))).startswith(sentence)


def test_a_paused_shard_does_not_move() -> None:
    assert "`tenured resume trades/7` lets it run" in why_not(decide(MOVE, task(row()), both(row(paused=True))))


# --- a lost answer ----------------------------------------------------------------------------------------

MOVED = ("12 aa 1 moved", "13 bb 2 claimed")


@pytest.mark.parametrize("order", [MOVE, MOVE_TO_B])
@pytest.mark.parametrize(
    ("now", "then"),
    [
        (row(B, epoch=13, history=MOVED), ""),
        (row(B, epoch=14, history=(*MOVED, "14 bb 3 restart")), ""),
        (row(C, epoch=14, history=(*MOVED, "13 bb 3 crashed", "14 cc 4 claimed")), f"by now {C} owns it, epoch 14"),
        (row(A, epoch=14, history=(*MOVED, "13 bb 3 moved", "14 aa 4 claimed")), f"by now {A} owns it, epoch 14"),
        (row(None, epoch=13, history=(*MOVED, "13 bb 3 stopped")), "by now nobody owns it, epoch 13"),
    ],
)
def test_a_move_whose_answer_was_lost_is_told_by_the_row_and_never_wished_again(
    order: Order, now: Lease, then: str
) -> None:
    """Also where it came and went between two looks."""
    told = decide(order, lost(row()), sight(now, member(A), member(B), member(C)))
    assert done(told).startswith("moved from host-a:1:aa to ")
    assert isinstance(told, Told)
    assert told.then == ("" if order is MOVE and now.owner == C else then)


def test_a_lost_wish_is_sent_again_only_where_it_had_no_effect_yet() -> None:
    assert isinstance(decide(MOVE, lost(row()), both(row())), Send)
    assert decide(MOVE, lost(row()), both(row(move="any"))) == Wait()
    assert decide(MOVE, lost(row()), both(row(None, move="any"))) == Wait()
    assert decide(MOVE, lost(row()), both(row(None))) == Wait()
    assert isinstance(
        decide(MOVE, lost(row()), both(row(epoch=13, history=("12 aa 1 claimed", "13 aa 1 restart")))), Send
    )


@pytest.mark.parametrize("known", [True, False])
def test_who_gave_a_shard_up_to_the_wish_and_has_it_again_is_not_asked_twice(known: bool) -> None:
    again = row(epoch=13, history=("12 aa 1 moved", "13 aa 2 claimed"))
    sent = task(row(), row()) if known else lost(row())
    assert why_not(decide(MOVE, sent, both(again))) == f"{A} gave it up and has it again, epoch 12 -> 13"


def test_a_shard_that_moved_to_a_host_which_then_took_its_own_back_has_moved() -> None:
    now = row("host-b:9:b9", epoch=14, history=(*MOVED, "14 b9 3 reclaimed"))
    seen = sight(now, member(A), member("host-b:9:b9"))
    assert done(decide(MOVE, lost(row()), seen)) == f"moved from {A} to host-b:9:b9, epoch 12 -> 14"


def test_a_pause_whose_answer_was_lost_is_not_repeated_after_somebody_resumed() -> None:
    assert isinstance(decide(PAUSE, lost(row()), both(row())), Send)
    assert decide(PAUSE, lost(row()), both(row(paused=True))) == Wait()
    assert done(decide(PAUSE, lost(row()), both(row(None, paused=True)))) == f"is paused, {A} gave it up"
    resumed = row(B, epoch=13, history=("12 aa 1 paused", "13 bb 2 claimed"))
    assert why_not(decide(PAUSE, lost(row()), both(resumed))).startswith("somebody resumed it meanwhile")


def test_a_deposition_whose_answer_was_lost_is_known_by_its_nonce_and_deposes_nobody_else() -> None:
    deposed = row(None, epoch=13, nonce="nonce", paused=True, forced=True)
    assert done(decide(FORCE, lost(row()), both(deposed))) == "is paused by force, epoch 12 -> 13"
    claimed = row(B, epoch=14, history=("12 aa 1 deposed", "14 bb 2 claimed"))
    for sent in (lost(row()), task(row(), row())):
        assert why_not(decide(FORCE, sent, both(claimed))).startswith("somebody resumed it meanwhile")


def test_a_resume_or_a_forget_whose_answer_was_lost_is_told_by_the_row() -> None:
    paused = row(None, paused=True)
    claimed = later(both(paused), 1, row(B, epoch=13), member(A), member(B))
    assert done(decide(RESUME, lost(paused), claimed)) == f"runs at {B}, epoch 13"
    assert isinstance(decide(RESUME, lost(paused), both(paused)), Send)
    assert done(decide(FORGET, lost(row(None)), sight(None))) == "is forgotten, epoch 12 was its last"


def test_a_row_that_is_gone_already_is_as_good_as_forgotten() -> None:
    assert done(decide(FORGET, task(row(None)), sight(None))) == "is forgotten, epoch 12 was its last"


# --- who lives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [MOVE, MOVE_TO_B])
def test_who_looks_dead_by_wall_clocks_alone_is_watched_before_that_counts(order: Order) -> None:
    """The clock of this machine is a day ahead: nobody else would be live."""
    a, b = (member(name, renewed_at=NOW - 86_400_000) for name in (A, B))
    first = sight(row(), a, b)
    step = decide(order, task(row()), first)
    assert isinstance(step, Look)
    assert step.text.endswith("as far as wall clocks tell")
    moving = later(first, 3, row(beat=4), replace(a, beat=2), replace(b, beat=2))
    assert isinstance(decide(order, task(row()), moving), Send)
    still = watched(row(), a, b)
    assert why_not(decide(order, task(row()), still)).startswith(
        "nobody else" if order is MOVE else "host-b is not live"
    )


def test_what_is_in_vain_also_if_all_lived_is_told_at_once() -> None:
    full = member(B, renewed_at=NOW - 86_400_000, capacity=0)
    assert why_not(decide(MOVE, task(row()), sight(row(), member(A), full))).startswith("nobody else can take it")


def test_a_resumed_shard_is_waited_for_while_it_is_in_doubt_who_could_take_it() -> None:
    paused, b = row(None, paused=True), member(B, renewed_at=NOW - 86_400_000)
    assert decide(RESUME, task(paused, paused), sight(row(None), b)) == Wait()
    assert why_not(decide(RESUME, task(paused, paused), watched(row(None), b))).startswith(
        "it may run again, but nobody"
    )


@pytest.mark.parametrize("age_ms", [0, 9_000, 15_000, 86_400_000])
def test_no_clock_makes_anybody_forget_a_shard_that_a_supervisor_with_a_row_is_configured_for(age_ms: int) -> None:
    a = member(A, renewed_at=NOW - age_ms)
    for seen in (sight(row(None), a, ELSEWHERE), watched(row(None), a, ELSEWHERE, for_s=50)):
        assert why_not(decide(FORGET, task(row(None)), seen)).startswith(f"it is configured at {A}")


def test_nothing_is_forgotten_while_the_row_of_a_supervisor_does_not_parse() -> None:
    seen = sight(row(None), ELSEWHERE, **{f"@{A}": "capacity is 'x'"})
    assert why_not(decide(FORGET, task(row(None)), seen)).startswith(f"the row @{A} does not parse")


# --- the price of `hold` ----------------------------------------------------------------------------------

MAY_RUN = "may run it until it reaches the store, since its outage_policy is hold"


def test_every_line_about_an_owner_under_hold_that_may_be_cut_off_says_what_it_may_do() -> None:
    held = row(policy="hold", renewed_at=NOW - 20_000)
    forced = row(None, epoch=13, nonce="nonce", paused=True, forced=True, policy="hold")
    resumed = later(sight(forced), 12, row(B, epoch=14))
    taken = row(B, epoch=13, history=("13 bb 2 expired",))
    lines = {
        "pause --force": decide(FORCE, task(held, held), sight(forced)),
        "pause --force, already": decide(FORCE, task(forced), sight(replace(forced, nonce="another"))),
        "pause": decide(PAUSE, task(held, held), watched(replace(held, paused=True))),
        "pause, another's force": decide(PAUSE, task(held, held), sight(replace(forced, nonce="another"))),
        "resume": decide(RESUME, task(forced, forced), resumed),
        "resume, free": decide(RESUME, task(replace(forced, paused=False)), sight(replace(forced, paused=False))),
        "move": decide(MOVE, task(held, held), both(taken)),
        "forget": decide(FORGET, task(replace(forced, renewed_at=NOW - 20_000)), sight(None)),
        "forget, owned": decide(FORGET, task(held), sight(held)),
        "late": Told(False, late(RESUME, replace(forced, paused=False), sight(replace(forced, paused=False)))),
    }
    for name, step in lines.items():
        assert isinstance(step, Told), name
        assert MAY_RUN in f"{step.text}; {step.then}", name


def test_nothing_is_said_about_hold_where_the_policy_is_fence_or_the_owner_renews() -> None:
    for seen in (row(renewed_at=NOW - 20_000), row(policy="hold"), row(None, forced=True)):
        assert "hold" not in late(PAUSE, seen, sight(seen))


# --- who is meant -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [B, "host-b", "bb", "host-b:bb"])
def test_a_supervisor_is_named_by_its_id_its_random_part_both_or_its_host(name: str) -> None:
    found = named(name, both(None).candidates, NOW)
    assert not isinstance(found, str)
    assert found.id == B


def test_a_name_that_is_none_or_ambiguous_or_of_the_dead_is_answered_with_those_that_live() -> None:
    members = [member(A), member(B), member("host-b:4:dd"), member(C, renewed_at=NOW - 60_000)]
    candidates = sight(None, *members).candidates
    lives = f"live are {A}, {B}, host-b:4:dd"
    assert named("host-x", candidates, NOW) == f"there is no supervisor host-x; {lives}"
    assert named("host-b", candidates, NOW) == f"host-b is ambiguous, give one of the ids: {B}, host-b:4:dd"
    assert named("host-c", candidates, NOW) == f"host-c is not live: it was last renewed 60.0 s ago; {lives}"
    assert named(C, candidates, NOW) == f"{C} is not live: it was last renewed 60.0 s ago; {lives}"
    dead = sight(None, member(A, renewed_at=0)).candidates
    assert named("x", dead, NOW) == "there is no supervisor x; none is live by the clock of this machine"


def test_whatever_status_calls_a_supervisor_names_it() -> None:
    hosts = ("web.one", "web.two", "db.one", "db", "10.0.0.1", "10.0.0.2", "vm", "vm")
    members = [member(f"{host}:{number}:{number}", host=host) for number, host in enumerate(hosts)]
    snapshot = Snapshot({}, {each.id: each for each in members}, {})
    for supervisor, label in labels(view(snapshot, NOW).supervisors).items():
        found = named(label, seen_all(snapshot, NOW, 0).candidates, NOW)
        assert not isinstance(found, str), label
        assert found.id == supervisor
    assert "no supervisor 10;" in str(named("10", seen_all(snapshot, NOW, 0).candidates, NOW))
    assert "web is ambiguous" in str(named("web", seen_all(snapshot, NOW, 0).candidates, NOW))


def test_on_a_host_whose_supervisor_is_being_replaced_the_new_one_is_meant() -> None:
    found = named("host-b", sight(None, member(B, state="draining"), member("host-b:4:dd")).candidates, NOW)
    assert not isinstance(found, str)
    assert found.id == "host-b:4:dd"


def test_shards_are_known_by_their_rows_by_the_configuration_of_members_and_by_bad_rows() -> None:
    seen = sight(row(shard="old/1"), member(A, shards=("trades/0-2", "chat")), **{"bad/0": "no", "@dead": "no"})
    assert known_shards(seen) == ["bad/0", "chat", "old/1", "trades/0", "trades/1", "trades/2"]
    assert meant_by("trades/*", known_shards(seen)) == ["trades/0", "trades/1", "trades/2"]
    assert meant_by("chat", known_shards(seen)) == ["chat"]
    assert meant_by("trades/[01]", known_shards(seen)) == ["trades/0", "trades/1"]
    assert meant_by("Chat", known_shards(seen)) == []


# --- pausing ----------------------------------------------------------------------------------------------

PAUSE, FORCE = Order("pause"), Order("pause", force=True)


def test_a_pause_is_over_when_the_owner_has_given_the_shard_up() -> None:
    first = row()
    assert decide(PAUSE, task(first), both(first)) == Send(Pause(SHARD, A, 12, True))
    stopping = row(paused=True)
    assert decide(PAUSE, task(first, first), both(stopping)) == Wait()
    assert done(decide(PAUSE, task(first, first), both(row(None, paused=True)))) == f"is paused, {A} gave it up"


def test_a_free_shard_is_paused_by_the_mark_alone_with_force_or_without() -> None:
    free = row(None)
    for order in (PAUSE, FORCE):
        assert decide(order, task(free), both(free)) == Send(Pause(SHARD, None, 12, True))
        paused = row(None, paused=True)
        assert done(decide(order, task(free, free), both(paused))) == "is paused, nobody owned it"


def test_a_paused_shard_is_paused_already() -> None:
    paused = row(None, paused=True)
    for order in (PAUSE, FORCE):
        assert done(decide(order, task(paused), both(paused))) == "is paused already"
    stopping = row(paused=True)
    assert decide(PAUSE, task(stopping), both(stopping)) == Wait()
    assert done(decide(PAUSE, task(stopping), both(paused))) == f"is paused, {A} gave it up"


def test_an_owner_that_died_need_not_give_a_paused_shard_up() -> None:
    dead = row(paused=True, renewed_at=NOW - 31_000)
    told = done(decide(PAUSE, task(row(), row()), watched(dead)))
    assert told == f"is paused; {A} still stands in its row, but renewed it 37.0 s ago"


@pytest.mark.parametrize("ahead_ms", [-86_400_000, -11_000, 0, 11_000, 86_400_000])
def test_an_owner_whose_renewals_are_seen_has_not_stopped_whatever_the_wall_clocks_say(ahead_ms: int) -> None:
    """It renews every third of its lease, and its child stops only after ten leases."""
    beats = [row(paused=True, beat=beat, renewed_at=NOW + beat * 3_300 - ahead_ms) for beat in range(30)]
    seen = sight(beats[0])
    for tenths in range(900):
        seen = later(seen, tenths / 10, beats[tenths // 33])
        assert decide(PAUSE, task(row(), row()), seen) == Wait()
    assert done(decide(PAUSE, task(row(), row()), later(seen, 100, row(None, paused=True)))).endswith("gave it up")


@pytest.mark.parametrize("ahead_ms", [-86_400_000, -11_000, 0, 11_000, 86_400_000])
def test_an_owner_whose_row_stands_still_for_a_lease_has_ended_whatever_the_wall_clocks_say(ahead_ms: int) -> None:
    dead = row(paused=True, renewed_at=NOW - 20_000 - ahead_ms)
    assert decide(PAUSE, task(row(), row()), watched(dead, for_s=4.9)) == Wait()
    assert "still stands in its row" in done(decide(PAUSE, task(row(), row()), watched(dead, for_s=10)))


@pytest.mark.parametrize("paused", [False, True])
def test_force_deposes_the_owner_whether_or_not_it_was_asked_before(paused: bool) -> None:
    first = row(paused=paused)
    step = decide(FORCE, task(first), both(first))
    assert step == Send(Depose(SHARD, A, 12, "nonce", (*first.history, f"12 aa {NOW // 1000} deposed"), NOW))
    deposed = row(None, epoch=13, nonce="nonce", paused=True, forced=True)
    told = decide(FORCE, task(first, first), both(deposed))
    assert done(told) == "is paused by force, epoch 12 -> 13"
    assert isinstance(told, Told)
    assert told.then.endswith("once resumed the shard is claimed 10 s from now at the earliest")


def test_an_owner_that_came_in_between_is_deposed_too() -> None:
    other = row(B, epoch=13)
    assert isinstance(decide(FORCE, task(row(), writes=1), both(other)), Send)


def test_who_is_resumed_by_somebody_else_is_not_paused_again() -> None:
    assert why_not(decide(PAUSE, task(row(), row()), both(row()))).startswith("somebody resumed it meanwhile")


# --- resuming ---------------------------------------------------------------------------------------------

RESUME = Order("resume")


def test_a_resume_is_over_when_the_shard_has_an_owner() -> None:
    paused = row(None, paused=True)
    assert decide(RESUME, task(paused), both(paused)) == Send(Pause(SHARD, None, 12, False))
    for waiting in (row(None), row(None, forced=True), row(renewed_at=NOW - 20_000)):
        assert decide(RESUME, task(paused, paused), both(waiting)) == Wait()
    claimed = later(both(paused), 1, row(B, epoch=13), member(A), member(B))
    assert done(decide(RESUME, task(paused, paused), claimed)) == f"runs at {B}, epoch 13"


def test_a_resumed_shard_runs_when_a_renewal_was_seen_and_not_because_its_owner_looks_young() -> None:
    paused, resumed = row(paused=True), row()
    seen = later(both(paused), 1, resumed, member(A), member(B))
    assert decide(RESUME, task(paused, paused), seen) == Wait()
    seen = later(seen, 3, row(beat=4), member(A), member(B))
    assert done(decide(RESUME, task(paused, paused), seen)) == f"runs at {A}, epoch 12"


def test_a_shard_that_is_not_paused_is_said_to_be_so() -> None:
    assert done(decide(RESUME, task(row()), both(row()))) == f"is not paused, it runs at {A}, epoch 12"
    free = row(None)
    assert done(decide(RESUME, task(free), both(free))) == "is not paused; nobody owns it, epoch 12"


def test_a_shard_that_nobody_can_take_is_resumed_and_that_is_told() -> None:
    paused = row(None, paused=True)
    assert isinstance(decide(RESUME, task(paused), sight(paused)), Send)
    sentence = "it may run again, but nobody can take it: no live supervisor is configured for it"
    assert why_not(decide(RESUME, task(paused, paused), sight(row(None)))) == sentence


def test_who_is_paused_by_somebody_else_is_not_resumed_again() -> None:
    paused = row(None, paused=True)
    assert why_not(decide(RESUME, task(paused, paused), both(paused))) == "somebody paused it again meanwhile"


# --- forgetting -------------------------------------------------------------------------------------------

FORGET = Order("forget")
ELSEWHERE = member(B, shards=("chat",))


def test_a_free_shard_that_nobody_live_is_configured_for_is_forgotten() -> None:
    free = row(None)
    for members in ([ELSEWHERE], []):
        assert decide(FORGET, task(free), sight(free, *members)) == Send(Forget(SHARD, 12))
    assert done(decide(FORGET, task(free, free), sight(None))) == "is forgotten, epoch 12 was its last"
    assert done(decide(FORGET, task(free, writes=1), sight(None))) == "is forgotten, epoch 12 was its last"


@pytest.mark.parametrize(
    ("lease", "members", "sentence"),
    [
        (row(), [ELSEWHERE], f"it is not free: {A} owns it, epoch 12, renewed 0.4 s ago"),
        (row(None), [member(A), member(B)], f"it is configured at {A} and 1 more; take it out of the configuration"),
        (row(None), [member(A, renewed_at=NOW - 15_000), ELSEWHERE], f"it is configured at {A}, whose row was renewed"),
        (row(None, forced=True), [ELSEWHERE], "its owner was removed by force 0.4 s ago and may still run it"),
    ],
)
def test_what_somebody_owns_or_is_configured_for_is_not_forgotten(
    lease: Lease, members: list[Member], sentence: str
) -> None:
    assert why_not(decide(FORGET, task(lease), sight(lease, *members))).startswith(sentence)


def test_a_shard_of_the_configuration_at_hand_is_not_forgotten_although_the_fleet_is_stopped() -> None:
    free = row(None)
    kept = replace(FORGET, kept=frozenset({SHARD}))
    assert why_not(decide(kept, task(free), sight(free))) == "the configuration here has it; take it out of that first"
    assert isinstance(decide(replace(FORGET, kept=frozenset({"chat"})), task(free), sight(free)), Send)


def test_a_deposed_shard_is_forgotten_once_its_owner_has_certainly_ended() -> None:
    deposed = row(None, forced=True, renewed_at=NOW - 10_001)
    assert decide(FORGET, task(deposed), sight(deposed, ELSEWHERE)) == Send(Forget(SHARD, 12))


# --- all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_a_row_that_is_missing_or_bad_is_told(verb: Verb) -> None:
    assert why_not(decide(Order(verb), task(None), both(None))) == "it has no row: no supervisor has made one yet"
    if verb != "forget":
        assert why_not(decide(Order(verb), task(row()), both(None))) == "its row is gone"
    bad = sight(None, member(A), **{SHARD: "epoch is 0"})
    assert why_not(decide(Order(verb), task(None), bad)) == "its row does not parse: epoch is 0"


def test_what_did_not_come_in_time_is_told_as_it_stands() -> None:
    wished = row(move=B)
    owns = f"{A} owns it, epoch 12, renewed 0.4 s ago"
    assert late(MOVE_TO_B, wished, both(wished)) == f"{owns}, and the wish to move to {B} stands in its row"
    assert (
        late(PAUSE, row(paused=True), both(row(paused=True))) == f"{owns}, and the wish to pause it stands in its row"
    )
    assert late(RESUME, row(None), both(row(None))) == "it may run again, but nobody owns it, epoch 12"
    assert late(RESUME, row(None, forced=True), both(row(None, forced=True))) == (
        "it may run again, but nobody owns it (its last owner was removed by force, "
        "it can be claimed 9.6 s from now at the earliest), epoch 12"
    )
    over = row(None, forced=True, renewed_at=NOW - 20_000)
    assert late(RESUME, over, both(over)) == (
        "it may run again, but nobody owns it (its last owner was removed by force), epoch 12"
    )
    assert late(MOVE, None, both(None)) == "it has no row"


def test_who_does_not_wait_is_told_what_was_written() -> None:
    assert asked(MOVE_TO_B, task(row()), both(row())) == f"shall move from {A} to host-b"
    assert asked(MOVE, task(row()), both(row())) == f"shall move from {A} to anybody else"
    assert asked(MOVE_TO_B, task(row(None)), both(row(None))) == "shall move from nobody to host-b"
    assert asked(PAUSE, task(row()), both(row())) == f"is paused as soon as {A} has stopped it"
    assert asked(RESUME, task(row()), both(row())) == "may run again"


def test_who_does_not_wait_is_told_of_the_owner_that_was_asked_also_when_it_gave_the_shard_up_meanwhile() -> None:
    given_up = row(None, move="any")
    assert asked(MOVE, task(row(), seen=row()), both(given_up)) == f"shall move from {A} to anybody else"
    assert asked(MOVE, task(row()), both(given_up)) == f"shall move from {A} to anybody else"


def test_endless_names_from_rows_are_cut_and_of_many_only_some_are_listed() -> None:
    endless = [f"{letter * 3000}:1:{letter}" for letter in "xyz"]
    owned = row(endless[0], move=endless[1])
    crowd = [member(name, host="h", capacity=0, shards=("trades/7",)) for name in endless]
    crowd += [member(f"h:{number}:{number}", host="h", capacity=0) for number in range(LISTED_MAX)]
    steps = [
        decide(order, given, sight(seen, *crowd))
        for order in (
            MOVE,
            MOVE_TO_B,
            Order("move", to=endless[2]),
            Order("move", to="h"),
            PAUSE,
            FORCE,
            RESUME,
            FORGET,
        )
        for seen in (owned, replace(owned, owner=None), replace(owned, paused=True), None)
        for given in (task(owned), task(owned, owned), lost(replace(owned, owner=A)))
    ]
    texts = [f"{step.text}; {step.then}" for step in steps if isinstance(step, Told)]
    texts += [asked(MOVE, task(owned), sight(owned)), late(MOVE, owned, sight(owned))]
    assert len(texts) > 40
    assert max(map(len, texts)) < 5 * NAME_MAX
    assert any(f"and {len(crowd) - LISTED_MAX} more" in text for text in texts)


def test_no_supervisor_ever_deposes_or_forgets() -> None:
    """Only the command makes such a write; others name the types to carry it out or to ignore it."""
    folder = Path(__file__).resolve().parent.parent / "supervisor"
    makers = {
        path.stem
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Depose", "Forget")
        if node.args or node.keywords
    }
    assert makers == {"operate"}
