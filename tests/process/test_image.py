"""What the Dockerfile builds, started as a container would start it."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests import dockerfile
from tests.process.host import wait_streaming
from tests.process.image import UID, Container, Volumes, build
from tests.wait import until

DOCKER_STOP_S = 10.0
STREAMS = """
[stream:s]
shards = 0-2
url = {url}
sink = jsonl:/var/lib/tenured/events.jsonl
"""
SHARDS = [f"s/{index}" for index in range(3)]
COMMAND = ["tenured", "run", "-c", "env:TENURED_CONFIG"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path_factory.mktemp("feed") / "feed.jsonl", rate=20) as running:
        yield running


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    return Volumes(tmp_path / "volumes")


def by_environment(feed: FeedProcess) -> dict[str, str]:
    """No file at all: the streams in one variable, the rest in one each."""
    return {
        "TENURED_CONFIG": STREAMS.format(url=feed.url("a")),
        "TENURED_STORE": "sqlite:////var/lib/tenured/leases.db",
        "TENURED_LEASE_DURATION": "3s",
    }


def test_it_streams_without_root_on_a_read_only_file_system_configured_by_the_environment_alone(
    image: Path, feed: FeedProcess, volumes: Volumes
) -> None:
    with Container(image, volumes, COMMAND, by_environment(feed)) as container:
        wait_streaming(feed, SHARDS, timeout_s=30)
        until(lambda: (volumes.state / "events.jsonl").exists(), 10)
        (started,) = container.log("supervisor.started")
        assert started["pid"] == 1
        seen = container.execute("sh", "-c", "grep -hE '^(Uid|Cap(Inh|Prm|Eff|Amb))' /proc/[0-9]*/status").stdout
        assert len(re.findall("^Uid", seen, re.M)) >= 2 + len(SHARDS)
        assert set(re.findall(r"^Uid:\s+(.*)$", seen, re.M)) == {"\t".join([str(UID)] * 4)}
        assert set(re.findall(r"^Cap\w+:\s+(.*)$", seen, re.M)) == {"0" * 16}
        written = container.execute("sh", "-c", "for folder in /opt /tmp /etc; do echo x >$folder/.written; done")
        assert written.stderr.count("Read-only file system") == 3

        healthy = container.execute(*dockerfile.health_check())
        assert (healthy.returncode, healthy.stderr) == (0, "")
        ready = until(lambda: _answer(container, "tenured", "health", "--ready"), 20, 0.2)
        assert ready.endswith("is ready\n")

        assert container.stop(DOCKER_STOP_S) == 0
    assert len(container.log("lease.released")) == len(SHARDS)
    assert container.log("config.warning") == []
    for path in [*volumes.state.iterdir(), *volumes.run.iterdir()]:
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600, path


def _answer(container: Container, *command: str) -> str:
    done = container.execute(*command)
    return "" if done.returncode else done.stdout


def test_a_container_that_was_killed_and_started_again_with_its_volumes_waits_for_no_lease(
    image: Path, feed: FeedProcess, volumes: Volumes
) -> None:
    with Container(image, volumes, COMMAND, by_environment(feed)) as killed:
        wait_streaming(feed, SHARDS, timeout_s=30)
        killed.process.kill()
    until(lambda: not feed.connected(), 10)
    with Container(image, volumes, COMMAND, by_environment(feed)) as container:
        wait_streaming(feed, SHARDS, timeout_s=30)
        claimed = container.log("lease.claimed")  # the log goes on in the same file
        assert [line["reason"] for line in claimed[-len(SHARDS) :]] == ["reclaimed"] * len(SHARDS)
        assert container.stop(DOCKER_STOP_S) == 0


def test_the_health_check_needs_no_file_and_says_no_where_nobody_runs(image: Path, volumes: Volumes) -> None:
    with Container(image, volumes, ["sleep", "99"], {}) as container:
        done = container.execute(*dockerfile.health_check())
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "tenured: no supervisor is running at /run/tenured/control.sock\n"


def test_without_a_file_it_says_so_and_ends(image: Path, volumes: Volumes) -> None:
    command = dockerfile.only(dockerfile.stages()[-1], "CMD").words
    with Container(image, volumes, ["tenured", *command], {}) as container:
        until(lambda: container.ended is not None, 20)
        assert container.ended == 78


def test_the_wheel_holds_every_file_of_the_packages(image: Path) -> None:
    (site,) = (image / "tenured" / "lib").glob("python3*/site-packages")
    for package in ("supervisor", "workers"):
        ours = (path for path in (dockerfile.ROOT / package).rglob("*") if path.is_file())
        names = [path.relative_to(dockerfile.ROOT) for path in ours if path.suffix != ".pyc"]
        assert len(names) > 10
        assert [str(name) for name in names if not (site / name).is_file()] == []
    assert (site / "tenured.py").is_file()
