from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.lock import Held, attempt, holders, take
from tests.wait import until


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the lock only as its inherited file 0, after the one that took it let go."""
    lock = attempt(tmp_path / "state")
    assert lock is not None
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], stdin=lock.fd)
    lock.close()
    yield process
    process.kill()
    process.wait()


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    lock = asyncio.run(take(tmp_path / "a" / "state", 0))
    assert os.stat(tmp_path / "a" / "state").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "a" / "state" / "lock").st_mode & 0o777 == 0o600
    assert (lock.device, lock.inode) == (os.fstat(lock.fd).st_dev, os.fstat(lock.fd).st_ino)
    assert not os.get_inheritable(lock.fd)
    lock.close()


def test_there_is_one_holder_at_a_time(tmp_path: Path) -> None:
    first = attempt(tmp_path)
    assert first is not None
    assert attempt(tmp_path) is None
    first.close()
    second = attempt(tmp_path)
    assert second is not None
    second.close()


def test_an_inherited_lock_is_held_until_its_last_holder_is_gone(
    tmp_path: Path, keeper: subprocess.Popen[bytes]
) -> None:
    assert attempt(tmp_path / "state") is None
    assert holders(tmp_path / "state" / "lock") == [keeper.pid]
    keeper.kill()
    lock = until(lambda: attempt(tmp_path / "state"), 5)
    lock.close()


def test_the_error_names_the_folder_and_the_holders(tmp_path: Path, keeper: subprocess.Popen[bytes]) -> None:
    with pytest.raises(Held, match=rf"^state_dir {tmp_path}/state is in use, .*process {keeper.pid} \(python"):
        asyncio.run(take(tmp_path / "state", 0.1))


def test_the_error_names_three_holders_and_counts_the_others(tmp_path: Path) -> None:
    lock = attempt(tmp_path)
    assert lock is not None
    heirs = [subprocess.Popen(["sleep", "99"], stdin=lock.fd) for _ in range(5)]
    try:
        with pytest.raises(Held, match=r"process (\d+ \([^)]+\), ){2}\d+ \([^)]+\) and 3 more; stop"):
            asyncio.run(take(tmp_path, 0))
    finally:
        for heir in heirs:
            heir.kill()
            heir.wait()
        lock.close()


def test_a_lock_that_is_let_go_in_time_is_taken(tmp_path: Path) -> None:
    held = attempt(tmp_path)
    assert held is not None

    async def wait() -> int:
        asyncio.get_running_loop().call_later(0.1, held.close)
        lock = await take(tmp_path, 5)
        return lock.fd

    os.close(asyncio.run(wait()))


def test_who_only_opened_the_file_is_no_holder(tmp_path: Path) -> None:
    lock = attempt(tmp_path)
    assert lock is not None
    lock.close()
    with open(tmp_path / "lock"):
        assert holders(tmp_path / "lock") == []
    assert holders(tmp_path / "nothing") == []


def test_a_lock_whose_file_was_replaced_is_another_one(tmp_path: Path) -> None:
    first = attempt(tmp_path)
    assert first is not None
    os.unlink(tmp_path / "lock")
    second = attempt(tmp_path)
    assert second is not None
    assert (second.device, second.inode) != (first.device, first.inode)
    first.close()
    second.close()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=rf"state_dir {tmp_path} cannot be used: (?i:too many levels) of symbolic links"):
        asyncio.run(take(tmp_path, 0))
    assert not (tmp_path / "victim").exists()


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=rf"state_dir {tmp_path}/file cannot be used: .*; it must be a folder"):
        asyncio.run(take(tmp_path / "file", 0))


def test_waiting_leaves_no_file_open(tmp_path: Path) -> None:
    lock = attempt(tmp_path)
    assert lock is not None
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Held):
        asyncio.run(take(tmp_path, 0.2))
    assert len(os.listdir("/proc/self/fd")) == before
    lock.close()
