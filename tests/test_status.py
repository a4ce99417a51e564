"""What a snapshot says to a person, and to a program."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from supervisor.records import Lease, Member, Snapshot
from supervisor.status import FleetView, view
from supervisor.view import age, as_json, headline, show

NOW = 1_800_000_000_000


def lease(shard: str, owner: str | None = "a:1:x", ago_ms: int = 100, paused: bool = False) -> Lease:
    return Lease(shard, owner, 7, 3, "n", 10_000, open=1, want=2, quiet_ms=50, renewed_at=NOW - ago_ms, paused=paused)


def member(
    name: str, shards: tuple[str, ...] = ("t/0-3",), ago_ms: int = 100, capacity: int = 10, state: str = "active"
) -> Member:
    return Member(name, "f", state, 1, "n", 10_000, capacity, shards, host=name, renewed_at=NOW - ago_ms)


def seen(*rows: Lease | Member, bad: dict[str, str] | None = None, configured: tuple[str, ...] = ()) -> FleetView:
    leases = {row.shard: row for row in rows if isinstance(row, Lease)}
    members = {row.id: row for row in rows if isinstance(row, Member)}
    return view(Snapshot(leases, members, bad or {}), NOW, configured=configured)


def states(fleet: FleetView) -> dict[str, str]:
    return {shard.shard: shard.state for shard in fleet.shards}


FULL = [lease(f"t/{index}") for index in range(4)]


def test_a_fleet_whose_shards_are_all_held_is_not_degraded() -> None:
    fleet = seen(member("a:1:x"), *FULL)
    assert set(states(fleet).values()) == {"held"}
    assert not fleet.degraded
    assert (fleet.fleet, fleet.supervisors[0].shards, fleet.supervisors[0].state) == ("f", 4, "active")


@pytest.mark.parametrize(
    ("row", "state", "degraded"),
    [
        (lease("t/3", owner=None), "free", True),
        (lease("t/3", ago_ms=10_001), "stale", True),
        (lease("t/3", paused=True), "paused", False),
        (lease("t/3", owner=None, paused=True), "paused", False),
        (lease("t/9", owner=None), "retired", False),
        (lease("t/9"), "held", False),
    ],
)
def test_each_state_of_a_shard_is_told_apart(row: Lease, state: str, degraded: bool) -> None:
    fleet = seen(member("a:1:x"), *FULL, row)
    assert states(fleet)[row.shard] == state
    assert fleet.degraded is degraded


def test_a_shard_that_somebody_is_configured_for_but_has_no_row_is_free() -> None:
    fleet = seen(member("a:1:x"), *FULL[:3])
    assert states(fleet)["t/3"] == "free"
    assert states(seen(configured=("u",))) == {"u": "free"}
    assert fleet.degraded


def test_a_shard_is_homeless_when_everybody_is_full_or_draining() -> None:
    full = member("a:1:x", capacity=3)
    draining = member("b:1:y", state="draining")
    assert states(seen(full, draining, *FULL[:3]))["t/3"] == "homeless"
    assert states(seen(full, member("b:1:y"), *FULL[:3]))["t/3"] == "free"


def test_only_the_room_of_those_who_are_configured_for_a_shard_counts() -> None:
    full, roomy = member("a:1:x", capacity=3), member("b:1:y", shards=("u",))
    assert states(seen(full, roomy, *FULL[:3])) == {
        "t/0": "held",
        "t/1": "held",
        "t/2": "held",
        "t/3": "homeless",
        "u": "free",
    }
    assert states(seen(full, member("b:1:y", shards=("u", "t/3")), *FULL[:3]))["t/3"] == "free"
    assert states(seen(roomy, configured=("t/3",)))["t/3"] == "homeless"


def test_a_supervisor_that_stopped_renewing_is_stale_and_its_room_does_not_count() -> None:
    fleet = seen(member("a:1:x", capacity=3), member("b:1:y", ago_ms=10_001), *FULL[:3])
    assert {each.id: each.state for each in fleet.supervisors} == {"a:1:x": "active", "b:1:y": "stale"}
    assert states(fleet)["t/3"] == "homeless"


def test_a_fleet_that_is_down_altogether_is_degraded() -> None:
    assert states(seen(lease("t/0", owner=None))) == {"t/0": "free"}
    assert seen(lease("t/0", owner=None)).degraded


def test_an_empty_store_is_not_degraded_and_a_row_that_does_not_parse_is() -> None:
    assert not seen().degraded
    assert seen(bad={"t/0": "epoch is 0"}).degraded


def test_a_clock_ahead_of_ours_shows_no_negative_age() -> None:
    fleet = seen(member("a:1:x", ago_ms=-5000), lease("t/0", ago_ms=-5000))
    assert (fleet.supervisors[0].renewed_ago_ms, fleet.shards[0].renewed_ago_ms) == (0, 0)
    assert states(fleet)["t/0"] == "held"


def test_shards_are_in_the_order_of_their_numbers() -> None:
    rows = [lease(name) for name in ("t/10", "t/9", "t/009", "a", "t/eu", "t/0")]
    assert list(states(seen(*rows))) == ["a", "t/eu", "t/0", "t/009", "t/9", "t/10"]


def test_a_number_of_any_length_in_a_name_is_put_in_its_order() -> None:
    endless = "t/" + "9" * 5000
    assert list(states(seen(lease(endless), lease("t/10")))) == ["t/10", endless]


def test_a_name_of_any_length_is_shown_by_its_beginning() -> None:
    stream = io.StringIO()
    show(seen(lease("t/0", owner="x" * 400_000), bad={"y" * 400_000: "why"}), stream)
    assert len(stream.getvalue()) < 5000


def test_a_flaw_of_a_row_is_shown_and_degrades_nothing() -> None:
    flawed = replace(lease("t/0"), flaws=("history is 7", "open is -1"))
    fleet = seen(member("a:1:x"), *FULL[1:], flawed)
    stream = io.StringIO()
    show(fleet, stream)
    assert not fleet.degraded
    assert fleet.flaws == {"t/0": "history is 7; open is -1"}
    assert "the row t/0 has a flaw: history is 7; open is -1" in stream.getvalue()


def test_a_quiet_shard_grows_older_between_renewals() -> None:
    (shard,) = seen(lease("t/0", ago_ms=400)).shards
    assert shard.quiet_ms == 450


def test_programs_get_the_documented_keys() -> None:
    whole = json.loads(as_json(seen(member("a:1:x"), *FULL[:1], bad={"x": "why"})))
    assert list(whole) == ["fleet", "degraded", "supervisors", "shards", "bad", "flaws"]
    fields = ["id", "host", "version", "state", "shards", "capacity", "renewed_ago_ms", "zone", "task", "config"]
    assert list(whole["supervisors"][0]) == fields
    fields = ["shard", "owner", "epoch", "state", "open", "want", "quiet_ms", "renewed_ago_ms", "policy", "move"]
    assert list(whole["shards"][0]) == fields
    assert whole["shards"][0]["owner"] == "a:1:x"


def test_people_get_tables_in_which_no_name_can_move_the_cursor_or_be_markup() -> None:
    stream = io.StringIO()
    evil = lease("t/\x1b[2J[red]\n", owner="[/bold]x\ud800\u202e")
    show(seen(member("a:1:x"), *FULL, evil, bad={"k\x07": "why"}), stream)
    text = stream.getvalue()
    assert "fleet f: 1 supervisor, 5 shards: 5 held" in text
    assert "t/\\x1b[2J[red]\\x0a" in text
    assert r"[/bold]x\ud800\u202e" in text
    assert text.replace("\n", "").isprintable()


def test_long_names_are_not_cut_where_nobody_looks_at_a_terminal() -> None:
    stream = io.StringIO()
    owner = "ip-10-0-123-123.eu-central-1.compute.internal:123456:0123456789abcdef"
    show(seen(member(owner), lease("a-long-stream-name/eu-central-1", owner=owner)), stream)
    assert stream.getvalue().count(owner) >= 2


def test_the_headline_counts_what_is_there() -> None:
    assert headline(seen()) == "fleet (nobody there): 0 supervisors, 0 shards"
    assert (
        headline(seen(member("a:1:x"), *FULL[:3]))
        == "fleet f: 1 supervisor, 4 shards: 3 held, 1 free; 3 of 6 connections open"
    )


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0ms"),
        (999, "999ms"),
        (3210, "3.2s"),
        (47_300, "47s"),
        (12 * 60_000, "12m"),
        (5 * 3_600_000, "5h"),
    ],
)
def test_an_age_shows_the_digits_that_matter(ms: int | None, text: str) -> None:
    assert age(ms) == text
