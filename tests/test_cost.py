"""What docs/cost.md says that a fleet costs is what its arithmetic gives, with the intervals that the code uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from supervisor.core.model import MS
from tests.costs import MONTH_S, POLL_S, READS_USD, WRITES_USD, month_usd, renew_s, units_usd

PAGE = (Path(__file__).parents[1] / "docs" / "cost.md").read_text()


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading of the page."""
    table = re.search(rf"## {heading}\n.*?\n\|[-| ]+\|\n((?:\|[^\n]*\|\n)+)", PAGE, re.S)
    assert table, heading
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


@pytest.mark.parametrize("row", rows_of("A fleet, each month"), ids=lambda row: "-".join(row[:3]))
def test_the_table_of_a_fleet_is_what_the_arithmetic_gives(row: list[str]) -> None:
    lease, shards, supervisors, writes, reads, whole = (float(cell.strip("$ s").replace(",", "")) for cell in row)
    expected = month_usd(int(shards), int(supervisors), int(lease))
    assert writes == round(expected[0], 2)
    assert reads == round(expected[1], 2)
    assert whole == round(sum(expected), 2)


@pytest.mark.parametrize("row", rows_of("A shard, each month"), ids=lambda row: row[0])
def test_the_table_of_a_shard_is_what_its_renewals_cost(row: list[str]) -> None:
    lease, renew, cost = (float(cell.strip("$ s")) for cell in row)
    assert renew == round(lease / 3, 2)
    assert cost == round(units_usd(MONTH_S / renew_s(lease), 0), 3)


def test_reading_never_costs_more_than_renewing_by_more_than_what_rounding_adds() -> None:
    for lease in (3, 10, 60):
        for supervisors in (5, 20, 30):
            writes, reads = month_usd(1000, supervisors, lease)
            assert reads <= writes * 1.01, (lease, supervisors)


def test_the_page_names_the_prices_that_it_was_computed_with() -> None:
    assert f"${WRITES_USD} for each million write units and ${READS_USD} for each million read units" in PAGE
    assert POLL_S * 1e9 == 1000 * MS
