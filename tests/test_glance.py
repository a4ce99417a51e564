"""What other threads get to hear from a loop, turning or not."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from supervisor.records import Snapshot
from supervisor.serving import glance
from supervisor.serving.glance import Glance
from supervisor.stores.interface import Unavailable
from tests.core import lease, member, snapshot


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def made(loop: asyncio.AbstractEventLoop, look: Callable[[float], Any]) -> Glance:
    return Glance(loop, lambda: {"ready": True, "thread": threading.get_ident()}, look, lambda: b"metrics", "default")


async def two_rows(_timeout_s: float) -> Snapshot:
    return snapshot(lease(), member())


async def failing(_timeout_s: float) -> Snapshot:
    raise Unavailable("throttled")


def test_health_is_asked_on_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    answer = made(loop, two_rows).health()
    assert answer["ready"]
    assert answer["thread"] != threading.get_ident()


def test_the_fleet_is_the_json_of_status(loop: asyncio.AbstractEventLoop) -> None:
    content, age_s = made(loop, two_rows).fleet()
    assert [shard["shard"] for shard in json.loads(content)["shards"]] == ["s/0"]
    assert 0 <= age_s < 5


def test_a_store_that_fails_is_told(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(Unavailable, match="throttled"):
        made(loop, failing).fleet()


def test_a_loop_that_stands_still_is_told_in_time(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glance, "ANSWER_MAX_S", 0.1)
    go_on = threading.Event()
    loop.call_soon_threadsafe(go_on.wait)
    try:
        with pytest.raises(TimeoutError, match="does not turn"):
            made(loop, two_rows).health()
    finally:
        go_on.set()
    monkeypatch.undo()
    assert made(loop, two_rows).health()["ready"]


def test_a_loop_that_is_gone_is_told(loop: asyncio.AbstractEventLoop) -> None:
    gone = asyncio.new_event_loop()
    gone.close()
    with pytest.raises(TimeoutError, match="is stopping"):
        made(gone, two_rows).health()
    with pytest.raises(Unavailable, match="is stopping"):
        made(gone, two_rows).fleet()
