"""The part of a fleet that somebody asked for."""

from __future__ import annotations

import pytest

from supervisor.showing.selection import NoMatch, select
from supervisor.showing.status import FleetView
from tests.test_status import ME, T_MS, lease, member, seen

OTHER = "node-b.example:2:y"


def fleet() -> FleetView:
    rows = [lease("t/0"), lease("t/1", owner=OTHER), lease("t/10", owner=OTHER, ago_ms=T_MS + 1), lease("chat")]
    bad = {"t/7": "why", f"@{OTHER}x": "why"}
    return seen(member(ME, ("t/0-1", "t/10", "chat")), member(OTHER, ()), *rows, bad=bad)


def shown(part: FleetView) -> tuple[list[str], list[str], list[str]]:
    return [shard.shard for shard in part.shards], [each.id for each in part.supervisors], list(part.bad)


@pytest.mark.parametrize(
    ("patterns", "owners", "expected"),
    [
        ([], [], (["chat", "t/0", "t/1", "t/10"], [ME, OTHER], ["t/7", f"@{OTHER}x"])),
        (["t/0"], [], (["t/0"], [ME], [])),
        (["t/?", "chat"], [], (["chat", "t/0", "t/1"], [ME, OTHER], ["t/7"])),
        (["t/7"], [], ([], [], ["t/7"])),
        ([], ["node-b"], (["t/1", "t/10"], [OTHER], [f"@{OTHER}x"])),
        ([], [ME, ":2:"], (["chat", "t/0", "t/1", "t/10"], [ME, OTHER], [f"@{OTHER}x"])),
        (["t/*"], [ME], (["t/0"], [ME], [])),
        (["chat"], ["node-b"], ([], [OTHER], [f"@{OTHER}x"])),
    ],
)
def test_what_is_left_matches_a_pattern_and_an_owner(
    patterns: list[str], owners: list[str], expected: tuple[list[str], list[str], list[str]]
) -> None:
    assert shown(select(fleet(), patterns, owners)) == expected


def test_what_is_left_is_degraded_by_itself_alone() -> None:
    assert fleet().degraded
    assert not select(fleet(), ["t/0"], []).degraded
    assert select(fleet(), ["t/10"], []).degraded
    assert select(fleet(), ["t/7"], []).degraded
    assert select(fleet(), ["t/1*"], []).counts == {"stale": 1, "held": 1}


def test_an_owner_whose_member_row_is_gone_is_found_by_its_shards() -> None:
    assert shown(select(seen(lease("t/0", owner="gone:1:z")), [], ["gone"]))[0] == ["t/0"]


@pytest.mark.parametrize(
    ("patterns", "owners", "sentences"),
    [
        (["t/11"], [], ["--shard t/11: there is no shard t/11; did you mean t/1 or t/10?"]),
        (["zzz*"], [], ["--shard zzz*: there is no shard zzz*; `tenured status` lists them"]),
        (
            ["t/0", "zzz"],
            ["nobody"],
            [
                "--shard zzz: there is no shard zzz; `tenured status` lists them",
                "--owner nobody: no supervisor, and no owner of a shard, has that in its id or host; "
                "hosts: a, node-b.example",
            ],
        ),
    ],
)
def test_what_matches_nothing_is_told_each_with_what_is_there(
    patterns: list[str], owners: list[str], sentences: list[str]
) -> None:
    with pytest.raises(NoMatch) as error:
        select(fleet(), patterns, owners)
    assert list(error.value.sentences) == sentences
