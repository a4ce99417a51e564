"""What `python -m tests.bench` keeps of what its parts find."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench import tables
from tests.bench.__main__ import main

FIGURE = {"name": "a figure", "value": 1.5, "unit": "ms", "goal_max": 2, "detail": "", "load": 0.1}


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part finds one figure, at once."""

    def run(command: Sequence[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        assert not check
        Path(command[command.index("--json") + 1]).write_text(json.dumps([FIGURE]))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)


def test_a_file_of_ones_own_gets_the_figures_and_the_docs_stay(tmp_path: Path) -> None:
    kept, docs = tmp_path / "new.json", tables.RECORD.read_bytes()
    assert main(["--json", str(kept), "slow", "page"]) == 0
    record = tables.read(kept)
    assert set(record) == {"slow", "page"}
    assert record["slow"]["figures"] == [FIGURE]
    assert {"measured", "machine", "took_s"} < set(record["slow"])
    assert tables.RECORD.read_bytes() == docs


def test_figures_are_only_printed_if_nothing_else_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    docs = tables.RECORD.read_bytes()
    assert main(["slow"]) == 0
    assert tables.RECORD.read_bytes() == docs
    assert "min, as long as" in capsys.readouterr().out


def test_an_unknown_part_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fast"])
    assert "unknown part fast" in capsys.readouterr().err
