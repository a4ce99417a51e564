"""Metrics as text, in the exposition format that Prometheus reads (version 0.0.4).

By plain string formatting: one object for each sample of a thousand shards would cost the loop its reaction time. Label
values may hold anything; what the format reserves is escaped, and what UTF-8 cannot carry becomes a question mark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from supervisor.metrics.families import Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Values = Mapping[tuple[str, ...], float]
"""The value for each combination of label values, in the order of the family's labels."""


class Histogram:
    """How many observations lie at or below each bound. `observe` belongs to one thread, any may read."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def text(self, family: Family) -> str:
        bounds = [*map(str, self._bounds), "+Inf"]
        counts = list(accumulate(list(self._counts)))  # copied at once, so that the buckets agree with the count
        lines = [f'{family.name}_bucket{{le="{bound}"}} {count}\n' for bound, count in zip(bounds, counts, strict=True)]
        return f"{head(family)}{''.join(lines)}{family.name}_sum {self._sum:.6f}\n{family.name}_count {counts[-1]}\n"


def escaped(value: str) -> str:
    return value.translate(_ESCAPES)


def head(family: Family) -> str:
    return f"# HELP {family.name} {family.meaning}\n# TYPE {family.name} {family.kind}\n"


def text(family: Family, values: Values) -> str:
    """A family with few series."""
    return head(family) + "".join(f"{family.name}{_labels(family, key)} {value}\n" for key, value in values.items())


def _labels(family: Family, key: tuple[str, ...]) -> str:
    pairs = [f'{name}="{escaped(value)}"' for name, value in zip(family.labels, key, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def column(family: Family, labels: Iterable[str], values: Iterable[float | None]) -> str:
    """A family with one series for each shard, whose names are escaped already; None: there is no value."""
    name = family.name
    lines = [
        f'{name}{{shard="{label}"}} {value}\n' for label, value in zip(labels, values, strict=True) if value is not None
    ]
    return head(family) + "".join(lines)
