"""What docs/scale.md computes is what the arithmetic gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from supervisor.names import SHARDS_MAX
from tests import costs
from tests.scale_tables import many_tables, one_table

PAGE = (Path(__file__).parents[1] / "docs" / "scale.md").read_text()


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading of the page."""
    table = re.search(rf"## {heading}\n.*?\n\|[-| ]+\|\n((?:\|[^\n]*\|\n)+)", PAGE, re.S)
    assert table, heading
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def number(cell: str) -> int:
    return int(cell.strip(" s").replace(",", ""))


@pytest.mark.parametrize("row", rows_of("What one table has to bear"), ids=lambda row: "-".join(row[:3]))
def test_what_one_table_bears_is_what_the_arithmetic_gives(row: list[str]) -> None:
    assert row == one_table(*map(number, row[:3]))


@pytest.mark.parametrize("row", rows_of("A hundred thousand shards"), ids=lambda row: "-".join(row[:4]))
def test_a_hundred_thousand_shards_cost_what_the_arithmetic_gives(row: list[str]) -> None:
    tables, shards, supervisors, lease_s = map(number, row[:4])
    assert tables * shards == 100_000
    assert row == many_tables(tables, lease_s, shards, supervisors)


def test_the_limits_that_the_page_names_are_those_of_the_arithmetic() -> None:
    assert f"{costs.PARTITION_WRITES:,} write units and {costs.PARTITION_READS:,} read units a second" in PAGE
    assert f"at most {costs.rows_max(3):,} rows at T = 3 s, {costs.rows_max(10):,} at T = 10 s" in PAGE
    assert f"takes {costs.TABLE_READS:,} read units a second" in PAGE
    assert costs.reads_per_s(10_000, 100, 10) > costs.TABLE_READS
    assert f"at most {SHARDS_MAX:,} shards" in PAGE
    assert f"{costs.ROW_CPU_S * 1000:g} ms a row" in PAGE


def test_beyond_thirty_supervisors_reads_cost_more_than_writes() -> None:
    for supervisors, more in ((30, False), (40, True)):
        writes, reads = costs.month_usd(3000, supervisors, 10)
        assert (reads > 1.01 * writes) is more
