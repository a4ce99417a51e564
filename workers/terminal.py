"""A line of the log as somebody at a terminal reads it: one line of text, that of the supervisor and of its children.

`12:00:00 INFO    lease.claimed trades/7 epoch=3 reason=free message`
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from workers.texts import printable

Write = Callable[[bytes], object]


def text_line(fields: Mapping[str, Any]) -> str:
    """`fields`: of a line of the log; whose id the supervisor has, the reader knows."""
    rest = {name: value for name, value in fields.items() if name != "supervisor"}
    time, level, event = (str(rest.pop(name)) for name in ("time", "level", "event"))
    shard, message = rest.pop("shard", ""), rest.pop("message", "")
    texts = [time[11:19], f"{level:<7}", event, shard, *(f"{name}={value}" for name, value in rest.items()), message]
    return printable(" ".join(str(text) for text in texts if text != ""))


def fit(fd: int, write: Write) -> Write:
    """`write`, which takes lines of JSON, such that a terminal gets lines of text."""
    return (lambda line: write(_as_text(line))) if os.isatty(fd) else write


def _as_text(line: bytes) -> bytes:
    import json  # here, since a child without a terminal needs no such thing

    return f"{text_line(json.loads(line))}\n".encode(errors="backslashreplace")
