"""A commented configuration, printed from the table of keys; `etc/tenured.ini` is exactly this text.

It is valid as it stands: what a beginner sets is set, everything else is a comment with its default.
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.configuration.keys import STREAM, SUPERVISOR, Key, keys_of

_HEAD = """\
; The configuration of tenured. Comments stand on lines of their own; a line that begins with ";" and a key shows
; the default or an example. Durations: 250ms, 10s, 5m, 1h. Sizes: 64KiB, 1MiB. Relative paths are relative to the
; folder of this file. Placeholders: ${env:NAME}, ${file:PATH}, ${credential:NAME} everywhere; in url, subscribe and
; header.NAME also ${fleet} ${stream} ${shard} ${index} ${connection} ${epoch} ${checkpoint} ${host}. Each takes a
; default, ${env:NAME:-default}; $$ is a dollar. Inside JSON the inserted text is escaped.
; TENURED_STORE, TENURED_LEASE_DURATION, ... in the environment override the keys of [supervisor].
"""


def example() -> str:
    lines = [_HEAD, "[supervisor]", *_section(SUPERVISOR), "", "[stream:trades]", *_section(STREAM)]
    return "\n".join(lines) + "\n"


def _section(section: str) -> Iterator[str]:
    for key in keys_of(section).values():
        yield ""
        yield from (f"; {line}" for line in _notes(key))
        name = f"{key.name}Authorization" if key.name.endswith(".") else key.name
        yield f"{'' if key.shown else '; '}{name} = {key.example or key.default}"


def _notes(key: Key) -> Iterator[str]:
    yield from key.doc.split("\n")
    if key.required:
        yield "Required."
    if key.derived:
        yield f"Default: {key.derived}."
    elif key.example and key.default is not None:
        yield f"Default: {key.default}."
    if key.restart:
        yield "A change needs a restart."
