"""All placeholders of a value that mean nothing, at once. Pure.

A piece of a secret with a dollar in it looks like one, so that no sentence repeats any: its number says which.
"""

from __future__ import annotations

from workers.template import DOLLAR, TemplateError, parse

_INSTEAD = "1"  # as in the outline of a template


def mistakes(text: str) -> tuple[list[str], str]:
    """A sentence for each, with its number if there are several; and the text without them, for other mistakes."""
    found: list[tuple[int, str]] = []
    mended, position, number = "", 0, 0
    for match in DOLLAR.finditer(text):
        number += match[0] != "$$"
        try:
            parse(match[0])
        except TemplateError as error:
            found.append((number, str(error)))
            mended += text[position : match.start()] + _INSTEAD
            position = match.end()
    mended += text[position:]
    if len(found) == 1:
        return [found[0][1]], mended
    return [f"placeholder {number}: {sentence}" for number, sentence in found], mended
