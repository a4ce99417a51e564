"""The figures of `growth` as a picture: python -m tests.bench.plot

Drawn from docs/figures.json, as the tables are, into docs/growth.svg; both axes are logarithmic, so that a cost that
grows as the number of children does is a line at 45 degrees.
"""

from __future__ import annotations

from pathlib import Path

from tests.bench import growth, tables

PICTURE = tables.ROOT / "docs" / "growth.svg"
CURVES = {
    "MiB": (growth.ALL_MIB, growth.PARENT_MIB, growth.SERVER_MIB, growth.CHILD_MIB),
    "% of a core": (growth.CPU,),
    "ms": (growth.ANSWER, growth.LATE),
    "s": (growth.START,),
}


def draw(record: Path = tables.RECORD) -> None:
    """Nothing if `growth` was never measured."""
    if "growth" not in (read := tables.read(record)):
        return
    import matplotlib as mpl  # of the extra `bench`: who does not measure needs none

    mpl.use("svg")
    from matplotlib import pyplot, ticker

    mpl.rcParams["svg.hashsalt"] = "growth"  # the same figures give the same file
    values = {row["name"]: row["value"] for row in read["growth"]["figures"]}
    picture, places = pyplot.subplots(1, len(CURVES), figsize=(14, 4), layout="constrained")
    for place, (unit, curves) in zip(places, CURVES.items(), strict=True):
        for what in curves:
            place.plot(growth.COUNTS, [values[growth.name(count, what)] for count in growth.COUNTS], "o-", label=what)
        place.set(xscale="log", yscale="log", xlabel="children", ylabel=unit)
        place.set_xticks(growth.COUNTS, labels=[str(count) for count in growth.COUNTS])
        place.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        place.yaxis.set_major_formatter("{x:g}")
        place.yaxis.set_minor_locator(ticker.NullLocator())
        place.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0, 1))
        place.grid(alpha=0.3)
    picture.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    draw()
