"""Which hosts do not want to see us before when, as a few words of the board: child and parent tell each other.

One word is one host and its time, so that a reader sees both or neither: the time in milliseconds, and a mark of the
host below it. What holds: at most `FLOORS_MAX` hosts at once, those that ask for the longest. Two hosts with one mark
(one chance in four million) hold each other back, which costs a wait.

Pure but for the words that it is given.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

FLOORS_MAX = 8
_MARK_BITS = 22
_MS = 1_000_000

Floors = dict[int, int]  # by mark: nanoseconds


def mark_of(host: str) -> int:
    """Of host and port, as a url has them; the same in every process."""
    return zlib.crc32(host.lower().encode()) & ((1 << _MARK_BITS) - 1)


def merged(known: Mapping[int, int], heard: Mapping[int, int], now_ns: int) -> Floors:
    """The later time of each host, without what has passed."""
    latest = {mark: max(known.get(mark, 0), heard.get(mark, 0)) for mark in {*known, *heard}}
    ahead = sorted(((mark, until_ns) for mark, until_ns in latest.items() if until_ns > now_ns), key=lambda one: one[1])
    return dict(ahead[-FLOORS_MAX:])


def write(words: memoryview, first: int, floors: Mapping[int, int]) -> None:
    packed = [-(-until_ns // _MS) << _MARK_BITS | mark for mark, until_ns in floors.items()]
    for number, word in enumerate([*packed, *[0] * (FLOORS_MAX - len(packed))]):
        words[first + number] = word


def read(words: memoryview, first: int) -> Floors:
    found: Floors = {}
    for number in range(first, first + FLOORS_MAX):
        word = words[number]
        if not word:
            break
        mark = word & ((1 << _MARK_BITS) - 1)
        found[mark] = max(found.get(mark, 0), (word >> _MARK_BITS) * _MS)
    return found
