"""What a supervisor leaves where others of the host could reach it: files for its own user alone, and no open port."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, wait_streaming
from tests.wait import until

UMASKS = ("000", "022", "077")


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl", rate=20) as running:
        yield running


def under(umask: str) -> tuple[str, ...]:
    return ("sh", "-c", f'umask {umask}; exec "$@"', "sh")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", UMASKS)
def test_every_file_and_folder_that_is_made_is_its_users_alone_whatever_the_umask(
    umask: str, tmp_path: Path, feed: FeedProcess
) -> None:
    folder, place = tmp_path / "a", tmp_path / "place"
    place.mkdir()
    sink = f"sink = jsonl:{place}/events.jsonl"
    store = f"sqlite:///{place}/leases.db"
    with Host(folder, store, feed.url("a"), shards=2, stream=[sink], within=under(umask)) as host:
        wait_streaming(feed, host.shards)
        until(lambda: (place / "events.jsonl").exists(), 10)
        roots = (folder / "state", folder / "run", *place.iterdir())
        made = [path for root in roots for path in (root, *(root.rglob("*") if root.is_dir() else ()))]
        names = {path.name for path in made}
        assert {"state", "lock", "incarnations", "run", "control.sock", "control.lock"} <= names
        assert {"leases.db", "events.jsonl"} <= names
        wrong = {path.name: oct(mode(path)) for path in made if mode(path) != (0o700 if path.is_dir() else 0o600)}
        assert wrong == {}
        assert host.stop() == 0


def test_folders_above_that_were_missing_are_its_users_alone_too(tmp_path: Path) -> None:
    folders = [f"TENURED_{name}_DIR={tmp_path}/var/lib/{name.lower()}" for name in ("STATE", "RUN")]
    within = (*under("000"), "env", *folders)
    with Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", "ws://127.0.0.1:9/", within=within) as host:
        until(lambda: host.log("supervisor.ready"), 15, 0.02)
        made = (tmp_path / "var", tmp_path / "var" / "lib", tmp_path / "var" / "lib" / "run")
        assert [mode(path) for path in made] == [0o700] * 3
        assert host.stop() == 0


def test_a_file_that_is_there_keeps_the_mode_that_somebody_gave_it(tmp_path: Path, feed: FeedProcess) -> None:
    """For example so that a shipper of another user may read the events."""
    events = tmp_path / "events.jsonl"
    events.touch()
    events.chmod(0o640)
    sink = f"sink = jsonl:{events}"
    with Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", feed.url("a"), shards=1, stream=[sink]) as host:
        wait_streaming(feed, host.shards)
        until(lambda: events.stat().st_size, 10)
        assert mode(events) == 0o640
        assert host.stop() == 0


def listening(host: Host) -> list[tuple[str, int]]:
    """Where any process of this supervisor can be reached from a network."""
    found = []
    for process in (psutil.Process(host.pid), *host.tree()):
        for each in process.net_connections("inet"):
            if each.status == psutil.CONN_LISTEN or each.type == socket.SOCK_DGRAM:
                found.append((each.laddr.ip, each.laddr.port))
    return found


def test_nothing_listens_by_default_but_the_control_socket(tmp_path: Path, feed: FeedProcess) -> None:
    with Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", feed.url("a"), shards=2) as host:
        wait_streaming(feed, host.shards)
        assert listening(host) == []
        named = [
            each.laddr
            for process in (psutil.Process(host.pid), *host.tree())
            for each in process.net_connections("unix")
            if each.laddr
        ]
        # The kernel keeps the name under which it was made; `control` says why it is then renamed.
        assert named == [str(host.folder / "run" / "control.sock.new")]
        assert host.stop() == 0


def test_http_listens_at_its_address_alone(tmp_path: Path, feed: FeedProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    http = f"http = 127.0.0.1:{port}"
    with Host(tmp_path / "a", f"sqlite:///{tmp_path}/leases.db", feed.url("a"), shards=2, supervisor=[http]) as host:
        wait_streaming(feed, host.shards)
        assert listening(host) == [("127.0.0.1", port)]
        assert host.stop() == 0
