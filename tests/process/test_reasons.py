"""What is wrong with a stream is told by `tenured status`: from a real child, through a real supervisor."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor import exits
from tests.feed import Feed, Peer
from tests.process.host import Host, tenured
from tests.wait import until

SECRET = "hunter2-that-nobody-may-see"
PATIENCE_S = 20


@pytest.fixture
def store(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path / 'leases.db'}"
    assert tenured("init", "--store", made).returncode == exits.OK
    return made


def seen(store: str, shard: str = "s/0") -> dict[str, Any]:
    """A shard as programs see it; empty until it is there."""
    whole = json.loads(tenured("status", "--json", "--store", store).stdout)
    return next((each for each in whole["shards"] if each["shard"] == shard), {})


def awaited(store: str, **expected: Any) -> dict[str, Any]:
    """The shard, once it is seen to have these values."""

    def look() -> dict[str, Any] | None:
        shard = seen(store)
        return shard if expected.items() <= shard.items() else None

    return until(look, PATIENCE_S)


class Gate:
    """A server that refuses its clients for good until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def behave(self, peer: Peer) -> None:
        if not self.opened.is_set():
            peer.refuse(401)
            return
        peer.accept()
        peer.serve()


def test_a_permanent_refusal_is_seen_with_its_reason_until_it_is_over(tmp_path: Path, store: str) -> None:
    gate = Gate()
    with Feed(gate.behave) as feed:
        url = f"{feed.url}/{SECRET}?token={SECRET}"
        slow = ("reconnect_max = 1s", f"header.Authorization = Bearer {SECRET}")
        with Host(tmp_path / "a", store, url, shards=1, stream=slow):
            shard = awaited(store, state="silent")
            assert shard["trouble"].startswith("connection 0: ")
            assert "401" in shard["trouble"]
            assert "permanent" in shard["trouble"]
            people = tenured("status", "--store", store)
            (line,) = [each for each in people.stdout.splitlines() if each.startswith("s/0")]
            assert line.endswith(shard["trouble"])
            assert people.returncode == exits.NO
            story = tenured("history", "s/0", "--store", store).stdout
            assert story.splitlines()[0].endswith(shard["trouble"])
            assert SECRET not in f"{shard}{people.stdout}{story}"
            gate.opened.set()
            assert awaited(store, state="held", open=1, trouble=None)["epoch"] == shard["epoch"]


def test_a_trouble_ends_with_the_child_that_had_it(tmp_path: Path, store: str) -> None:
    with Feed(Gate().behave) as feed, Host(tmp_path / "a", store, feed.url, shards=1) as host:
        until(lambda: seen(store).get("trouble"), PATIENCE_S)
        assert host.stop() == exits.OK
        shard = seen(store)
        assert (shard["owner"], shard["trouble"]) == (None, None)


def test_the_age_of_the_last_event_grows_while_only_pongs_come(tmp_path: Path, store: str) -> None:
    peers: list[Peer] = []

    def behave(peer: Peer) -> None:
        peers.append(peer)
        peer.accept()
        peer.text("the only one")
        peer.serve()

    often = ("ping_interval = 200ms",)
    with Feed(behave) as feed, Host(tmp_path / "a", store, feed.url, shards=1, stream=often):
        first = until(lambda: seen(store).get("quiet_ms"), PATIENCE_S)
        until(lambda: (seen(store)["quiet_ms"] or 0) >= first + 3000, PATIENCE_S)
        shard = seen(store)
        assert (shard["state"], shard["open"]) == ("held", 1)
        assert len(peers) == 1
        assert peers[0].pings >= 5


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    """It takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield listener


def test_a_sink_that_does_not_answer_is_seen_while_its_shard_stays_held(
    tmp_path: Path, store: str, collector: socket.socket
) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text("an event")
        peer.serve()

    port = collector.getsockname()[1]
    sink = (f"sink = http://127.0.0.1:{port}/{SECRET}", "sink_timeout = 1s")
    with Feed(behave) as feed, Host(tmp_path / "a", store, feed.url, shards=1, stream=sink):
        trouble = until(lambda: seen(store).get("trouble"), PATIENCE_S)
        assert trouble.startswith("sink: ")
        assert f"127.0.0.1:{port}" in trouble
        assert SECRET not in trouble
        assert awaited(store, state="held")["open"] == 1
