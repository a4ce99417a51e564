"""Commands that are given a configuration which does not fit the store, or a store whose fleet is stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor import exits
from tests.contract.rows import plant
from tests.process.host import tenured
from tests.process.test_looking import A, rows

FILE = """\
[supervisor]
store = sqlite:///leases.db
fleet = {fleet}
state_dir = state
run_dir = run

[stream:t]
shards = 0-{last}
url = ws://127.0.0.1/
sink = discard
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a store of fleet `prod`, whose two supervisors live."""
    store = f"sqlite:///{tmp_path}/leases.db"
    assert tenured("init", "--store", store).returncode == exits.OK
    plant(store, rows())
    return tmp_path


def file_of(folder: Path, fleet: str, last: int = 3) -> str:
    path = folder / f"{fleet}.ini"
    path.write_text(FILE.format(fleet=fleet, last=last))
    return str(path)


def test_the_status_of_another_fleet_than_the_file_names_is_told_as_that(folder: Path) -> None:
    told, given = (tenured("status", "-c", file_of(folder, "other", 9), *more) for more in ((), ("--json",)))
    assert (told.returncode, given.returncode) == (exits.STORE, exits.STORE)
    assert told.stdout.startswith("fleet prod is fine: 4 shards, all held;")
    assert "this is the store of fleet prod; the configuration at hand names fleet other" in told.stdout
    whole = json.loads(given.stdout)
    assert (whole["fleet"], whole["expected"], len(whole["shards"])) == ("prod", "other", 4)
    assert tenured("status", "-c", file_of(folder, "prod")).returncode == exits.OK


@pytest.mark.parametrize("wish", [("move",), ("pause",), ("pause", "--force"), ("resume",), ("forget",)])
def test_no_shard_of_another_fleet_than_the_file_names_is_touched(folder: Path, wish: tuple[str, ...]) -> None:
    before = (folder / "leases.db").read_bytes()
    file = file_of(folder, "other")
    done = tenured(*wish, "t/0", "--no-wait", "-c", file)
    assert (done.returncode, done.stdout) == (exits.STORE, "")
    sentence = f"is that of fleet prod, but {file} names fleet other; nothing was changed"
    assert done.stderr == f"tenured: store sqlite:///{folder}/leases.db {sentence}\n"
    assert (folder / "leases.db").read_bytes() == before
    done = tenured("pause", "t/0", "--no-wait", "-c", file_of(folder, "prod"))
    assert (done.returncode, done.stdout) == (exits.OK, f"t/0 is paused as soon as {A} has stopped it\n")


def test_while_the_fleet_is_stopped_the_file_says_which_shards_are_kept(folder: Path) -> None:
    stopped = folder / "stopped.db"
    assert tenured("init", "--store", f"sqlite:///{stopped}").returncode == exits.OK
    free = [{name: row[name] for name in ("lease", "epoch", "beat", "nonce", "duration_ms")} for row in rows()[2:]]
    plant(f"sqlite:///{stopped}", free)
    stopped.rename(folder / "leases.db")
    done = tenured("forget", "t/*", "-c", file_of(folder, "prod", 1))
    assert done.returncode == exits.NO
    assert [line.partition(",")[0] for line in done.stdout.splitlines()] == ["t/2 is forgotten", "t/3 is forgotten"]
    why = "the configuration here has it; take it out of that first"
    assert done.stderr.splitlines() == [f"tenured: t/{index} was not forgotten: {why}" for index in (0, 1)]


def test_nothing_is_forgotten_by_a_file_that_cannot_say_which_shards_it_has(folder: Path) -> None:
    file = Path(file_of(folder, "prod"))
    plant(f"sqlite:///{folder}/leases.db", [{"lease": "u", "epoch": 7, "beat": 1, "nonce": "n", "duration_ms": 9000}])
    file.write_text(f"{file.read_text()}\n[stream:u]\nurl = no\n")
    done = tenured("forget", "u", "-c", str(file))
    assert (done.returncode, done.stdout) == (exits.CONFIG, "")
    assert f"which shards {file} has cannot be told before it is right; nothing was forgotten" in done.stderr
    assert tenured("forget", "u", "--store", f"sqlite:///{folder}/leases.db").returncode == exits.OK
