"""Where in somebody else's code an exception came from, and how to say it in one short line.

What holds: frames of ours are never named, nor are those of the import machinery; a line has no line break, however
the exception's text looks. That text is repeated as it is: whoever raises keeps secrets out of it.
"""

from __future__ import annotations

import os
import sys
import traceback

from workers.websocket.cause import without_source

_SAID_MAX_BYTES = 300


def place(error: BaseException, own: str = "") -> str:
    """`file:line`: the innermost line in the file `own`, else the innermost that is not ours; empty: there is none."""
    ours = ("<", os.path.dirname(__file__) + os.sep)
    theirs = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(ours)
    ]
    preferred = [at for at in theirs if at[0] == own] or theirs
    return "{}:{}".format(*preferred[-1]) if preferred else ""


def file_of(kind: type) -> str:
    """Where a class was written; empty: nowhere."""
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""


def said(error: BaseException) -> str:
    """What was raised, as one line. Its text is somebody else's code too, and may raise itself."""
    try:
        text = " ".join(without_source(str(error)).split())
    except Exception:
        text = "its text cannot be had"
    return f"{type(error).__name__}{': ' if text else ''}{text}"


def in_words(error: BaseException, own: str = "") -> str:
    """What was raised and where, as one short line."""
    found = place(error, own)
    where = f" at {found}" if found else ""
    return said(error)[: _SAID_MAX_BYTES - len(where)] + where
