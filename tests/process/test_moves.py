"""Shards that move between live supervisors, because the loads differ or an operator wants it, or that are paused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from supervisor.demo.record import Connection
from tests.process.hand import SqliteHand
from tests.process.host import Host, overlaps, wait_streaming
from tests.wait import until


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl") as feed:
        yield feed


@pytest.fixture
def hand(tmp_path: Path) -> SqliteHand:
    return SqliteHand(tmp_path / "leases.db")


def host_in(tmp_path: Path, name: str, feed: FeedProcess, shards: int) -> Host:
    return Host(tmp_path / name, f"sqlite:///{tmp_path}/leases.db", feed.url(name), shards=shards)


def shared(feed: FeedProcess, *counts: int) -> bool:
    """Whether a, b, ... have so many connections open, and every connection is one of these."""
    return Counter(each.supervisor for each in feed.connected()) == dict(zip("ab", counts, strict=False))


def holder(feed: FeedProcess, shard: str) -> str:
    return "".join(each.supervisor for each in feed.connected(shard))


def moved(connections: tuple[Connection, ...]) -> Counter[str]:
    """How often each shard came to another supervisor than before."""
    last: dict[str, str] = {}
    moves: Counter[str] = Counter()
    for each in connections:
        moves[each.shard] += last.get(each.shard, each.supervisor) != each.supervisor
        last[each.shard] = each.supervisor
    return moves


def pass_renewals(hand: SqliteHand, count: int) -> None:
    """Every member has renewed its row so often, and so has looked at least as often."""
    beats = lambda: {key: row["beat"] for key, row in hand.rows().items() if key.startswith("@")}  # noqa: E731
    before = beats()
    until(lambda: all(beat >= before[key] + count for key, beat in beats().items()), 15, 0.05)


def test_shards_move_to_a_member_that_comes_later_once_each_and_stay_where_an_operator_puts_them(
    tmp_path: Path, feed: FeedProcess, hand: SqliteHand
) -> None:
    a, b = (host_in(tmp_path, name, feed, shards=6) for name in "ab")
    with a:
        wait_streaming(feed, a.shards, "a")
        with b:
            until(lambda: shared(feed, 3, 3), 20, 0.02)
            pass_renewals(hand, 2)
            moves = moved(feed.connections())
            assert (sum(moves.values()), max(moves.values())) == (3, 1), moves
            assert {each.code for each in feed.connections() if each.closed_ns} == {1001}

            id_of_b = b.log("supervisor.started")[0]["supervisor"]
            chosen = next(each.shard for each in feed.connected() if each.supervisor == "a")
            hand.alter(chosen, "move", id_of_b)
            until(lambda: holder(feed, chosen) == "b", 10, 0.02)
            # Two more than the other: one that no operator put there goes back, and then nothing moves any more.
            until(lambda: shared(feed, 3, 3), 15, 0.02)
            pass_renewals(hand, 2)
            assert shared(feed, 3, 3)
            assert holder(feed, chosen) == "b"
            moves = moved(feed.connections())
            assert sum(moves.values()) == 5, moves
            assert moves[chosen] == 1
            rows = hand.rows()
            assert rows[chosen]["owner"] == id_of_b
            assert not any(rows[shard]["move"] for shard in a.shards)
            reasons = Counter(line["reason"] for line in a.log("lease.released") + b.log("lease.released"))
            assert reasons == {"balanced": 4, "moved": 1}
            assert b.stop() == 0
        assert a.stop() == 0
    assert not overlaps(feed)


def test_a_paused_shard_is_stopped_and_released_and_runs_again_when_it_is_resumed(
    tmp_path: Path, feed: FeedProcess, hand: SqliteHand
) -> None:
    with host_in(tmp_path, "a", feed, shards=2) as host:
        wait_streaming(feed, host.shards)
        hand.alter("s/0", "paused", 1)
        until(lambda: hand.rows()["s/0"]["owner"] is None, 10, 0.02)
        pass_renewals(hand, 2)
        assert [each.code for each in feed.connections("s/0")] == [1001]
        assert holder(feed, "s/1") == "a"
        assert [line["reason"] for line in host.log("lease.released")] == ["paused"]
        hand.alter("s/0", "paused", 0)
        wait_streaming(feed, host.shards)
        first, second = (each.epoch for each in feed.connections("s/0"))
        assert second > first
        assert host.stop() == 0
    assert not overlaps(feed)
