"""What the fork server imports, within which time, and what it leaves to its children."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from workers.process.preload import Preloaded, preload
from workers.process.wire import Preparation

BUDGET_S = 1.0


def module(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(f"from workers.handler import Handler\n{text}\nclass H(Handler): pass\n")
    return f"{folder}/{name}.py:H"


def preloaded(*references: str, budget_s: float = BUDGET_S) -> tuple[Preloaded, list[str], float]:
    """With what it warned of, and how long it took."""
    warnings: list[str] = []
    began = time.monotonic()
    result = preload(Preparation(references), warnings.append, budget_s)
    return result, warnings, time.monotonic() - began


def test_all_handlers_that_hang_at_import_cost_one_budget_together_and_the_others_are_imported(tmp_path: Path) -> None:
    hanging = [module(tmp_path, f"hanging{number}", "import time; time.sleep(999)") for number in range(4)]
    good = module(tmp_path, "good", "")
    budget_s = 3.0  # the good one has to be imported within it, also on a machine that is busy
    result, warnings, took_s = preloaded(*hanging, good, budget_s=budget_s)
    assert list(result.handlers) == [good]
    assert budget_s <= took_s < 2 * budget_s
    assert len(warnings) == 4
    for reference, warning in zip(hanging, warnings, strict=True):
        assert reference in warning
        assert "took more than 3 s when imported, so each of its children imports it by itself" in warning


def test_handlers_that_are_slow_but_pass_are_imported_within_a_budget_and_the_quick_ones_first(tmp_path: Path) -> None:
    slow = [module(tmp_path, f"slow{number}", "import time; time.sleep(1)") for number in range(6)]
    quick = module(tmp_path, "quick", "")
    result, warnings, took_s = preloaded(*slow, quick, budget_s=2.5)
    assert next(iter(result.handlers)) == quick
    assert 2 <= len(result.handlers) <= 4
    assert took_s < 2 * 2.5 + 1 + 1
    assert len(warnings) == 7 - len(result.handlers)
    assert all("came after others that took 2.5 s together" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_dependency", "ModuleNotFoundError: No module named 'no_such_dependency' at {file}:2 when"),
        ("this is no Python", "SyntaxError: invalid syntax (bad.py, line 2) when"),
        ("assert False", "AssertionError at {file}:2 when"),
        ("raise SystemExit(2)", "SystemExit: 2 at {file}:2 when"),
        ("raise ValueError('one\\ntwo')", "ValueError: one two at {file}:2 when"),
        (r"raise ValueError('\ud800')", r"ValueError: \ud800 at {file}:2 when"),
        ("raise ValueError('x' * 9000)", "xxx at {file}:2 when"),
    ],
)
def test_what_a_handler_raises_when_imported_is_told_in_one_short_line(tmp_path: Path, text: str, said: str) -> None:
    bad = module(tmp_path, "bad", text)
    _, warnings, _ = preloaded(bad)
    assert len(warnings) == 1
    assert said.format(file=tmp_path / "bad.py") in warnings[0]
    assert warnings[0].isprintable()
    assert len(warnings[0]) < 600


def test_a_class_that_is_not_there_is_told_first_with_those_that_are(tmp_path: Path) -> None:
    module(tmp_path, "trades", "")
    _, warnings, _ = preloaded(f"{tmp_path}/trades.py:Trades")
    reference = f"{tmp_path}/trades.py:Trades"
    sentence = f"there is no class Trades in {tmp_path}/trades.py, it has H, so none of its children can start"
    assert len(warnings) == 1
    assert warnings[0] == f"{reference}: {sentence}"
    assert "BadHandler" not in warnings[0]


def test_a_handler_that_passes_its_trial_and_raises_then_is_left_to_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    fickle = module(
        tmp_path, "fickle", f"import os\nif os.path.exists({str(mark)!r}): raise ValueError\nopen({str(mark)!r}, 'w')"
    )
    good = module(tmp_path, "good", "")
    result, warnings, _ = preloaded(fickle, good)
    assert list(result.handlers) == [good]
    assert len(warnings) == 1
    assert "passed its trial and then raised ValueError" in warnings[0]
