"""What the file's pointers lead to in one message, in words: for whoever looks whether they are right. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from workers.resuming import pointer
from workers.resuming.pointer import NOTHING, Pointer, Reader
from workers.spec import StreamSpec
from workers.texts import printable, shortened
from workers.websocket.frames import Message

_SHOWN_MAX_BYTES = 80
_NAMES_MAX = 20
_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_WHOLE = Pointer((), ())  # leads somewhere in each document, so that all are read


def looked(spec: StreamSpec, message: Message) -> Iterator[tuple[str, str]]:
    """Each key of the file that holds a pointer into messages, and what that finds in this one. Behind a handler `id`
    is looked for in events, of which there are none here."""
    wanted = {"checkpoint": spec.checkpoint, "id": "" if spec.handler else spec.id, "sequence": spec.sequence}
    document = Reader(_WHOLE).read(message)
    for key, text in wanted.items():
        if text:
            yield key, f"{text}: {_found(key, pointer.compiled(text), document)}"


def _found(key: str, where: Pointer, document: Any) -> str:
    if document is NOTHING:
        return "not in this message, which is no JSON"
    value = pointer.find(where, document)
    if value is NOTHING:
        return f"not in this message{_there(where, document)}"
    text = pointer.text(where, document)
    if text is None:
        return f"leads to {_kind(value)}, expected a text or a number"
    shown = printable(shortened(text, _SHOWN_MAX_BYTES))
    if key == "sequence" and not _INTEGER.fullmatch(text):
        return f"leads to {shown}, expected an integer"
    return shown


def _there(where: Pointer, document: Any) -> str:
    """The names at the first step that leads nowhere."""
    value, at = document, ""
    for step in where.steps:
        deeper = pointer.find(Pointer((step,), ()), value)
        if deeper is NOTHING:
            break
        value, at = deeper, f"{at}/{step}"
    it = f"{printable(at)} has" if at else "it has"
    if not isinstance(value, dict):
        return f" ({printable(at) or 'it'} is {_kind(value)})"
    names = [printable(shortened(name, _SHOWN_MAX_BYTES)) for name in value]
    more = ", ..." if len(names) > _NAMES_MAX else ""
    return f" ({it} {', '.join(names[:_NAMES_MAX]) or 'no member'}{more})"


def _kind(value: Any) -> str:
    """Of a document whose numbers are read as their text."""
    kinds = {dict: "an object", list: f"an array of {len(value)}" if isinstance(value, list) else "", bool: "a boolean"}
    if value is None:
        return "null"
    if value == "":
        return "an empty text"
    return kinds.get(type(value), "a text or a number")
