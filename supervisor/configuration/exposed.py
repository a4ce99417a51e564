"""Secrets that stand themselves in a file which every user of the host may read.

It looks at names (of headers, of parameters in a URL, of members in a JSON message), so that it finds what is called
a secret and nothing else. What a `${env:}`, `${file:}` or `${credential:}` inserts is none; its default is, and so is
the text around a `${shard}` and its like. No sentence repeats a value.
"""

from __future__ import annotations

import re

from supervisor.configuration.ini import Document, Problem
from workers.template import Placeholder
from workers.template import parse as parse_template

_ELSEWHERE = "\0"  # what comes from outside of the file
_ALWAYS = r"auth(?!or(?!i))|token|secret|passw|pass(?![a-z])|pwd|credential|(?<!de)sig(?:n(?:ature|ed)?)?(?![a-z])"
_NAMED_SO = rf"{_ALWAYS}|cookie|key|x-api"
# In a message "key" alone is more often the name of a channel.
_MEMBER_NAMED_SO = rf"{_ALWAYS}|(?:api|access|private)[_-]?key"
_HEADER = re.compile(_NAMED_SO, re.IGNORECASE)
_SCHEME = re.compile(r"\s*(?:bearer|basic|digest|token|bot|apikey)\b", re.IGNORECASE)
_URL = re.compile(rf"//[^/\s]*:[^/\s\0]+@|[?&][^=&\s]*(?:{_NAMED_SO})[^=&\s]*=[^\0&\s]", re.IGNORECASE)
_MEMBER = re.compile(
    rf'"[^"]*(?:{_MEMBER_NAMED_SO})[^"]*"\s*:\s*("(?:[^"\\]|\\.)*"|\[[^\]]*\]|\{{[^}}]*\}})', re.IGNORECASE
)


def exposed(document: Document) -> list[Problem]:
    """A sentence for each."""
    return [
        Problem(
            entry.place,
            f"SECRET EXPOSED: {name} holds a secret and every user of this host may read the file; chmod o-r it, "
            "change the secret, and better name a file of its own: ${file:PATH}",
        )
        for section in document.sections.values()
        for name, entry in section.entries.items()
        if entry.place.file in document.public and _is_literal_secret(name, entry.value)
    ]


def _is_literal_secret(name: str, text: str) -> bool:
    if name.startswith(("header.", "sink_header.")):
        return bool(_HEADER.search(name)) and _stands_there(_SCHEME.sub("", _literal(text), 1))
    if name in ("url", "proxy", "sink"):
        return bool(_URL.search(_literal(text)))
    return name == "subscribe" and any(map(_stands_there, _MEMBER.findall(_literal(text))))


def _literal(text: str) -> str:
    """What everybody reads in the file, with a mark for what comes from elsewhere."""
    return "".join(map(_read, parse_template(text).parts))


def _read(part: str | Placeholder) -> str:
    if isinstance(part, str):
        return part
    return (part.default or _ELSEWHERE) if part.source else ""


def _stands_there(value: str) -> bool:
    return _ELSEWHERE not in value and any(map(str.isalnum, value))
