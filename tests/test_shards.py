"""All shards of a supervisor: what is idle and what is busy, and that reading them is reading one mapping."""

from __future__ import annotations

import pytest

from supervisor.core.phases import Dying, Idle, Shard
from supervisor.core.shards import Shards
from tests.core import ns

NAMES = ("s/0", "s/1", "s/2")


def idle(name: str) -> Shard:
    return Shard(name, None)


def busy(name: str) -> Shard:
    return Shard(name, None, Dying(1, ns(0), "lost"))


SHARDS = Shards().having([idle("s/0"), busy("s/1"), idle("s/2")])


def test_each_is_idle_or_busy_never_both_whatever_becomes_of_it() -> None:
    known = SHARDS
    for change in ([busy("s/0")], [idle("s/0"), idle("s/1")], [busy(name) for name in NAMES], [idle("s/2")]):
        known = known.having(change)
        assert not known.idle.keys() & known.busy.keys()
        assert {*known.idle, *known.busy} == set(NAMES)
        assert all(isinstance(shard.phase, Idle) for shard in known.idle.values())
        assert not any(isinstance(shard.phase, Idle) for shard in known.busy.values())


def test_it_reads_like_a_mapping() -> None:
    assert (
        set(SHARDS) == set(NAMES) == {shard.name for shard in SHARDS.values()} == {name for name, _ in SHARDS.items()}
    )
    assert len(SHARDS) == 3
    assert SHARDS["s/1"] == SHARDS.get("s/1") == busy("s/1")
    assert "s/2" in SHARDS
    assert SHARDS.get("s/9") is None
    with pytest.raises(KeyError):
        SHARDS["s/9"]


def test_a_change_of_busy_ones_copies_no_idle_one() -> None:
    after = SHARDS.having([Shard("s/1", None, Dying(2, ns(1), "lost"))])
    assert after.idle is SHARDS.idle
    assert SHARDS["s/1"] == busy("s/1"), "the old state is as it was"
