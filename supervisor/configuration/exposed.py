"""Secrets that stand themselves in a file which every user of the host may read.

It looks at names (of headers, of parameters in a URL, of members in a JSON message), so that it finds what is called
a secret and nothing else. A text with a placeholder in the secret's place is none. No sentence repeats a value.
"""

from __future__ import annotations

import re

from supervisor.configuration.ini import Document, Problem
from workers.template import parse as parse_template

_NAMED_SO = r"auth|cookie|token|key|secret|passw|sign|credential"
# In a message "key" alone is more often the name of a channel.
_MEMBER_NAMED_SO = r"auth|token|(?:api|access|private|secret)[_-]?key|secret|passw|signature|credential"
_HEADER = re.compile(_NAMED_SO, re.IGNORECASE)
_URL = re.compile(rf"//[^/\s]*:[^/\s$]+@|[?&][^=&\s]*(?:{_NAMED_SO})[^=&\s]*=[^$&\s]", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_MEMBER = re.compile(rf'"[^"]*(?:{_MEMBER_NAMED_SO})[^"]*"\s*:\s*"((?:[^"\\]|\\.)+)"', re.IGNORECASE)


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
    if name.startswith("header."):
        return bool(_HEADER.search(name)) and not parse_template(text).placeholders
    if name == "url":
        return bool(_URL.search(_PLACEHOLDER.sub("$", text)))
    return name == "subscribe" and any("${" not in value for value in _MEMBER.findall(text))
