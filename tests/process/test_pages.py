"""HTTP of a real supervisor: what it answers while all is well and when the store is away, and how it ends."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, tenured, wait_streaming
from tests.wait import until

SHARDS = 3
PATHS = ("/", "/healthz", "/readyz", "/metrics", "/api/leases")


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def headers(port: int, path: str) -> Mapping[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return dict(answer.headers)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def host(tmp_path: Path, port: int) -> Iterator[Host]:
    """One that streams."""
    with FeedProcess(tmp_path / "feed.jsonl", rate=5) as feed:
        supervisor = [f"http = 127.0.0.1:{port}", "http_hosts = status.example"]
        store = f"sqlite:///{tmp_path}/leases.db"
        with Host(tmp_path / "a", store, feed.url("a"), shards=SHARDS, supervisor=supervisor) as one:
            wait_streaming(feed, one.shards, timeout_s=60)
            yield one


def test_a_supervisor_answers_all_routes_and_tells_what_status_tells(host: Host, port: int) -> None:
    until(lambda: get(port, "/readyz")[0] == 200, 20)
    assert {path: get(port, path)[0] for path in PATHS} == dict.fromkeys(PATHS, 200)
    told = json.loads(get(port, "/api/leases")[1])
    asked = json.loads(tenured("status", "-c", str(host.config), "--json").stdout)
    assert told.keys() == asked.keys()
    assert [each.keys() for each in told["shards"]] == [each.keys() for each in asked["shards"]]
    assert [(each["shard"], each["owner"], each["epoch"]) for each in told["shards"]] == [
        (each["shard"], each["owner"], each["epoch"]) for each in asked["shards"]
    ]
    assert told["counts"] == {"held": SHARDS}


def test_an_outage_of_the_store_fails_readiness_and_not_health_and_the_last_leases_stay(
    host: Host, port: int, tmp_path: Path
) -> None:
    until(lambda: get(port, "/readyz")[0] == 200, 20)
    assert get(port, "/api/leases")[0] == 200
    with sqlite3.connect(tmp_path / "leases.db", isolation_level=None, timeout=20) as rival:
        rival.execute("BEGIN EXCLUSIVE")
        until(lambda: "the store cannot be reached" in get(port, "/readyz")[1], 30, 0.1)
        assert get(port, "/readyz")[0] == 503
        assert get(port, "/healthz")[0] == 200
        until(lambda: "Tenured-Error" in headers(port, "/api/leases"), 30, 0.1)
        assert len(json.loads(get(port, "/api/leases")[1])["shards"]) == SHARDS
        rival.execute("ROLLBACK")
    until(lambda: get(port, "/readyz")[0] == 200, 30, 0.1)
    until(lambda: "Tenured-Error" not in headers(port, "/api/leases"), 30, 0.1)


def test_clients_that_hang_on_delay_no_stop(host: Host, port: int) -> None:
    with ExitStack() as stack:
        for index in range(40):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            connection.sendall(b"GET /api/leases HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n" * (index % 2))
        began_s = time.monotonic()
        assert host.stop() == 0
        assert time.monotonic() - began_s < 8
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_no_child_and_no_fork_server_keeps_the_listening_socket(host: Host, port: int) -> None:
    """Else nobody could listen there again while one of them is left."""
    ours = f"socket:[{listening()[port]}]"
    assert ours in sockets(host.pid)
    assert len(host.tree()) > SHARDS
    assert [process.pid for process in host.tree() if ours in sockets(process.pid)] == []


def listening() -> dict[int, str]:
    """Of each port on which anybody listens, the inode of the socket."""
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {int(line[1].rpartition(":")[2], 16): line[9] for line in lines if line[3] == "0A"}


def sockets(pid: int) -> set[str]:
    """What the descriptors of a process lead to."""
    folder = Path(f"/proc/{pid}/fd")
    return {os.readlink(folder / fd) for fd in os.listdir(folder)}


def test_an_address_in_use_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        store = f"sqlite:///{tmp_path}/leases.db"
        host = Host(tmp_path / "a", store, "ws://127.0.0.1:1/", supervisor=[f"http = 127.0.0.1:{port}"])
        done = tenured("run", "-c", str(host.config))
    assert done.returncode == 73
    assert f"tenured: http = 127.0.0.1:{port} cannot be listened on: address already in use" in done.stderr


def test_nothing_listens_unless_it_is_configured(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    with FeedProcess(tmp_path / "feed.jsonl", rate=5) as feed, Host(tmp_path / "a", store, feed.url("a")) as host:
        wait_streaming(feed, host.shards, timeout_s=60)
        assert {f"socket:[{inode}]" for inode in listening().values()} & sockets(host.pid) == set()
