"""What the rights of this user do not suffice for is told as that, by a store of SQLite, and not as an outage."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from supervisor.stores.interface import Denied, Store, Unavailable, Unfit
from supervisor.stores.location import open_store
from supervisor.writes import Unknown
from tests.contract.rows import TIMEOUT_S, create, member

NOBODY = 65534


@contextmanager
def nobody() -> Iterator[None]:
    """Root may do everything: whoever is root becomes another user meanwhile."""
    user = os.geteuid()
    os.seteuid(NOBODY if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that others may look into, as they may not into pytest's."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    made.chmod(0o700)
    shutil.rmtree(made)


@pytest.fixture
def path(folder: Path) -> Path:
    """A file of ours."""
    file = folder / "leases.db"
    with closing(open_store("sqlite:///leases.db", folder, TIMEOUT_S)) as store:
        store.initialize()
    return file


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    """Of a file that is not open yet."""
    with closing(open_store("sqlite:///leases.db", folder, TIMEOUT_S)) as opened:
        yield opened


def reads(store: Store) -> list[Callable[[], object]]:
    return [
        lambda: store.inspect(TIMEOUT_S),
        lambda: store.read("trades/0", TIMEOUT_S),
        lambda: store.snapshot(TIMEOUT_S),
    ]


def denied(sentence: str, *attempts: Callable[[], object]) -> None:
    for attempt in attempts:
        with nobody(), pytest.raises(Denied) as raised:
            attempt()
        assert str(raised.value) == sentence


def write_denied(store: Store, sentence: str) -> None:
    with nobody():
        outcome = store.apply(create("trades/0"), TIMEOUT_S)
    assert outcome == Unknown(sentence, unsent=True, denied=True)


def test_a_file_that_may_not_be_read_is_denied_to_reads_and_writes_and_names_itself(path: Path, store: Store) -> None:
    path.chmod(0)
    sentence = f"this user may not read {path}"
    denied(sentence, store.initialize, *reads(store))
    write_denied(store, sentence)


def test_a_file_that_may_only_be_read_is_denied_to_writes_alone(path: Path, store: Store, folder: Path) -> None:
    path.chmod(0o444)
    folder.chmod(0o777)
    with nobody():
        assert [attempt() for attempt in reads(store)][1] is None
    sentence = f"this user may not write {path}"
    denied(sentence, store.initialize)
    write_denied(store, sentence)
    with nobody(), pytest.raises(Unavailable, match=sentence):
        store.prove(member(), TIMEOUT_S)


def test_a_folder_that_may_not_be_written_to_leaves_no_place_for_the_journal_of_a_file_that_may(
    path: Path, store: Store, folder: Path
) -> None:
    path.chmod(0o666)
    folder.chmod(0o555)
    sentence = f"this user may not write to {folder}"
    denied(sentence, store.initialize)
    write_denied(store, sentence)


def test_a_folder_that_may_not_be_looked_into_is_told(path: Path, store: Store, folder: Path) -> None:
    folder.chmod(0o600)
    sentence = f"this user may not look for {path}"
    denied(sentence, *reads(store))
    write_denied(store, sentence)


def test_a_file_that_may_not_be_made_is_denied(store: Store, folder: Path) -> None:
    folder.chmod(0o555)
    sentence = f"{folder}/leases.db cannot be created: permission denied; its folder must exist and be writable"
    denied(sentence, store.initialize)
    assert list(folder.iterdir()) == []


def test_a_folder_in_the_place_of_the_file_is_unfit(store: Store, folder: Path) -> None:
    (folder / "leases.db").mkdir()
    for attempt in (store.initialize, lambda: store.inspect(TIMEOUT_S)):
        with pytest.raises(Unfit, match=r"leases\.db is a folder, expected a file made by `tenured init`"):
            attempt()
    assert list((folder / "leases.db").iterdir()) == []


def test_that_a_file_may_be_written_is_found_out_without_a_change_of_its_content(path: Path, store: Store) -> None:
    with closing(open_store("sqlite:///leases.db", path.parent, TIMEOUT_S)) as other:
        other.apply(create("trades/0"), TIMEOUT_S)
        before = other.snapshot(TIMEOUT_S, full=True)
        assert store.initialize() == f"{path} exists already"
        assert other.snapshot(TIMEOUT_S, full=True) == before
