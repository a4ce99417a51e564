"""Which children a new configuration makes outdated, and what it cannot change."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.configuration.config import load
from supervisor.configuration.settings import Settings
from supervisor.place import Place
from supervisor.rules import outdated, rules_of, with_what_stays

TEXT = """
[supervisor]
store = sqlite:///leases.db
[stream:a]
shards = 0-1
url = ws://feed/${index}
header.Authorization = Bearer one
[stream:b]
url = ws://feed/b
handler = json:JSONDecoder
"""
ALL = frozenset({"a/0", "a/1", "b"})


def settings(folder: Path, *pairs: tuple[str, str]) -> Settings:
    text = TEXT
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (folder / "t.ini").write_text(text)
    return load(str(folder / "t.ini"), {})


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("[supervisor]", "; a comment\n[supervisor]", set()),
        ("[supervisor]", "[supervisor]\npoll_interval = 2s\nlease_duration = 20s\ncapacity = 3", set()),
        ("[supervisor]", "[supervisor]\nfleet = other\nstate_dir = ./elsewhere\nhttp = 127.0.0.1:9", set()),
        ("[stream:b]", "[stream:b]\nping_interval = 3s", {"b"}),
        ("Bearer one", "Bearer two", {"a/0", "a/1"}),
        ("shards = 0-1", "shards = 1-2", set()),
        ("ws://feed/${index}", "ws://feed/${index}\n ws://feed/more", {"a/0", "a/1"}),
        ("[supervisor]", "[supervisor]\noutage_policy = hold", ALL),
        ("[stream:b]", "[stream:b]\nenvironment = REGION", {"b"}),
        ("[supervisor]", "[supervisor]\npython_path = .", {"b"}),
    ],
)  # fmt: skip
def test_a_child_is_outdated_exactly_if_it_was_told_something_else(
    tmp_path: Path, old: str, new: str, found: set[str]
) -> None:
    assert outdated(settings(tmp_path), settings(tmp_path, (old, new))) == found


def test_what_only_a_restart_can_change_stays(tmp_path: Path) -> None:
    before = settings(tmp_path)
    changed = settings(tmp_path, ("[supervisor]", "[supervisor]\nfleet = other\nrun_dir = ./r\nhttp = 127.0.0.1:9"))
    assert with_what_stays(before, changed) == before
    assert with_what_stays(before, before) == before


def test_the_rest_changes(tmp_path: Path) -> None:
    before = settings(tmp_path)
    changed = settings(tmp_path, ("[supervisor]", "[supervisor]\nfleet = other\ncapacity = 3"))
    kept = with_what_stays(before, changed)
    assert (kept.fleet, kept.capacity) == (before.fleet, 3)


def test_the_rules_say_where_they_are_in_force(tmp_path: Path) -> None:
    rules = rules_of(settings(tmp_path), Place("h", "task", "zone"), "1.2")
    assert (rules.host, rules.task, rules.zone, rules.version) == ("h", "task", "zone", "1.2")
    assert set(rules.shards) == ALL
    assert (rules.duration_ns, rules.poll_every_ns) == (10 * 10**9, 10**9)
