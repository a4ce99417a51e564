"""The table of all metrics in docs/metrics.md, from the code's own list: python -m tests.metrics_table writes it."""

from __future__ import annotations

from pathlib import Path

from supervisor.metrics.families import FAMILIES, Family

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
BEGIN, END = "<!-- made by: python -m tests.metrics_table -->\n", "<!-- end -->\n"
UNITS = ("seconds", "bytes", "shards")


def table() -> str:
    head = ("| metric | type | unit | labels | meaning |", "| --- | --- | --- | --- | --- |")
    return "".join(f"{line}\n" for line in (*head, *(_row(family) for family in FAMILIES)))


def _row(family: Family) -> str:
    words = family.name.removesuffix("_total").split("_")
    unit = next((unit for unit in UNITS if unit == words[-1]), "")
    labels = "<br>".join(
        f"`{label}`: {', '.join(values)}" if values else f"`{label}`" for label, values in family.labels.items()
    )
    return f"| `{family.name}` | {family.kind} | {unit} | {labels} | {family.meaning} |"


def written() -> str:
    """What stands in the page by now."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def write() -> None:
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    if not begin or END not in rest:
        raise ValueError(f"{PAGE.name} has no lines {BEGIN.strip()} and {END.strip()} to write the table between")
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    write()
