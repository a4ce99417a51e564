"""The local feed, as a process: what it sends, what it records, and when it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import ClientConnection, connect

from supervisor.demo.feed_process import FeedFailed, FeedProcess
from tests.wait import until


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl", rate=100) as process:
        yield process


def client(feed: FeedProcess, path: str) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{feed.port}{path}", compression=None).__enter__()


def numbers(socket: ClientConnection, count: int) -> list[int]:
    return [json.loads(socket.recv(timeout=5))["seq"] for _ in range(count)]


def test_the_numbers_of_a_shard_go_on_while_nobody_is_connected(feed: FeedProcess) -> None:
    with client(feed, "/demo/0?epoch=1&supervisor=one") as socket:
        last = numbers(socket, 3)[-1]
    with client(feed, "/other") as socket:  # time passes at the pace of the feed
        numbers(socket, 10)
    with client(feed, "/demo/0?epoch=2&supervisor=two") as socket:
        first, second = numbers(socket, 2)
    assert first > last + 5
    assert second == first + 1


@pytest.mark.parametrize("ask", ["address", "message"])
def test_a_client_that_asks_for_what_it_missed_is_sent_it_without_a_hole(feed: FeedProcess, ask: str) -> None:
    with client(feed, "/demo/0") as socket:
        numbers(socket, 10)
    with client(feed, "/demo/0?from=2" if ask == "address" else "/demo/0") as socket:
        if ask == "message":
            socket.send('{"op": "subscribe", "from": 2}')
            until(lambda: json.loads(socket.recv(timeout=5))["seq"] == 2, 5)
        else:
            assert numbers(socket, 1) == [2]
        assert numbers(socket, 20) == list(range(3, 23))


def test_the_record_names_shard_epoch_supervisor_and_what_was_sent(feed: FeedProcess) -> None:
    with client(feed, "/demo/0?epoch=7&supervisor=one&connection=2&from=1") as socket:
        numbers(socket, 5)
        socket.send("hello")
        (seen,) = until(lambda: [each for each in feed.connected("demo/0") if each.received], 5)
    assert (seen.shard, seen.epoch, seen.supervisor, seen.connection) == ("demo/0", 7, "one", 2)
    assert seen.received == ("hello",)
    until(lambda: not feed.connected(), 5)
    (ended,) = feed.connections()
    assert ended.closed_ns is not None
    assert ended.closed_ns > ended.opened_ns
    ((first, last),) = ended.sent
    assert first == 1
    assert last >= 5


def test_the_record_tells_a_close_frame_from_a_cut(feed: FeedProcess) -> None:
    client(feed, "/polite").close(1001)
    client(feed, "/cut").socket.close()
    until(lambda: len(feed.connections()) == 2 and not feed.connected(), 5)
    assert {each.shard: each.code for each in feed.connections()} == {"polite": 1001, "cut": 1006}


def test_a_stopped_feed_has_a_complete_record(feed: FeedProcess) -> None:
    socket = client(feed, "/demo/0")
    numbers(socket, 2)
    feed.stop()
    (ended,) = feed.connections()
    assert ended.closed_ns is not None
    assert ended.code == 1006  # it was the feed that began to close
    assert ended.sent


def test_a_port_in_use_is_one_sentence(feed: FeedProcess, tmp_path: Path) -> None:
    with pytest.raises(FeedFailed, match=rf"cannot serve 127\.0\.0\.1:{feed.port}.*Address already in use"):
        FeedProcess(tmp_path / "second.jsonl", port=feed.port).start()


def test_a_feed_ends_with_its_starter(tmp_path: Path) -> None:
    arguments = [sys.executable, "-P", "-m", "supervisor.demo.feed", "--record", str(tmp_path / "feed.jsonl")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert "port" in json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(timeout=10) == 0


def test_a_missing_library_is_named_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    (tmp_path / "websockets.py").write_text("raise ImportError('not here')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from supervisor.demo.feed import main; sys.exit(main())"
    arguments = [sys.executable, "-P", "-c", code, "--record", str(tmp_path / "feed.jsonl")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr.strip()) == (
        69,
        "the demo's feed needs the library websockets: pip install 'tenured[demo]'",
    )
