"""Texts of others made fit to be shown: what cannot be seen as its code, and no more than there is room for. Pure.

A far end chooses the reason of its close frames, and whoever can write to the store the names in it. A terminal obeys
some of the characters that such a text may hold, U+009B as well as ESC, and others turn the direction of writing.
"""

from __future__ import annotations

_GAP = "..."


def printable(text: str) -> str:
    """What would not be seen, moves the cursor, or turns the direction of writing, as its code."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    """The same for a text of JSON, which keeps its meaning: its strings may hold each character as an escape."""
    return text if text.isprintable() else "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    pairs = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))


def shortened(text: str, max_bytes: int) -> str:
    """At most so many bytes of UTF-8, without its middle if it has more: what went wrong stands at the beginning of an
    error, and where at its end."""
    data = text.encode(errors="replace")
    if len(data) <= max_bytes:
        return data.decode()
    end = (max_bytes - len(_GAP)) // 2
    begin = max_bytes - len(_GAP) - end
    return data[:begin].decode(errors="ignore") + _GAP + data[-end:].decode(errors="ignore")
