"""What a snapshot says about a fleet: the states of shards and supervisors, and whether anything is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.names import SHARDS_MAX
from supervisor.records import Lease, Member, Snapshot, snapshot_from
from supervisor.showing.status import CROWDED, STATES, FleetView, ShardView, view
from supervisor.showing.story import sentence
from supervisor.showing.verdict import FINE
from supervisor.showing.view import as_json

NOW = 1_800_000_000_000
T_MS = 10_000
ME = "a:1:x"


def lease(shard: str, owner: str | None = ME, ago_ms: int = 100, since_ms: int = 60_000, **more: Any) -> Lease:
    more = {"open": 1, "want": 2, "quiet_ms": 50} | more
    return Lease(shard, owner, 7, 3, "n", T_MS, since=NOW - since_ms, renewed_at=NOW - ago_ms, **more)


def member(name: str, shards: tuple[str, ...] = ("t/0-3",), ago_ms: int = 100, **more: Any) -> Member:
    more = {"state": "active", "capacity": 10, "host": name.partition(":")[0]} | more
    return Member(
        id=name, fleet="f", beat=1, nonce="n", duration_ms=T_MS, shards=shards, renewed_at=NOW - ago_ms, **more
    )


def seen(*rows: Lease | Member, bad: dict[str, str] | None = None, configured: tuple[str, ...] = ()) -> FleetView:
    leases = {row.shard: row for row in rows if isinstance(row, Lease)}
    members = {row.id: row for row in rows if isinstance(row, Member)}
    return view(Snapshot(leases, members, bad or {}), NOW, configured=configured)


def states(fleet: FleetView) -> dict[str, str]:
    return {shard.shard: shard.state for shard in fleet.shards}


def only(fleet: FleetView, name: str) -> ShardView:
    return next(shard for shard in fleet.shards if shard.shard == name)


FULL = [lease(f"t/{index}") for index in range(4)]


def test_a_fleet_whose_shards_are_all_held_is_not_degraded() -> None:
    fleet = seen(member(ME), *FULL)
    assert fleet.counts == {"held": 4}
    assert not fleet.degraded
    assert (fleet.fleet, fleet.at) == ("f", NOW)
    assert (fleet.supervisors[0].shards, fleet.supervisors[0].state) == (4, "active")


@pytest.mark.parametrize(
    ("row", "state", "degraded"),
    [
        (lease("t/3", owner=None), "free", True),
        (lease("t/3", owner=None, forced=True), "free", True),
        (lease("t/3", ago_ms=T_MS), "held", False),
        (lease("t/3", ago_ms=T_MS + 1), "stale", True),
        (lease("t/3", open=0), "silent", True),
        (lease("t/3", open=0, want=0), "held", False),
        (lease("t/3", open=0, since_ms=T_MS), "held", False),
        (lease("t/3", open=0, since_ms=T_MS + 1), "silent", True),
        (lease("t/3", paused=True), "paused", False),
        (lease("t/9", owner=None), "retired", False),
        (lease("t/9"), "held", False),
    ],
)
def test_each_state_of_a_shard_is_told_apart(row: Lease, state: str, degraded: bool) -> None:
    fleet = seen(member(ME), *FULL, row)
    assert states(fleet)[row.shard] == state
    assert fleet.degraded is degraded


GAVE_UP = (f"7 x {NOW // 1000 - 12} crashed",)
RESTARTS = (f"7 x {NOW // 1000 - 12} restart x3",)


@pytest.mark.parametrize(
    ("row", "fine"),
    [
        (lease("t/3"), True),
        (lease("t/3", trouble="sink: collector.example:443 answered 401"), False),
        (lease("t/3", trouble="its child exited with 1"), False),
        (lease("t/3", history=RESTARTS), False),
        (lease("t/3", history=(*RESTARTS, f"8 x {NOW // 1000 - 9} recovered")), False),
        (lease("t/3", history=(*RESTARTS, f"8 x {NOW // 1000 - 9} reloaded")), True),
        (lease("t/3", history=(f"7 x {NOW // 1000 - 12} reloaded x9",)), True),
        (lease("t/3", history=(f"7 x {NOW // 1000 - 12} recovered x9",)), True),
        (lease("t/3", owner=None, history=GAVE_UP, trouble="its child exited with 1"), False),
        (lease("t/3", paused=True, trouble="sink: no answer"), True),
        (lease("t/9", owner=None, history=GAVE_UP, trouble="its child exited with 1"), True),
    ],
    ids=[
        "well",
        "refused",
        "crashed",
        "crashing",
        "crashing, and fenced",
        "mended",
        "reloaded",
        "fenced",
        "given up",
        "paused",
        "retired",
    ],
)
def test_a_fleet_is_never_fine_while_a_shard_is_in_trouble_or_its_child_crashes(row: Lease, fine: bool) -> None:
    fleet = seen(member(ME), *FULL[:3], *([] if row.shard == "t/3" else FULL[3:]), row)
    assert (only(fleet, row.shard).fine, fleet.degraded) == (fine, not fine)


def test_a_fleet_is_not_fine_while_a_live_supervisor_goes_on_after_a_rejected_reload() -> None:
    assert seen(member(ME, rejected="x.ini:3: no"), *FULL).degraded
    assert not seen(member(ME), member("b:2:y", ago_ms=2 * T_MS, rejected="x.ini:3: no"), *FULL).degraded


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (lease("t/3", owner=None, paused=True), "paused"),
        (lease("t/3", ago_ms=T_MS + 1, paused=True), "paused"),
        (lease("t/3", open=0, paused=True), "paused"),
        (lease("t/9", owner=None, paused=True), "paused"),
        (lease("t/3", open=0, ago_ms=T_MS + 1), "stale"),
        (lease("t/9", ago_ms=T_MS + 1), "stale"),
        (lease("t/9", open=0), "silent"),
    ],
)
def test_of_two_states_that_fit_the_first_of_the_list_is_told(row: Lease, state: str) -> None:
    assert states(seen(member(ME), *FULL[:3], row))[row.shard] == state


def test_a_stale_shard_whose_owner_holds_in_an_outage_says_that_it_may_be_connected() -> None:
    rows = (lease("t/0", policy="hold", ago_ms=T_MS + 1), lease("t/1", ago_ms=T_MS + 1), lease("t/2", policy="hold"))
    fleet = seen(member(ME), *rows)
    assert [only(fleet, name).holding for name in ("t/0", "t/1", "t/2")] == [True, False, False]


@pytest.mark.parametrize("ago_ms", [100, 10 * T_MS])
def test_a_fleet_is_degraded_while_a_removed_owner_may_hold_a_paused_shard(ago_ms: int) -> None:
    """It is cut off, so that it does not know: its member row is as old as the last time it reached the store."""
    history = ("7 x 1 claimed", "7 x 2 deposed")
    row = lease("t/3", None, ago_ms, paused=True, forced=True, policy="hold", history=history)
    for members in ([member(ME, ago_ms=ago_ms + 5000)], []):
        fleet = seen(*members, member("b:2:y"), *FULL[:3], row)
        assert (only(fleet, "t/3").state, only(fleet, "t/3").holding, fleet.degraded) == ("paused", True, True)


def test_a_removed_owner_holds_nothing_once_it_reached_the_store_or_if_it_fences() -> None:
    history = ("7 x 1 claimed", "7 x 2 deposed")
    held = lease("t/3", None, 3 * T_MS, paused=True, forced=True, policy="hold", history=history)
    for row in (held, replace(held, paused=False), replace(held, policy="fence"), replace(held, forced=False)):
        assert not only(seen(member(ME), row), "t/3").holding
    assert only(seen(member(ME, ago_ms=2 * T_MS + 100), replace(held, policy="fence")), "t/3").holding is False
    assert only(seen(member(ME, ago_ms=2 * T_MS + 100), held), "t/3").holding


def test_a_paused_shard_whose_owner_is_cut_off_may_be_held_by_it() -> None:
    fleet = seen(member(ME), *FULL[:3], lease("t/3", ago_ms=T_MS + 1, paused=True, policy="hold"))
    assert (only(fleet, "t/3").state, only(fleet, "t/3").holding, fleet.degraded) == ("paused", True, True)


def test_a_shard_that_somebody_is_configured_for_but_has_no_row_is_free() -> None:
    fleet = seen(member(ME), *FULL[:3])
    assert states(fleet)["t/3"] == "free"
    assert states(seen(configured=("u",))) == {"u": "free"}
    assert fleet.degraded


@pytest.mark.parametrize(
    ("ran_ms", "wait_ms"), [((1000,), T_MS - 1000), ((1000, 3000), T_MS - 3000), ((1000, T_MS), 0)]
)
def test_a_shard_whose_row_is_missing_waits_for_who_has_missed_it_longest(
    ran_ms: tuple[int, ...], wait_ms: int
) -> None:
    hosts = [member(f"h{number}:1:x", since=NOW - ms) for number, ms in enumerate(ran_ms)]
    others = [member("other:1:x", ("u",), since=1), member("full:1:x", capacity=0, since=1)]
    assert only(seen(*hosts, *others, *FULL[:3]), "t/3").wait_ms == wait_ms
    assert only(seen(*hosts), "t/3").wait_ms == 0  # in a store without any row nobody waits
    assert only(seen(*hosts, *FULL), "t/3").wait_ms == 0


def test_of_a_checkpoint_its_size_is_told_and_nothing_else() -> None:
    fleet = seen(member(ME), lease("t/0", checkpoint="tök-secret"), lease("t/1"))
    assert [only(fleet, name).checkpoint_bytes for name in ("t/0", "t/1")] == [11, None]
    assert "secret" not in as_json(fleet) + sentence(only(fleet, "t/0"), fleet)
    assert sentence(only(fleet, "t/0"), fleet).endswith("; its checkpoint has 11 bytes")


def test_of_shards_without_a_row_a_bounded_number_is_shown_and_who_names_the_others_is_told() -> None:
    crowd = [member(f"c:{number}:x", (f"c{number}/0-{SHARDS_MAX - 1}",)) for number in range(3)]
    fleet = seen(member(ME), *FULL[:3], *crowd)
    assert (fleet.counts, fleet.degraded) == ({"free": 1, "held": 3}, True)
    assert fleet.bad == {row.key: CROWDED for row in crowd}
    fleet = seen(crowd[0])
    assert (fleet.counts, fleet.bad) == ({"free": SHARDS_MAX}, {})


def test_a_shard_is_homeless_when_everybody_is_full_or_draining() -> None:
    full = member(ME, capacity=3)
    draining = member("b:1:y", state="draining")
    assert states(seen(full, draining, *FULL[:3]))["t/3"] == "homeless"
    assert states(seen(full, draining, *FULL[:3], lease("t/3", owner=None)))["t/3"] == "homeless"
    assert states(seen(full, member("b:1:y"), *FULL[:3]))["t/3"] == "free"


def test_only_the_room_of_those_who_are_configured_for_a_shard_counts() -> None:
    full, roomy = member(ME, capacity=3), member("b:1:y", shards=("u",))
    assert states(seen(full, roomy, *FULL[:3])) == {
        "t/0": "held",
        "t/1": "held",
        "t/2": "held",
        "t/3": "homeless",
        "u": "free",
    }
    assert states(seen(full, member("b:1:y", shards=("u", "t/3")), *FULL[:3]))["t/3"] == "free"
    assert states(seen(roomy, configured=("t/3",)))["t/3"] == "homeless"


def test_a_fleet_that_is_down_altogether_is_degraded_and_has_retired_nothing() -> None:
    assert states(seen(lease("t/0", owner=None))) == {"t/0": "free"}
    assert seen(lease("t/0", owner=None)).degraded


@pytest.mark.parametrize(
    ("members", "named", "shown"),
    [
        ([], "g", ("g", "")),
        ([], "", ("", "")),
        ([member(ME)], "", ("f", "")),
        ([member(ME)], "f", ("f", "")),
        ([member(ME)], "g", ("f", "g")),
        ([member(ME, ago_ms=T_MS + 1)], "g", ("f", "g")),
        ([member(ME, ago_ms=T_MS + 1), replace(member("b:1:y"), fleet="g")], "g", ("g", "")),
        ([member(ME), replace(member("b:1:y"), fleet="g")], "g", ("f, g", "")),
    ],
)
def test_a_fleet_has_the_name_that_its_members_give_it_whatever_a_configuration_says(
    members: list[Member], named: str, shown: tuple[str, str]
) -> None:
    fleet = view(Snapshot({}, {each.id: each for each in members}, {}), NOW, named, ("of/file",))
    assert (fleet.fleet, fleet.expected) == shown
    assert ("of/file" in states(fleet)) is not bool(fleet.expected)


@pytest.mark.parametrize("members", [[], [member(ME, ago_ms=T_MS + 1)]])
def test_while_the_fleet_is_stopped_the_configuration_at_hand_says_what_is_retired(members: list[Member]) -> None:
    rows = (*members, lease("t/0", owner=None), lease("old", owner=None))
    assert states(seen(*rows, configured=("t/0", "t/1"))) == {"old": "retired", "t/0": "free", "t/1": "free"}


def test_an_empty_store_is_not_degraded_and_a_row_that_does_not_parse_is() -> None:
    assert not seen().degraded
    assert seen(bad={"t/0": "epoch is 0"}).degraded


# --- supervisors ------------------------------------------------------------------------------------------


def test_a_supervisor_that_stopped_renewing_is_stale_and_its_room_does_not_count() -> None:
    fleet = seen(member(ME, capacity=3), member("b:1:y", ago_ms=T_MS + 1), *FULL[:3])
    assert {each.id: each.state for each in fleet.supervisors} == {ME: "active", "b:1:y": "stale"}
    assert states(fleet)["t/3"] == "homeless"


@pytest.mark.parametrize(
    ("digests", "drifting"),
    [
        ("AAA", ""),
        ("AAB", "2"),
        ("ABCA", "12"),
        ("AB", "01"),  # nobody can say who of two is right
        ("AABB", "0123"),
        ("A", ""),
    ],
)
def test_who_runs_another_configuration_than_most_drifts(digests: str, drifting: str) -> None:
    fleet = seen(*(member(f"{number}:1:x", digest=digest) for number, digest in enumerate(digests)))
    assert "".join(each.id[0] for each in fleet.supervisors if each.drift) == drifting


def test_the_configuration_of_the_dead_is_no_drift_and_counts_for_nobody() -> None:
    dead = [member(f"{number}:1:x", digest="old", ago_ms=T_MS + 1) for number in range(3)]
    fleet = seen(*dead, member("y:1:x", digest="new"), member("z:1:x", digest="new"))
    assert not any(each.drift for each in fleet.supervisors)


def test_a_supervisor_shows_its_poll_interval_and_why_its_reload_was_rejected() -> None:
    (one,) = seen(member(ME, poll_ms=2500, rejected="no", zone="z", task="t", version="1", since=5)).supervisors
    assert (one.poll_ms, one.rejected, one.zone, one.task, one.version, one.since) == (2500, "no", "z", "t", "1", 5)


# --- ages, order, history ---------------------------------------------------------------------------------


def test_a_clock_ahead_of_ours_shows_no_negative_age() -> None:
    fleet = seen(member(ME, ago_ms=-5000), lease("t/0", ago_ms=-5000, since_ms=-5000))
    assert (fleet.supervisors[0].renewed_ago_ms, fleet.shards[0].renewed_ago_ms) == (0, 0)
    assert states(fleet)["t/0"] == "held"


def test_shards_are_in_the_order_of_their_numbers_and_those_with_names_follow() -> None:
    rows = [lease(name) for name in ("t/10", "t/9", "t/009", "a", "t/eu", "t", "t/0", "t/extra")]
    assert list(states(seen(*rows))) == ["a", "t", "t/0", "t/009", "t/9", "t/10", "t/eu", "t/extra"]


def test_a_number_of_any_length_in_a_name_is_put_in_its_order() -> None:
    endless = "t/" + "9" * 5000
    assert list(states(seen(lease(endless), lease("t/10")))) == ["t/10", endless]


def test_a_quiet_shard_grows_older_between_renewals() -> None:
    (shard,) = seen(lease("t/0", ago_ms=400)).shards
    assert shard.quiet_ms == 450


@pytest.mark.parametrize(
    ("row", "trouble"),
    [
        (lease("t/0", trouble="sink: no answer"), "sink: no answer"),
        (lease("t/0", trouble="sink: no answer", ago_ms=T_MS + 1), "sink: no answer"),
        (lease("t/0", trouble=""), None),
        (lease("t/0", owner=None, trouble="left by a version that does not know it"), None),
        (
            lease("t/0", owner=None, trouble="its child exited with 1", history=("7 x 12 crashed",)),
            "its child exited with 1",
        ),
    ],
)
def test_what_the_child_of_an_owned_shard_says_is_told_and_changes_no_state(row: Lease, trouble: str | None) -> None:
    fleet, same = (seen(member(ME), each) for each in (row, replace(row, trouble="")))
    assert only(fleet, "t/0").trouble == trouble
    assert (states(fleet), fleet.degraded) == (states(same), same.degraded)


@pytest.mark.parametrize(
    ("row", "starting"),
    [
        (lease("t/0"), False),
        (replace(lease("t/0", open=0), beat=0), True),
        (replace(lease("t/0", open=0, ago_ms=T_MS + 1), beat=0), False),
        (replace(lease("t/0", open=0, paused=True), beat=0), False),
        (replace(lease("t/0", owner=None), beat=0), False),
    ],
)
def test_a_held_shard_starts_until_its_first_renewal(row: Lease, starting: bool) -> None:
    assert only(seen(member(ME), replace(row, since=row.renewed_at)), "t/0").starting is starting


def test_a_flaw_of_a_row_is_told_and_degrades_nothing() -> None:
    fleet = seen(member(ME), *FULL[1:], replace(lease("t/0"), flaws=("history is 7", "open is -1")))
    assert not fleet.degraded
    assert fleet.flaws == {"t/0": "history is 7; open is -1"}


def test_owners_in_a_history_are_known_by_members_and_by_owners_whose_row_is_gone() -> None:
    history = ("7 x 1800000000 claimed", "8 gone 1800000001 expired", "9 who 1800000002 claimed")
    fleet = seen(member(ME), lease("t/0", history=history), lease("t/1", owner="c:3:gone"))
    assert [change.owner for change in only(fleet, "t/0").history] == [ME, "c:3:gone", "who"]


# --- whatever stands in the store -------------------------------------------------------------------------

NUMBERS = st.one_of(st.integers(0, 3), st.integers(NOW - 20_000, NOW + 20_000), st.integers(-1, 2**62))
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from([ME, "b:2:y", "any", f"{ME} balance", "hold", "fence"]))
ENTRIES = st.one_of(st.text(max_size=40), st.from_regex(r"[0-9]{1,20} [xyz] [0-9]{1,12} \w{1,9}( x[0-9]{1,4})?"))
LEASES = st.fixed_dictionaries(
    {"lease": st.sampled_from(["t/0", "t/1", "t/10", "u", "a\x1b[2J"]), "epoch": NUMBERS, "beat": NUMBERS},
    optional={
        **dict.fromkeys(("owner", "nonce", "checkpoint", "move", "policy", "trouble"), TEXTS),
        **dict.fromkeys(("open", "want", "quiet_ms", "since", "renewed_at"), NUMBERS),
        **dict.fromkeys(("paused", "forced"), st.booleans()),
        "history": st.lists(ENTRIES, max_size=9),
    },
).map(lambda item: {"duration_ms": T_MS, "nonce": "n"} | item)
MEMBERS = st.fixed_dictionaries(
    {"lease": st.sampled_from([f"@{ME}", "@b:2:y", "@?"]), "beat": NUMBERS, "capacity": st.integers(0, 3)},
    optional={
        **dict.fromkeys(("version", "digest", "host", "task", "zone", "rejected"), TEXTS),
        **dict.fromkeys(("since", "renewed_at", "poll_ms"), NUMBERS),
        "shards": st.lists(st.sampled_from(["t/0-3", "u", "t/9-1", "-", "t/0-999999999"]), max_size=2),
        "state": st.sampled_from(["active", "draining"]),
    },
).map(lambda item: {"duration_ms": T_MS, "nonce": "n", "fleet": "f", "shards": []} | item)
SNAPSHOTS = st.lists(st.one_of(LEASES, LEASES, MEMBERS), max_size=6).map(snapshot_from)


@given(SNAPSHOTS, st.lists(st.sampled_from(["t/0", "v"]), max_size=2))
def test_whatever_stands_in_the_store_is_told_and_degraded_if_anything_is_not_fine(
    snapshot: Snapshot, configured: list[str]
) -> None:
    fleet = view(snapshot, NOW, configured=configured)
    found = [shard.state for shard in fleet.shards]
    assert {shard.shard for shard in fleet.shards} >= set(snapshot.leases) | set(configured)
    assert [each.id for each in fleet.supervisors] == sorted(snapshot.members)
    holding = any(shard.holding for shard in fleet.shards)
    troubled = any(shard.trouble for shard in fleet.shards if shard.state == "held")
    rejected = any(each.rejected for each in fleet.supervisors if each.state != "stale")
    assert fleet.degraded >= (bool(snapshot.bad) or holding or troubled or rejected or not set(found) <= set(FINE))
    assert fleet.degraded == (bool(snapshot.bad) or rejected or not all(shard.fine for shard in fleet.shards))
    assert fleet.counts == {state: found.count(state) for state in STATES if state in found}


@given(SNAPSHOTS)
def test_the_state_of_a_shard_is_what_its_row_says(snapshot: Snapshot) -> None:
    for shard in view(snapshot, NOW).shards:
        row = snapshot.leases.get(shard.shard)
        assert shard.policy == "hold" or not shard.holding
        if shard.policy == "hold" and shard.owner is not None:
            assert shard.holding == (shard.renewed_ago_ms is None or shard.renewed_ago_ms > T_MS)
        if row is None:
            assert shard.state in ("free", "homeless")
            continue
        assert (shard.state == "paused") == row.paused
        if not row.paused:
            assert (shard.state in ("held", "silent", "stale")) == (row.owner is not None)
        if shard.state == "silent":
            assert row.want > 0 == row.open
