"""What the record beside the lock proves, and that nothing found in its place does any harm."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor import lock
from supervisor.incarnations import IDS_MAX, Record, Unusable, record_in


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    held = asyncio.run(lock.take(tmp_path, 0))
    yield record_in(tmp_path, held)
    held.close()


def test_a_folder_without_a_record_proves_nothing_and_is_no_trouble(record: Record) -> None:
    assert record.dead() == ()


def test_who_lived_under_the_lock_is_dead_to_its_next_holder(record: Record) -> None:
    record.write(["a:1:x", "a:2:y"])
    assert record.dead() == ("a:1:x", "a:2:y")
    assert os.stat(record.path).st_mode & 0o777 == 0o600
    assert (
        os.listdir(record.path.parent) == sorted(["incarnations", "lock"])
        or not record.path.with_name("incarnations.new").exists()
    )


@given(ids=st.lists(st.text(min_size=1, max_size=100), max_size=2 * IDS_MAX))
def test_the_newest_ids_are_kept_whatever_they_are_and_not_more_than_a_bound(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str]
) -> None:
    record = Record(tmp_path_factory.getbasetemp() / "incarnations", lock.Lock(-1, 1, 2), "boot")
    record.write(ids)
    assert record.dead() == tuple(ids[-IDS_MAX:])


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda record: replace(record, boot="another"),
        lambda record: replace(record, lock=replace(record.lock, inode=record.lock.inode + 1)),
        lambda record: replace(record, lock=replace(record.lock, device=record.lock.device + 1)),
    ],
    ids=["another boot", "another lock file", "another device"],
)
def test_a_record_proves_nothing_for_another_boot_or_another_lock(
    record: Record, elsewhere: Callable[[Record], Record]
) -> None:
    elsewhere(record).write(["a:1:x"])
    assert record.dead() == ()


def test_the_record_of_a_lock_file_that_was_made_anew_proves_nothing(record: Record) -> None:
    record.write(["a:1:x"])
    folder = record.path.parent
    (folder / "lock").rename(folder / "old")
    fresh = lock.attempt(folder)
    assert fresh is not None
    assert record_in(folder, fresh).dead() == ()
    fresh.close()


def content(record: Record, **changes: object) -> bytes:
    made = {"boot_id": record.boot, "device": record.lock.device, "inode": record.lock.inode, "ids": ["a:1:x"]}
    return json.dumps(made | changes).encode()


@pytest.mark.parametrize(
    "made",
    [
        lambda record: b"",
        lambda record: b"\x00\xff" * 100,
        lambda record: b"[]",
        lambda record: b"7",
        lambda record: b"{}",
        lambda record: b"[" * 60_000,
        lambda record: b"9" * 60_000,
        lambda record: content(record)[:-1],
        lambda record: content(record, ids="a:1:x"),
        lambda record: content(record, ids=[1, None]),
        lambda record: content(record, ids=["a:1:x", ""]),
        lambda record: content(record, ids={"a:1:x": 1}),
        lambda record: content(record, ids=["x" * 10_000_000]),
    ],
)
def test_a_record_that_is_none_is_told_in_a_sentence_and_proves_nothing(
    record: Record, made: Callable[[Record], bytes]
) -> None:
    record.path.write_bytes(made(record))
    with pytest.raises(Unusable, match=rf"^{record.path} cannot be read: .*; leases of the last run are waited for$"):
        record.dead()
    record.write(["a:2:y"])
    assert record.dead() == ("a:2:y",)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unreadable(path: Path) -> None:
    path.symlink_to(path.name)  # a circle; modes do not keep root from reading


@pytest.mark.parametrize("make", [Path.mkdir, fifo, unreadable, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_told_at_once(record: Record, make: Callable[[Path], object]) -> None:
    make(record.path)
    with pytest.raises(Unusable, match="cannot be read"):
        record.dead()


def full_folder(record: Record) -> None:
    (record.path.with_name("incarnations.new") / "x").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [full_folder, lambda record: record.path.mkdir()])
def test_a_record_that_cannot_be_written_is_told_in_a_sentence(
    record: Record, spoil: Callable[[Record], object]
) -> None:
    spoil(record)
    with pytest.raises(
        Unusable, match=r"cannot be written: .*; after a restart the leases of this run are waited for$"
    ):
        record.write(["a:1:x"])


def test_what_a_crash_left_of_a_record_does_not_keep_the_next_one_from_being_written(record: Record) -> None:
    left = record.path.with_name("incarnations.new")
    left.write_bytes(b"half of")
    left.chmod(0o666)
    record.write(["a:1:x"])
    assert record.dead() == ("a:1:x",)
    assert os.stat(record.path).st_mode & 0o777 == 0o600


def test_a_record_takes_the_place_of_a_link_and_touches_nothing_behind_it(record: Record, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    for link in (record.path, record.path.with_name("incarnations.new")):
        link.symlink_to(precious)
    record.write(["a:1:x"])
    assert precious.read_text() == "kept"
    assert record.dead() == ("a:1:x",)


def test_the_record_behind_a_link_proves_nothing(record: Record, tmp_path: Path) -> None:
    record.write(["a:1:x"])
    record.path.rename(tmp_path / "elsewhere")
    record.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unusable, match="cannot be read: Too many levels of symbolic links"):
        record.dead()


def test_where_a_record_cannot_be_written_the_old_one_goes_too(record: Record) -> None:
    """It may name somebody who is not dead, because a copy of this machine lives on under that id."""
    record.write(["a:1:x"])
    (record.path.with_name("incarnations.new") / "in the way").mkdir(parents=True)
    with pytest.raises(Unusable):
        record.write(["a:2:y"])
    assert record.dead() == ()


def test_without_a_boot_id_nothing_is_proven_and_nothing_else_is_wrong(record: Record) -> None:
    record.write(["a:1:x"])
    hidden = replace(record, boot="")
    with pytest.raises(Unusable, match="boot_id cannot be read"):
        hidden.dead()
