"""What of a file's text a message may repeat. Pure.

A mistake is often a secret in the wrong place: a line that lost its indentation, a value under the wrong key, a dollar
in a password. Messages go to logs, so that they repeat only what looks like what belongs there: words as keys and
sections have them, and short values of keys that nobody keeps a secret in. Everything else is three dots; the place
says where it stands. Names of files and of environment variables are taken for names.
"""

from __future__ import annotations

import re

DOTS = "..."
_KEY = re.compile(r"[A-Za-z_-]{1,32}[0-9]{0,2}|(?:sink_)?head[a-z]{0,4}\.([A-Za-z][A-Za-z0-9-]{0,39})?")
_SECTION = re.compile(r"[A-Za-z_-]{1,32}(:([A-Za-z0-9._-]{0,64}|[\w.,:/% -]{0,12}))?")
_VALUE = re.compile(r"[\w.,:/% -]{1,12}")


def key(name: str) -> str:
    return name if _KEY.fullmatch(name) else DOTS


def section(name: str) -> str:
    return name if _SECTION.fullmatch(name) else DOTS


def value(text: str) -> str:
    """In quotes, or an empty text: it is not to be repeated."""
    return repr(text) if _VALUE.fullmatch(text) else ""
