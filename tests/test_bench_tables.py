"""The figures in the docs are those of the last measurement."""

from __future__ import annotations

import re

import pytest

from tests.bench import parts, tables
from tests.bench.figures import Figure

RECORD: tables.Record = {
    "kills": {
        "measured": "2026-11-30",
        "machine": "2 cores",
        "took_s": 90,
        "figures": [
            {"name": "idle, p99", "value": 5.512, "unit": "ms", "goal_max": 10, "detail": "of 200", "load": 0.1},
            {"name": "busy, p99", "value": 12.0, "unit": "ms", "goal_max": 10, "detail": "of 200", "load": 0.1},
            {"name": "renewals, a peer", "value": 16.04, "unit": "x", "goal_min": 4, "detail": "", "load": 0.1},
        ],
    }
}


def test_the_tables_of_the_docs_are_those_of_the_last_measurement() -> None:
    assert tables.outdated() == [], "python -m tests.bench.tables renders them anew"


def test_each_part_was_measured_and_is_shown() -> None:
    text = "".join(page.read_text() for page in tables.pages())
    shown = {found["part"] for found in tables.MARKED.finditer(text)}
    assert set(tables.read(tables.RECORD)) == set(parts.NAMES)
    assert shown == {*parts.NAMES, "summary", "parts"}


TYPED = re.compile(r"\d ?(?:us|ms|MB|x)\b|about a (?:half|third|quarter)")


@pytest.mark.parametrize("name", ["benchmarks", "memory", "performance"])
def test_a_page_of_figures_has_none_that_were_typed_by_hand(name: str) -> None:
    prose = tables.MARKED.sub("", (tables.ROOT / "docs" / f"{name}.md").read_text())
    assert TYPED.findall(prose) == []


@pytest.mark.parametrize("name", ["connections", "checkpoints", "sinks", "cost", "protocol"])
def test_a_page_of_rules_measures_no_cpu_and_no_memory(name: str) -> None:
    text = (tables.ROOT / "docs" / f"{name}.md").read_text()
    assert re.findall(r"\d ?(?:us|MB)\b|about a (?:half|third|quarter) of the", text) == []


def test_the_estimate_is_how_long_the_parts_took() -> None:
    assert tables.estimate(RECORD, ["kills"]).startswith("about 2 min")
    assert tables.estimate(RECORD, ["kills", "scale"]).startswith("about 2 min")


def test_each_page_of_figures_has_an_end_for_each_of_its_marks() -> None:
    for page in tables.pages():
        text = page.read_text()
        assert len(tables.MARKED.findall(text)) == text.count("<!-- figures:") == text.count("<!-- end of figures -->")


def test_a_table_shows_values_goals_and_misses_between_its_marks() -> None:
    page = "before\n<!-- figures: kills -->\nold\n<!-- end of figures -->\nafter\n"
    filled = tables.rendered(page, RECORD)
    assert "| idle, p99 | 5.51 ms | <= 10 ms | of 200 |\n" in filled
    assert "| busy, p99 | 12 ms | <= 10 ms, **missed** | of 200 |\n" in filled
    assert "| renewals, a peer | 16 x | >= 4 x |  |\n" in filled
    assert "\n\n2026-11-30, 2 cores.\n<!-- end" in filled
    assert "old" not in filled
    assert filled.startswith("before\n")
    assert filled.endswith("<!-- end of figures -->\nafter\n")
    assert tables.rendered(filled, RECORD) == filled


def test_words_choose_figures_by_the_beginning_of_their_names() -> None:
    filled = tables.rendered("<!-- figures: kills: renewals -->\n<!-- end of figures -->", RECORD)
    assert "| a peer | 16 x |" in filled
    assert "idle" not in filled


@pytest.mark.parametrize("mark", ["kill", "kills: nothing begins so"])
def test_a_table_of_figures_that_nobody_measured_is_an_error(mark: str) -> None:
    with pytest.raises(KeyError):
        tables.rendered(f"<!-- figures: {mark} -->\n<!-- end of figures -->", RECORD)


def test_a_goal_is_met_on_its_side_and_at_its_edge() -> None:
    assert [Figure("f", value, "", goal_max=2).met for value in (1, 2, 3)] == [True, True, False]
    assert [Figure("f", value, "", goal_min=2).met for value in (1, 2, 3)] == [False, True, True]
    assert Figure("f", 3, "").met
