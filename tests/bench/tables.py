"""The measured figures in the docs: python -m tests.bench.tables [--check]

docs/figures.json holds what each part of `python -m tests.bench` measured last. A page of the docs (or the README)
shows figures of a part, never typed by hand, between two marks that this module fills:

    <!-- figures: PART -->                 all figures of the part
    <!-- figures: PART: some words -->     those whose name begins with these words, which are left out of the table
    <!-- end of figures -->

`--check` changes nothing, and exits with 1 if a table and the record differ. A test holds the docs to that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, number

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "figures.json"
MARKED = re.compile(
    r"(<!-- figures: (?P<part>\w+)(?:: (?P<words>[^>]+?))? -->\n).*?(<!-- end of figures -->)", re.DOTALL
)

Record = dict[str, dict[str, Any]]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def read(path: Path) -> Record:
    record: Record = json.loads(path.read_text()) if path.exists() else {}
    return record


def keep(path: Path, part: str, figures: list[dict[str, Any]]) -> None:
    """Put the figures of one part in the place of those that stood there."""
    record = read(path)
    record[part] = {"measured": f"{datetime.now(UTC):%Y-%m-%d}", "machine": _machine(), "figures": figures}
    path.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")


def _machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"


def rendered(page: str, record: Record) -> str:
    """The page with its tables filled. Raises KeyError for a part or words of which the record knows no figure."""
    return MARKED.sub(lambda found: f"{found[1]}{_table(record, found['part'], found['words'] or '')}{found[4]}", page)


def _table(record: Record, part: str, words: str) -> str:
    figures = [_figure(row) for row in record[part]["figures"] if row["name"].startswith(words)]
    if not figures:
        raise KeyError(f"{part}: {words}")
    rows = [_row(figure, figure.name.removeprefix(words).strip(" ,:")) for figure in figures]
    return "\n".join(["| | measured | goal | spread |", "| --- | --- | --- | --- |", *rows]) + "\n"


def _row(figure: Figure, name: str) -> str:
    return f"| {name} | {number(figure.value)} {figure.unit} | {_goal(figure)} | {figure.detail} |"


def _figure(row: dict[str, Any]) -> Figure:
    return Figure(**{name: value for name, value in row.items() if name != "met"})


def _goal(figure: Figure) -> str:
    return figure.goal if figure.met else f"{figure.goal}, **missed**"


def render(path: Path = RECORD) -> list[Path]:
    """Fill all pages from a record; those that changed."""
    record = read(path)
    changed = []
    for page in pages():
        text = page.read_text()
        if (filled := rendered(text, record)) != text:
            page.write_text(filled)
            changed.append(page)
    return changed


def outdated(path: Path = RECORD) -> list[Path]:
    record = read(path)
    return [page for page in pages() if rendered(page.read_text(), record) != page.read_text()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tables")
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        render()
        return 0
    for page in (wrong := outdated()):
        print(
            f"{page.relative_to(ROOT)}: not the figures of docs/figures.json; python -m tests.bench.tables mends that"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
