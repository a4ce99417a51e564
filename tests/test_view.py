"""What a person sees of a fleet, and what a program gets."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from rich.console import Console

from supervisor.changes import Change, change_of, words
from supervisor.records import Lease, Member, Snapshot
from supervisor.showing import story
from supervisor.showing.selection import select
from supervisor.showing.status import STATES, FleetView, ShardView, SupervisorView, view
from supervisor.showing.telling import age, folded, headline, labels, remarks, troubles
from supervisor.showing.view import ROWS_MAX, Picture, as_json
from tests.test_status import FULL, ME, NOW, SNAPSHOTS, T_MS, lease, member, seen

LONG_ID = "ip-10-0-123-123.eu-central-1.compute.internal:123456:0123456789abcdef"


def text_of(fleet: FleetView, every: bool = False) -> str:
    return drawn(Picture(fleet, every))


def drawn(picture: Picture, width: int = 200) -> str:
    stream = io.StringIO()
    Console(file=stream, highlight=False, width=width).print(picture)
    return stream.getvalue()


def row_of(text: str, *words: str) -> str:
    """The one line that has all these words."""
    (line,) = [line for line in text.splitlines() if set(words) <= set(line.split())]
    return line


def many(count: int, owners: Sequence[str] = (ME, "b:2:y"), **more: Any) -> FleetView:
    rows = [lease(f"t/{index}", owner=owners[index % len(owners)], **more) for index in range(count)]
    return seen(*(member(owner, (f"t/0-{count - 1}",)) for owner in owners), *rows)


# --- for programs -----------------------------------------------------------------------------------------


def test_programs_get_the_whole_view_with_a_line_for_each_shard() -> None:
    fleet = seen(member(ME), lease("t/0", history=("7 x 1800000000 restart x3", "?")), bad={"x": "why"})
    text = as_json(fleet)
    whole = json.loads(text)
    assert whole["supervisors"][0]["id"] == ME
    assert whole["shards"][0]["owner"] == ME
    assert whole["shards"][0]["history"] == [
        {"epoch": 7, "owner": ME, "at": 1_800_000_000, "reason": "restart", "times": 3},
        {"epoch": None, "owner": "", "at": None, "reason": "?", "times": 1},
    ]
    assert (whole["bad"], whole["degraded"]) == ({"x": "why"}, True)
    assert [line for line in text.splitlines() if '"t/0"' in line] == [
        line for line in text.splitlines() if '"history"' in line and "1800000000" in line
    ]


@given(SNAPSHOTS)
def test_whatever_stands_in_the_store_becomes_valid_json_in_ascii(snapshot: Snapshot) -> None:
    text = as_json(view(snapshot, NOW))
    text.encode("ascii")
    assert {each["shard"] for each in json.loads(text)["shards"]} >= set(snapshot.leases)


# --- what the docs say about the JSON ---------------------------------------------------------------------

PAGE = (Path(__file__).parent.parent / "docs" / "status.md").read_text()
KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def documented(title: str) -> dict[str, str]:
    """Key and type of each row of the table under this heading."""
    section = PAGE.split(f"\n### {title}\n")[1].split("\n#")[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([a-z ]+) \|", section, re.M))


def check(value: Any, kind: str) -> None:
    """That a value is what the docs call `kind`, and has exactly their keys."""
    if kind.startswith("list of "):
        for each in value:
            check(each, kind.removeprefix("list of "))
    elif kind.startswith("object of "):
        for each in value.values():
            check(each, kind.removeprefix("object of "))
    elif kind in ("fleet", "supervisor", "shard", "change"):
        keys = documented(kind.capitalize())
        assert list(value) == list(keys)
        for key, its in keys.items():
            check(value[key], its)
    else:
        assert any(KINDS[each](value) for each in kind.split(" or ")), (value, kind)


@pytest.mark.parametrize("kind", [FleetView, SupervisorView, ShardView, Change])
def test_the_docs_list_every_key_in_its_order(kind: type[Any]) -> None:
    assert list(documented(kind.__name__.removesuffix("View"))) == [field.name for field in dataclasses.fields(kind)]


@given(SNAPSHOTS)
def test_the_json_is_what_the_docs_say_whatever_stands_in_the_store(snapshot: Snapshot) -> None:
    whole = json.loads(as_json(view(snapshot, NOW)))
    check(whole, "fleet")


def test_the_docs_list_every_state() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.split("\n## States\n")[1].split("\n## ")[0], re.M)) == set(STATES)


def test_each_reason_of_the_docs_is_told_in_words() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.split("\n## History\n")[1].split("\n## ")[0], re.M)
    reasons = [reason for row in rows for reason in re.findall(r"`([\w-]+)`", row)]
    assert len(reasons) == 19
    assert [reason for reason in reasons if words(change_of(f"1 x 1800000000 {reason}")) == reason] == []


# --- tables -----------------------------------------------------------------------------------------------


@given(SNAPSHOTS)
def test_whatever_stands_in_the_store_can_be_shown_and_nothing_of_it_reaches_the_terminal_raw(
    snapshot: Snapshot,
) -> None:
    fleet = view(snapshot, NOW)
    told = io.StringIO()
    for shard in fleet.shards:
        story.show(shard, fleet, Console(file=told, width=200))
    for text in (text_of(fleet), text_of(fleet, every=True), told.getvalue()):
        assert text.replace("\n", "").isprintable()


def test_no_name_can_move_the_cursor_or_be_markup() -> None:
    evil = lease("t/\x1b[2J[red]\n", owner="[/bold]x\ud800\u202e", history=("\x1b]0;x\x07",))
    fleet = seen(member(ME), *FULL, evil, bad={"k\x07": "why"})
    text = text_of(fleet)
    assert "t/\\x1b[2J[red]\\n" in text
    assert r"[/bold]x\ud800\u202e" in text
    assert r"the row k\x07 does not parse: why" in text
    assert text.replace("\n", "").isprintable()
    told = io.StringIO()
    story.show(fleet.shards[-1], fleet, Console(file=told, width=200))
    assert r"\x1b]0;x\x07" in told.getvalue()


def test_what_is_wrong_stands_on_top() -> None:
    text = text_of(seen(member(ME), *FULL[:2], lease("t/2", open=0), lease("t/3", ago_ms=T_MS + 1)))
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("t/")]
    assert shown == ["t/2", "t/3", "t/0", "t/1"]


def test_many_shards_that_are_fine_are_one_row_for_each_owner_and_the_others_have_their_own() -> None:
    count = ROWS_MAX + 10
    fleet = many(count)
    text = text_of(fleet)
    assert "t/0,2,4," in row_of(text, "30", "held", "a")
    assert "t/1,3,5," in row_of(text, "30", "held", "b")
    wrong = replace(fleet.shards[7], state="silent", open=0)
    wished = replace(fleet.shards[9], move="any")
    shards = (*fleet.shards[:7], wrong, fleet.shards[8], wished, *fleet.shards[10:])
    text = text_of(replace(fleet, shards=shards))
    assert "0/2" in row_of(text, "t/7", "silent")
    assert "to go to anybody else, as an operator wishes" in row_of(text, "t/9", "held")
    assert row_of(text, "28", "held", "b")


def test_a_thousand_shards_fit_on_a_screen_whatever_their_state() -> None:
    for more in ({}, {"open": 0}, {"move": "any"}, {"ago_ms": T_MS + 1}):
        text = text_of(many(1000, [f"h{number}:1:x" for number in range(10)], **more))
        assert len(text.splitlines()) < 40, more
        assert max(map(len, text.splitlines())) <= 200, more


def test_every_shard_has_its_row_when_that_is_asked_for() -> None:
    text = text_of(many(1000), every=True)
    assert sum(line.startswith("t/") for line in text.splitlines()) == 1000


def test_notes_say_what_a_state_does_not() -> None:
    rows = (
        lease("t/0", policy="hold", ago_ms=T_MS + 1),
        lease("t/1", paused=True),
        lease("t/2", owner=None, forced=True),
        lease("t/3", move="b:2:y balance"),
    )
    text = text_of(seen(member(ME), member("b:2:y"), *rows))
    assert "its owner may be holding its connections" in row_of(text, "t/0")
    assert "not stopped yet" in row_of(text, "t/1")
    assert "removed by force" in row_of(text, "t/2")
    assert "to go to b, to even the loads" in row_of(text, "t/3")
    assert "NOTE" not in text_of(seen(member(ME), *FULL))


def test_what_may_be_held_by_an_owner_that_is_cut_off_is_in_the_headline_beside_the_shard_and_below() -> None:
    cut_off = lease("t/0", None, 3 * T_MS, paused=True, forced=True, policy="hold", history=("7 x 1 deposed",))
    text = text_of(seen(member(ME, ago_ms=3 * T_MS), member("b:2:y"), *FULL[1:], cut_off))
    headline = text.splitlines()[0]
    assert headline.startswith("fleet f is degraded: 3 held, 1 paused of 4 shards; ")
    assert "; 1 shard may be run by an owner that is cut off; " in headline
    assert "its last owner may be holding its connections" in row_of(text, "t/0")
    assert "holding: t/0; under outage_policy = hold an owner that is cut off from the store goes on" in text


BEFORE = f"6 x {NOW // 1000 - 900} claimed"


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (("7 x {12} restart x3",), "its child ended 3 times, the last time 12s ago"),
        (("7 x {12} restart x2",), ""),
        (("7 x {300} restart x30",), ""),
        (("7 x {12} reclaimed x3",), ""),
        (("7 b {90} crashed x2", "8 x {80} claimed"), "its child ended 2 times, the last time 90s ago"),
        (
            ("7 b {90} crashed x2", "8 x {80} claimed", "9 x {12} restart"),
            "its child ended 3 times, the last time 12s ago",
        ),
        (("7 b {300} crashed x2", "8 x {80} claimed"), ""),
        (("7 b {90} crashed x2", "8 x {80} moved", "9 x {12} claimed"), ""),
    ],
)
def test_a_held_shard_whose_child_crashes_again_and_again_has_a_note(entries: Sequence[str], told: str) -> None:
    fleet = seen(member(ME, ("t/0",)), lease("t/0", history=(BEFORE, *map(dated, entries))))
    assert fleet.counts == {"held": 1}
    assert row_of(text_of(fleet), "t/0", "held").partition("100ms ago")[2].strip() == told
    who = "b" if told.endswith("90s ago") else "a"
    assert troubles(fleet) == [f"crashing: t/0; the log of {who} says why (child.failed, child.exited)"] * bool(told)


def dated(entry: str) -> str:
    """`{12}` is twelve seconds ago."""
    return re.sub(r"\{(\d+)\}", lambda match: str(NOW // 1000 - int(match[1])), entry)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("7 x {12} crashed", "its child ended 12s ago, and a gave it up"),
        ("7 x {7200} crashed x4", "its child ended 4 times, the last time 2h ago, and a gave it up"),
        ("7 gone {12} crashed x4", "its child ended 4 times, the last time 12s ago, and gone gave it up"),
        ("7 x {12} restart x3", ""),
        ("7 x {12} stopped", ""),
    ],
)
@pytest.mark.parametrize("full", [False, True])
def test_a_shard_that_nobody_owns_since_it_crashed_says_so_beside_it_and_below(
    entry: str, told: str, full: bool
) -> None:
    row = lease("t/0", owner=None, history=(BEFORE, dated(entry)))
    fleet = seen(member(ME, ("t/0",), capacity=0 if full else 1), row)
    assert told in row_of(text_of(fleet), "t/0", "homeless" if full else "free")
    who = "gone" if "gone" in entry else "a"
    sentence = f"crashing: t/0; the log of {who} says why (child.failed, child.exited)"
    assert (sentence in troubles(fleet)) is bool(told)
    assert ("NOTE" in text_of(fleet)) is bool(told)


def test_the_first_line_counts_what_is_held_and_yet_in_trouble_and_rejected_reloads() -> None:
    rows = [lease("t/0", trouble="its child exited with 1"), lease("t/1", trouble="sink: no answer"), *FULL[2:]]
    fleet = seen(member(ME, rejected="x.ini:3: no"), *rows)
    first = "fleet f is degraded: 4 shards, all held; 4 of 8 connections open; 2 shards in trouble; 1 supervisor live; "
    assert headline(fleet) == f"{first}1 supervisor rejected the last reload"
    assert "in trouble: t/0-1; the note says what it is" in troubles(fleet)
    assert text_of(fleet).splitlines()[3].split()[0] == "t/0"


def test_a_paused_shard_does_not_crash() -> None:
    fleet = seen(lease("t/0", owner=None, paused=True, history=(dated("7 x {12} crashed x4"),)))
    assert troubles(fleet) == []


def test_an_owner_is_named_by_its_host_unless_two_share_it_or_its_row_is_gone() -> None:
    fleet = seen(member(LONG_ID), member("a:1:x"), member("a:2:y"), lease("t/0", owner="gone:3:z"))
    assert labels(fleet.supervisors) == {
        LONG_ID: "ip-10-0-123-123",
        "a:1:x": "a:x",
        "a:2:y": "a:y",
    }
    hosts = [member(f"{host}:1:{host}") for host in ("web.one", "web.two", "10.0.0.1", "db.one")]
    assert list(labels(seen(*hosts).supervisors).values()) == ["10.0.0.1", "db", "web.one", "web.two"]
    assert row_of(text_of(fleet), "t/0", "gone:3:z")


def test_a_part_of_a_fleet_names_supervisors_as_the_whole_does_and_counts_all_of_them() -> None:
    paused = lease("t/1", owner=None, paused=True, open=0, want=0)
    whole = seen(member("vm:1:x"), member("vm:2:y"), *FULL[2:], lease("t/0", owner="vm:1:x"), paused)
    part = select(whole, ["t/[01]"], [])
    assert len(part.supervisors) == 1
    text = drawn(Picture(part, True, whole))
    assert text.startswith("this part of fleet f is fine: 1 held, 1 paused of 2 shards; 1 of 2 connections open; ")
    assert text.splitlines()[0].endswith("2 supervisors live")
    assert row_of(text, "t/0", "held", "vm:x")
    assert not troubles(select(whole, ["t/1"], []), whole)
    free = seen(member(ME), *FULL[1:])
    assert "takes it within a few polls" in troubles(select(free, ["t/0"], []), free)[0]


def test_of_a_shard_without_a_row_the_wait_is_told() -> None:
    fleet = seen(member(ME, since=NOW - 3000), *FULL[1:])
    told = "without a row: t/0; it is made in about 7.0s, when no child of a deleted one can live"
    assert told in troubles(fleet)
    assert not [line for line in troubles(seen(member(ME, since=1), *FULL[1:])) if line.startswith("without")]


def test_long_names_are_not_cut_where_nobody_looks_at_a_terminal() -> None:
    text = text_of(seen(member(LONG_ID), lease("a-long-stream-name/eu-central-1", owner=LONG_ID)))
    assert LONG_ID in text
    assert row_of(text, "a-long-stream-name/eu-central-1", "ip-10-0-123-123")


def test_on_a_narrow_screen_names_are_folded_and_nothing_is_cut() -> None:
    hold = lease("t/1", owner=LONG_ID, ago_ms=T_MS + 1, policy="hold")
    fleet = seen(member(LONG_ID, zone="eu-central-1a"), lease("t/0", owner=LONG_ID, open=0), hold)
    text = drawn(Picture(fleet), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert row_of(text, "t/0", "silent", "ip-10-0-123-123", "0/2")
    assert "t/1: its owner may be holding its connections" in text.splitlines()
    parts = [line.split()[0] for line in text.partition("SUPERVISOR")[2].splitlines()[1:] if line]
    assert "".join(parts).startswith(LONG_ID)


@pytest.mark.parametrize("width", range(60, 201, 4))
def test_no_column_is_missing_that_has_room_and_the_most_important_ones_are_there(width: int) -> None:
    noted = lease("t/1", move="any", history=(f"7 x {NOW // 1000 - 12} restart x3",))
    name = "host-a:123456:0123456789abcdef"
    one = member(name, ("t/0-1",), zone="eu-1a", task="a-task", version="0.1.0", digest="0123abcd")
    text = drawn(Picture(seen(one, lease("t/0"), noted)), width)
    assert max(map(len, text.splitlines())) <= width
    shards, supervisors = [line.split() for line in text.splitlines() if line.startswith(("SHARD ", "SUPERVISOR "))]
    assert {"SHARD", "STATE", "OWNER", "SINCE", "OPEN", "QUIET", "RENEWED"} <= set(shards)
    assert {"SUPERVISOR", "STATE", "SHARDS", "CAPACITY", "SINCE", "RENEWED"} <= set(supervisors)
    assert "EPOCH" in shards
    assert ("CONFIG" in supervisors) is (width >= 83)
    assert name in text or width < 73
    told = "to go to anybody else, as an operator wishes; its child ended 3 times, the last time 12s ago"
    words = " ".join(text.split())
    assert words.count(told) == 1
    assert (f"t/1: {told}" in words) is ("NOTE" not in shards)


def test_no_line_ends_with_blanks() -> None:
    for fleet in (seen(member(ME), *FULL[1:], lease("t/0", move="any")), many(1000)):
        for width in (160, 200):
            assert [line for line in drawn(Picture(fleet), width).splitlines() if line != line.rstrip()] == []


def test_a_name_of_any_length_is_shown_by_its_beginning() -> None:
    assert len(text_of(seen(lease("t/0", owner="x" * 400_000), bad={"y" * 400_000: "why"}))) < 5000


# --- sentences --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ((), "fleet (unnamed) is empty: no supervisor, no shard"),
        (
            (member(ME), *FULL),
            "fleet f is fine: 4 shards, all held; 4 of 8 connections open; 1 supervisor live",
        ),
        (
            (member(ME), *FULL[:2], lease("t/3", open=0)),
            "fleet f is degraded: 1 silent, 1 free, 2 held of 4 shards; 2 of 6 connections open; 1 supervisor live",
        ),
        (
            (member(ME), member("b:1:y", ago_ms=T_MS + 1), member("c:1:z", state="draining"), *FULL),
            "fleet f is fine: 4 shards, all held; 4 of 8 connections open; 2 supervisors live (1 draining), 1 stale",
        ),
        (
            (member(ME, ago_ms=T_MS + 1), lease("t/0", ago_ms=T_MS + 1)),
            "fleet f is degraded: 1 stale of 1 shard; no supervisor live, 1 stale",
        ),
        ((member(ME, shards=()),), "fleet f is fine: no shard; 1 supervisor live"),
    ],
)
def test_the_headline_says_first_whether_anything_is_wrong(rows: tuple[Lease | Member, ...], text: str) -> None:
    assert headline(seen(*rows)) == text


def test_connections_of_shards_that_were_not_renewed_yet_are_no_missing_ones() -> None:
    starting = replace(lease("t/0", open=0, quiet_ms=None, since_ms=100), beat=0)
    fleet = seen(member(ME), starting, *FULL[1:])
    assert "; 3 of 6 connections open; 1 shard just started; 1 supervisor live" in headline(fleet)
    assert row_of(text_of(fleet), "t/0", "held", "-/2")
    assert "; just started, its connections are told at its first renewal" in story.sentence(fleet.shards[0], fleet)
    assert "4 shards, all held; 4 shards just started;" in headline(
        seen(member(ME), *(replace(starting, shard=each.shard) for each in FULL))
    )


def test_the_headline_counts_rows_that_do_not_parse() -> None:
    assert headline(seen(bad={"x": "why"})).startswith("fleet (unnamed) is degraded: no shard; 1 row does not parse")


def test_each_state_that_is_wrong_is_explained_once() -> None:
    told = troubles(seen(member(ME), lease("t/0", open=0), lease("t/1", open=0), *FULL[2:]))
    assert [sentence.partition(":")[0] for sentence in told] == ["silent"]
    assert troubles(seen(member(ME), *FULL)) == []


def test_what_is_wrong_with_a_child_stands_beside_its_shard() -> None:
    refused = "connection 0: the server answered 401 (permanent)"
    row = lease("t/0", open=0, trouble=refused)
    text = text_of(seen(member(ME), row, *FULL[1:]))
    assert row_of(text, "t/0", "silent").endswith(f"  {refused}")
    assert not [line for line in text.splitlines() if "t/1" in line and "connection 0" in line]
    narrow = drawn(Picture(seen(member(ME), row)), 60).split()
    assert " ".join(narrow).count(f"t/0: {refused}") == 1
    assert told_of(member(ME), row)[0].endswith(f"0 of 2 connections open, last event 150ms ago; {refused}")


def test_a_large_fleet_in_trouble_says_in_how_many_shards_and_what_it_is() -> None:
    fleet = many(2 * ROWS_MAX + 10, trouble="sink: no answer from collector.example:443 for 12 s")
    lines = [
        line for line in text_of(fleet).splitlines() if "sink: no answer from collector.example:443 for 12 s" in line
    ]
    assert len(lines) == 2
    assert all("trouble in 55, such as sink: " in line for line in lines)
    narrow = " ".join(drawn(Picture(fleet), 70).split())
    assert narrow.count("trouble in 55, such as sink: no answer from collector.example:443 for 12 s") == 2


def test_a_large_fleet_in_which_children_end_again_and_again_says_in_how_many_shards() -> None:
    crashing = many(2 * ROWS_MAX + 10, history=(f"7 x {NOW // 1000 - 12} restart x3",))
    lines = [line for line in text_of(crashing).splitlines() if "trouble in 55, such as its child ended again" in line]
    assert len(lines) == 2
    assert "trouble in" not in text_of(many(2 * ROWS_MAX + 10, history=(f"7 x {NOW // 1000 - 12} reloaded x3",)))


@pytest.mark.parametrize("trouble", ["\x1b[2Jgone\r\n", "\u202eback", "[bold red]loud[/]", "x" * 100_000])
def test_no_trouble_of_a_row_moves_the_cursor_colours_the_screen_or_fills_it(trouble: str) -> None:
    text = text_of(seen(member(ME), lease("t/0", trouble=trouble)))
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text) < 5000
    assert "[bold red]loud[/]" in text or "loud" not in trouble


@pytest.mark.parametrize("members", [[], [member(ME, ago_ms=T_MS + 1)]])
def test_while_no_supervisor_lives_nobody_is_said_to_be_about_to_take_a_shard(members: list[Member]) -> None:
    told = troubles(seen(*members, lease("t/0", owner=None), lease("t/1", ago_ms=T_MS + 1)))
    assert [sentence.partition(":")[0] for sentence in told] == ["stale", "free"]
    assert all(sentence.endswith("; start one") for sentence in told)


def test_a_rejected_reload_is_told_with_its_reason() -> None:
    assert troubles(seen(member(ME, rejected="x.ini:3: no"), *FULL)) == ["a rejected its last reload: x.ini:3: no"]


def test_drift_and_poll_intervals_in_force_are_sentences() -> None:
    members = [member(f"{name}:1:x", digest=digest) for name, digest in zip("abc", "112", strict=True)]
    told = remarks(seen(*(replace(each, poll_ms=1000) for each in members)))
    assert told == ["c (2) runs another configuration than most", "the poll interval in force is 1s"]
    told = remarks(seen(replace(members[0], poll_ms=1000), replace(members[2], poll_ms=2500)))
    assert told == ["a (1), c (2) run different configurations", "the poll interval in force is 1s to 2500ms"]
    assert remarks(seen(member(ME))) == []


def test_a_flaw_of_a_row_is_told() -> None:
    assert remarks(seen(replace(lease("t/0"), flaws=("open is -1",)))) == ["the row t/0 has a flaw: open is -1"]


def test_sentences_of_one_kind_are_told_up_to_a_dozen() -> None:
    told = troubles(seen(bad={f"x/{number}": "why" for number in range(100)}))
    assert (len(told), told[-1]) == (13, "and 88 more like that")


@pytest.mark.parametrize(
    ("shards", "text"),
    [
        (["t/0", "t/1", "t/2", "t/5", "chat", "u/1", "u/eu"], "t/0-2,5, chat, u/1,eu"),
        ([], ""),
        ([f"a-stream-of-some-length/{name}" for name in "abcdefghijklmnopqrstuvwxyz"], None),
    ],
)
def test_names_are_folded_into_ranges_and_cut_where_they_are_long(shards: list[str], text: str | None) -> None:
    told = folded(shards)
    assert told == text if text is not None else (told.endswith("...") and len(told) < 70)


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


# --- the history of a shard -------------------------------------------------------------------------------


def told_of(*rows: Lease | Member, width: int = 200) -> list[str]:
    fleet = seen(*rows)
    stream = io.StringIO()
    story.show(fleet.shards[0], fleet, Console(file=stream, highlight=False, width=width))
    return stream.getvalue().splitlines()


def test_a_history_begins_with_where_the_shard_stands_and_goes_back_from_the_newest_change() -> None:
    history = ("5 gone 1799990000 moved", "6 x 1799999000 claimed", "7 x 1799999940 restart x12", "nonsense")
    lines = told_of(member(ME), lease("t/0", history=history))
    assert lines[0] == "t/0 is held by a:1:x under epoch 7, for 60s; 1 of 2 connections open, last event 150ms ago"
    assert lines[2].split() == ["EPOCH", "WHEN", "SINCE", "OWNER", "WHAT"]
    assert [line.split()[0] for line in lines[3:]] == ["-", "7", "6", "5"]
    assert lines[3].split()[-1] == "nonsense"
    assert (
        lines[4]
        .rstrip()
        .endswith("60s ago  a:1:x  started its child again after it had ended unasked, 12 times in a row")
    )
    assert "claimed it, it was free" in lines[5]
    assert "gone   gave it up, an operator wished it elsewhere" in lines[6]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (lease("t/0", owner=None), "t/0 is free"),
        (
            lease("t/0", ago_ms=20_000, policy="hold"),
            "t/0 is stale, owned by a:1:x under epoch 7, for 60s; 1 of 2 connections open, last event 20s ago; "
            "last renewed 20s ago; its owner may be holding its connections",
        ),
        (
            lease("t/0", open=0, quiet_ms=None),
            "t/0 is silent, owned by a:1:x under epoch 7, for 60s; 0 of 2 connections open",
        ),
    ],
)
def test_the_first_line_of_a_history_says_all_that_the_row_says(row: Lease, text: str) -> None:
    lines = told_of(member(ME, ("t/0",)), row)
    assert lines == [text, "it was never owned"]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("owner", ["host-a:123456:0123456789abcdef", LONG_ID])
def test_no_id_in_a_history_is_broken_in_two(width: int, owner: str) -> None:
    history = tuple(f"{1_796_002_626 + turn} {owner[-16:]} 1799999000 restart x12" for turn in range(3))
    lines = told_of(member(owner), lease("t/0", owner=owner, history=history), width=width)
    assert max(map(len, lines[1:])) <= width
    shown = [word for line in lines[3:] for word in line.split() if word in (owner, owner.partition(".")[0])]
    assert len(shown) == 3
    assert "WHEN" in lines[2] or width < 160
    assert lines[2:] == [line.rstrip() for line in lines[2:]]


def test_a_change_in_the_far_future_is_shown_at_its_time() -> None:
    assert "5138-11-1" in "\n".join(told_of(lease("t/0", history=("7 x 99999999999 claimed",))))
