"""Slips of the pen that any value may have: what a mistaken value lacks, and what a valid one probably should not have.
Pure.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"\s[;#]")
_QUOTES = ("'", '"')


def hint(text: str) -> str:
    """The end of a sentence about a value that is none; empty: nothing is known that could be the reason."""
    if _COMMENT.search(text):
        return "; comments stand on lines of their own, not behind a value"
    if _is_quoted(text):
        return "; values stand without quotes"
    return ""


def doubt(text: str) -> str:
    """What is said of a value that is possible, and still hardly meant; empty: nothing."""
    if _COMMENT.search(text):
        return "all of the line is its value; comments stand on lines of their own"
    if _is_quoted(text):
        return "the quotes are part of its value; values stand without them"
    return ""


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES


# --- JSON pointers ----------------------------------------------------------------------------------------

_STEPS = re.compile(r"(?:\$\.?)?([A-Za-z_][\w-]*(?:\.[A-Za-z_0-9][\w-]*|\[[0-9]{1,9}\])*)", re.ASCII)


def pointer_meant(text: str) -> str:
    """`seq`, `data.id`, `$.data[0].id` as a JSON pointer; empty: it is no such thing."""
    match = _STEPS.fullmatch(text)
    return "/" + match[1].replace("[", ".").replace("]", "").replace(".", "/") if match else ""


# --- numbers with a unit ----------------------------------------------------------------------------------

_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?\s*([A-Za-z]{0,12})")
_UNITS_OF_TIME = {
    **dict.fromkeys(("msec", "msecs", "millis", "milliseconds", "ms"), 1),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_UNITS_OF_SIZE = {"": "B", "b": "B", "k": "KiB", "m": "MiB", "g": "GiB"}


def milliseconds_meant(text: str) -> int | None:
    """`30`, `30 s`, `30sec` and `1.5s`; None: it is no such thing."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    unit_ms = _UNITS_OF_TIME.get(match[3].lower()) if match else None
    if match is None or unit_ms is None:
        return None
    return int(match[1]) * unit_ms + int((match[2] or "").ljust(3, "0")) * unit_ms // 1000


def size_meant(text: str) -> str:
    """`64k`, `1MB` and `10 GiB` as one writes them here; empty: it is no such thing."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match[2]:
        return ""
    unit = match[3].lower()
    known = _UNITS_OF_SIZE.get(unit if unit in ("", "b") else unit.removesuffix("b").removesuffix("i"))
    return f"{match[1]}{known}" if known else ""
