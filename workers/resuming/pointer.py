"""JSON pointers (RFC 6901), and documents read so that a number stays exactly what was written.

What holds:

- `find` follows a pointer as the RFC says: `~1` stands for `/`, `~0` for `~`, an element of an array is named by its
  index without leading zeros; what is not there is `NOTHING`;
- `text` is a JSON string's text or a number's digits as they were written: 1.10 stays "1.10", and no size of a number
  changes it. Anything else, and an empty text, is None;
- a document is read at most once, and not at all where its text shows that no pointer leads anywhere in it: without a
  backslash in the text a member's name can only be written as it is.

What is no JSON is `NOTHING` too, whatever is wrong with it: a feed may send what it likes. Bytes are read as UTF-8.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from workers.websocket.frames import Message

NOTHING: Final = object()
_SPACE = " \t\n\r"


@dataclass(frozen=True, slots=True)
class Pointer:
    """A compiled pointer. `signs`: texts that a document without a backslash must have to be of any interest."""

    steps: tuple[str, ...]
    signs: tuple[str, ...]


def compiled(text: str) -> Pointer:
    """Raises ValueError."""
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON pointer, expected one such as /seq or /data/0/id")
    steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))
    # an index names no member where it meets an array; a name that JSON must escape comes with a backslash
    names = [step for step in steps if not _is_index(step)]
    return Pointer(steps, tuple(f'"{name}"' for name in names if json.dumps(name, ensure_ascii=False) == f'"{name}"'))


def _is_index(step: str) -> bool:
    return step == "0" or (step.isascii() and step.isdecimal() and not step.startswith("0"))


def find(pointer: Pointer, document: Any) -> Any:
    """What the pointer leads to, or `NOTHING`."""
    value = document
    for step in pointer.steps:
        if isinstance(value, dict):
            value = value.get(step, NOTHING)
        elif isinstance(value, list) and _is_index(step) and len(step) < 19 and int(step) < len(value):
            value = value[int(step)]
        else:
            return NOTHING
    return value


def text(pointer: Pointer, document: Any) -> str | None:
    """The text that the pointer leads to in a document of `Reader`, which reads numbers as their text."""
    value = find(pointer, document)
    return value if isinstance(value, str) and value else None


class Reader:
    """Reads documents for the sake of some pointers."""

    __slots__ = ("_decode", "_signs")

    def __init__(self, *pointers: Pointer) -> None:
        # the numbers' hook is `str` itself, which returns what it is given: no copy, and nothing to be rounded
        self._decode = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
        self._signs = [pointer.signs for pointer in pointers]

    def read(self, message: Message) -> Any:
        """The document, or `NOTHING` where none of the pointers leads anywhere."""
        try:
            whole = (message if isinstance(message, str) else message.decode()).strip(_SPACE)
            if "\\" not in whole and not any(all(sign in whole for sign in signs) for signs in self._signs):
                return NOTHING
            document, end = self._decode(whole)
        except (ValueError, RecursionError):  # not UTF-8, not JSON, nested deeper than the stack
            return NOTHING
        return document if end == len(whole) else NOTHING
