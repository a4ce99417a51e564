"""Names of shards in bulk: the folded form in which a member row carries them, and the set that it stands for. Pure.

Rows of the store are untrusted, and a text of twenty bytes can stand for a billion names. What holds: whatever is asked
of a set costs time and memory by the texts that it was made of, not by the names that it stands for; only who iterates
has names made. `missing` says which of them a reader has to list, in a bounded number.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

SHARDS_MAX = 10_000  # of one configuration, so of one member row, and of what is listed for all of them without a row

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_RANGE = re.compile(r"(.+)/([0-9]{1,9})-([0-9]{1,9})")
_ENDLESS = 10**9

Run = tuple[int, int]  # its first and its last number


@dataclass(frozen=True, slots=True)
class Names:
    """The names that `folded` stands for; two with the same texts are equal. See `expand`."""

    folded: tuple[str, ...]
    _runs: Mapping[str, Sequence[Run]] = field(compare=False, repr=False)  # by stream, ascending, none touches another
    _single: frozenset[str] = field(compare=False, repr=False)  # what is in no run

    def __contains__(self, name: object) -> bool:
        return name in self._single or (isinstance(name, str) and _is_in(self._runs, name))

    def __iter__(self) -> Iterator[str]:
        for stream, runs in self._runs.items():
            for first, last in runs:
                yield from (f"{stream}/{number}" for number in range(first, last + 1))
        yield from self._single

    def __len__(self) -> int:
        return len(self._single) + sum(last - first + 1 for runs in self._runs.values() for first, last in runs)


def compact(shards: tuple[str, ...]) -> tuple[str, ...]:
    """Names with runs of numbers folded: `trades/0 trades/1 trades/2 chat` -> `trades/0-2 chat`."""
    folded: list[str] = []
    run: tuple[str, int, int] | None = None
    for name in shards:
        stream, slash, index = name.rpartition("/")
        number = int(index) if slash and _INDEX.fullmatch(index) else None
        if run and number is not None and run[0] == stream and run[2] + 1 == number:
            run = (stream, run[1], number)
            folded[-1] = f"{stream}/{run[1]}-{number}"
            continue
        run = (stream, number, number) if number is not None else None
        folded.append(name)
    return tuple(folded)


def expand(folded: Iterable[str]) -> Names:
    """The inverse of `compact`, as a set. A text that is no range stands for itself."""
    texts = tuple(folded)
    spans: dict[str, list[Run]] = {}
    single: set[str] = set()
    for text in texts:
        if found := _range(text):
            spans.setdefault(found[0], []).append(found[1])
        else:
            single.add(text)
    runs = {stream: _apart(found) for stream, found in spans.items()}
    return Names(texts, runs, frozenset(name for name in single if not _is_in(runs, name)))


def union(sets: Iterable[Names]) -> Names:
    return expand(chain.from_iterable(names.folded for names in sets))


def count(folded: Iterable[str]) -> int:
    """How many names these texts stand for, one that stands twice counted twice. Cheaper than to `expand` them."""
    return sum(found[1][1] - found[1][0] + 1 if (found := _range(text)) else 1 for text in folded)


def missing(sets: Iterable[Names], rows: Collection[str]) -> tuple[set[str], frozenset[Names]]:
    """The names of these sets that have no row, at most `SHARDS_MAX`; and the sets that were left out, since with them
    there would be more. The smallest go first, so that a set that names many cannot push out one that names few."""
    ordered = sorted(set(sets), key=lambda names: (len(names), names.folded))

    def are_too_many(number: int) -> bool:
        names = union(ordered[:number])
        size = len(names)
        return size > SHARDS_MAX and size - sum(row in names for row in rows) > SHARDS_MAX

    kept = len(ordered)
    if are_too_many(kept):
        kept = bisect_left(range(kept), True, lo=1, key=are_too_many) - 1
    return {name for name in union(ordered[:kept]) if name not in rows}, frozenset(ordered[kept:])


def _range(text: str) -> tuple[str, Run] | None:
    match = _RANGE.fullmatch(text) if "-" in text else None
    if match is None or int(match[2]) > int(match[3]):
        return None
    return match[1], (int(match[2]), int(match[3]))


def _apart(runs: list[Run]) -> list[Run]:
    """The same numbers in ascending runs of which none touches the next."""
    merged: list[Run] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _is_in(runs: Mapping[str, Sequence[Run]], name: str) -> bool:
    stream, _, index = name.rpartition("/")
    found = runs.get(stream)
    if found is None or not _INDEX.fullmatch(index):
        return False
    number = int(index)
    at = bisect_right(found, (number, _ENDLESS))
    return at > 0 and number <= found[at - 1][1]
