"""The alerts, the dashboard and the page about metrics say nothing of metrics that are not there."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from supervisor.metrics.families import FAMILIES
from tests import engines, metrics_table, promtool
from tests.metrics import loaded

ROOT = Path(__file__).resolve().parent.parent
ALERTS = (ROOT / "etc" / "alerts.yml").read_text()
ALERT_TESTS = (ROOT / "tests" / "alerts_test.yml").read_text()
DASHBOARD: dict[str, Any] = json.loads((ROOT / "etc" / "grafana-dashboard.json").read_text())
PAGE = (ROOT / "docs" / "metrics.md").read_text()
SERIES = re.compile(r"\b(?:tenured|process)_[a-z_]+\b")
NAMES = re.findall(r"- alert: (\w+)", ALERTS)


def expressions(node: Any) -> list[str]:
    """Every query of a dashboard, wherever in it."""
    if isinstance(node, dict):
        own = [node[key] for key in ("expr", "definition") if key in node]
        return own + [found for child in node.values() for found in expressions(child)]
    return [found for child in node for found in expressions(child)] if isinstance(node, list) else []


def series_shown() -> set[str]:
    """The names of all series of a real page."""
    return {sample.name for family in loaded("s/0").page().values() for sample in family.samples}


def checked(*arguments: str | Path) -> str:
    """What promtool says if it is content; else the test fails with it."""
    done = promtool.promtool(engines.promtool_folder(), *arguments)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


# --- alerts -----------------------------------------------------------------------------------------------


def test_the_alerts_are_valid() -> None:
    assert f"{len(NAMES)} rules found" in checked("check", "rules", ROOT / "etc" / "alerts.yml")


def test_each_alert_fires_where_it_should_and_none_while_all_is_well() -> None:
    assert "SUCCESS" in checked("test", "rules", ROOT / "tests" / "alerts_test.yml")


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_is_shown_to_fire_and_stands_on_the_page(name: str) -> None:
    assert re.search(rf'labels: \'ALERTS{{alertname="{name}", alertstate="firing"', ALERT_TESTS)
    assert f"`{name}`" in PAGE


def test_no_alert_stands_on_the_page_that_is_not_there() -> None:
    assert set(re.findall(r"`(Tenured\w+)`", PAGE)) == set(NAMES)


@pytest.mark.parametrize("part", ["severity", "summary", "description", "runbook"])
def test_each_alert_has_what_people_need(part: str) -> None:
    assert len(re.findall(rf"^ +{part}: \S", ALERTS, re.M)) == len(NAMES)


def test_each_runbook_is_a_section_that_is_there() -> None:
    links = re.findall(r"runbook: docs/troubleshooting\.md#(\S+)", ALERTS)
    sections = re.findall(r"^## (.+)$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.M)
    assert len(links) == len(NAMES)
    assert set(links) - {section.replace(".", "") for section in sections} == set()


def test_the_page_says_of_each_alert_how_urgent_it_is() -> None:
    rules = ALERTS.split("- alert: ")[1:]
    urgent = {rule.split("\n")[0] for rule in rules if "severity: page" in rule}
    groups = re.findall(r"((?:`Tenured\w+`(?:, )?)+) \(page\)", PAGE)
    said = {name for group in groups for name in re.findall(r"\w+", group)}
    assert said == urgent


# --- dashboard --------------------------------------------------------------------------------------------


def test_every_panel_of_the_dashboard_has_an_id_of_its_own_and_asks_something() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["targets"]] == []
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []


def test_no_two_panels_of_the_dashboard_overlap_and_none_leaves_the_grid() -> None:
    cells: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        assert range(grid["x"], grid["x"] + grid["w"])[-1] in range(24), panel["title"]
        for x, y in itertools.product(range(grid["w"]), range(grid["h"])):
            cell = (grid["x"] + x, grid["y"] + y)
            assert cell not in cells, f"{panel['title']} lies over {cells[cell]}"
            cells[cell] = panel["title"]


def test_the_data_source_of_the_dashboard_is_a_variable_everywhere() -> None:
    variables = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    assert variables[0] == "datasource"
    sources = re.findall(r'"uid": "([^"]+)"', json.dumps(DASHBOARD["panels"]))
    assert set(sources) == {"${datasource}"}


def test_every_variable_that_the_dashboard_uses_is_one_of_its_own() -> None:
    own = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = {name for text in expressions(DASHBOARD) for name in re.findall(r"\$(\w+)", text)}
    assert used - own == {"__rate_interval"}


def test_every_query_of_the_dashboard_is_one_that_prometheus_understands(tmp_path: Path) -> None:
    """As the expression of a rule, since promtool has no other way to check one."""
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    rules = [{"record": f"q:{n}", "expr": query.replace("$__rate_interval", "1m")} for n, query in enumerate(queries)]
    file = tmp_path / "queries.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(queries)} rules found" in checked("check", "rules", file)


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [ALERTS, "\n".join(expressions(DASHBOARD)), ALERT_TESTS], ids=["alerts", "dashboard", "tests"]
)
def test_every_metric_that_is_asked_for_is_shown_and_documented(text: str) -> None:
    asked = set(re.findall(SERIES, re.sub(r'"[^"]*"', "", text)))
    assert asked
    assert asked - series_shown() == set()
    plain = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert plain - set(re.findall(r"`([a-z_]+)[`{]", PAGE)) == set()


def test_the_table_on_the_page_is_the_list_of_the_code() -> None:
    assert metrics_table.written() == metrics_table.table()


def test_the_page_names_no_metric_that_is_not_shown() -> None:
    named = {name for name in re.findall(SERIES, PAGE) if not name.endswith("_")}
    histograms = {family.name for family in FAMILIES if family.kind == "histogram"}
    assert named - series_shown() - histograms == set()
