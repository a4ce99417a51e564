"""The measured figures in the docs: python -m tests.bench.tables [--check]

docs/figures.json holds what each part of `python -m tests.bench` measured last. A page of the docs (or the README)
shows figures, never typed by hand, between two marks that this module fills:

    <!-- figures: PART -->                 all figures of the part
    <!-- figures: PART: some words -->     those whose name begins with these words, which are left out of the table
    <!-- figures: summary -->              the headlines, chosen in `summary`
    <!-- figures: parts -->                what is measured, and how long that took
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
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench import parts, summary
from tests.bench.figures import Figure

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "figures.json"
MARKED = re.compile(
    r"(<!-- figures: (?P<part>\w+)(?:: (?P<words>[^>]+?))? -->\n).*?(<!-- end of figures -->)", re.DOTALL
)

Record = dict[str, dict[str, Any]]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


# --- the record -------------------------------------------------------------------------------------------


def read(path: Path) -> Record:
    record: Record = json.loads(path.read_text()) if path.exists() else {}
    return record


def keep(path: Path, part: str, figures: list[dict[str, Any]], took_s: float) -> None:
    """Put the figures of one part in the place of those that stood there."""
    record = read(path)
    measured = {"measured": f"{datetime.now(UTC):%Y-%m-%d}", "machine": _machine(), "took_s": round(took_s)}
    record[part] = measured | {"figures": figures}
    path.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")


def _machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"


def estimate(record: Record, names: Iterable[str]) -> str:
    """How long these parts will take, by how long they took."""
    took_s = sum(record[name]["took_s"] for name in names if name in record)
    return f"about {max(1, round(took_s / 60))} min, as long as the last record took"


def figures_of(record: Record, part: str) -> list[Figure]:
    if part not in record:
        raise KeyError(f"no figures of {part}: measure them by python -m tests.bench --record {part}")
    return [Figure(**{name: value for name, value in row.items() if name != "met"}) for row in record[part]["figures"]]


# --- the pages --------------------------------------------------------------------------------------------


def rendered(page: str, record: Record) -> str:
    """The page with its tables filled. Raises KeyError for a part or words of which the record knows no figure."""
    return MARKED.sub(lambda found: f"{found[1]}{_table(record, found['part'], found['words'] or '')}{found[4]}", page)


def _table(record: Record, part: str, words: str) -> str:
    if part == "summary":
        return summary.table({name: figures_of(record, name) for name in record})
    if part == "parts":
        return _parts(record)
    figures = [figure for figure in figures_of(record, part) if figure.name.startswith(words)]
    if not figures:
        raise KeyError(f"no figure of {part} begins with {words!r}")
    rows = [
        f"| {figure.name.removeprefix(words).strip(' ,:')} | {figure.measured} | {figure.judged} | {figure.detail} |"
        for figure in figures
    ]
    head = ["| | measured | goal | details |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows, "", f"{record[part]['measured']}, {record[part]['machine']}."]) + "\n"


def _parts(record: Record) -> str:
    rows = [
        f"| `{part.name}` | {part.what} | {part.beside} | {record[part.name]['took_s']} s |"
        for part in parts.ALL
        if figures_of(record, part.name)
    ]
    return "\n".join(["| part | what is measured | beside | takes |", "| --- | --- | --- | --- |", *rows]) + "\n"


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
