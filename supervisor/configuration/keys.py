"""Every key of the configuration, once: parsing, `check`, `example` and `etc/tenured.ini` follow from this table.

A default is written as one would write it in the file and goes through the same parser; a key that is neither
required nor has a default gets its value from others (`derived` says how). The defaults of a stream's keys are those
of `StreamSpec`, because a child must behave the same whoever starts it.
"""

from __future__ import annotations

from supervisor.configuration import connection_keys, sink_keys, stream_keys, supervisor_keys, values
from supervisor.configuration.key import STREAM, SUPERVISOR, Key

__all__ = ["KEYS", "STREAM", "SUPERVISOR", "Key", "find", "keys_of", "meant"]

KEYS: tuple[Key, ...] = (*supervisor_keys.KEYS, *stream_keys.KEYS, *sink_keys.KEYS, *connection_keys.KEYS)


def keys_of(section: str) -> dict[str, Key]:
    """The keys of `supervisor` or `stream`, in order."""
    return {key.name: key for key in KEYS if key.section == section}


def find(section: str, name: str) -> Key | None:
    """The key that a name in the file means, or None."""
    known = keys_of(section)
    prefix = name[: name.find(".") + 1]
    if prefix and prefix in known and len(name) > len(prefix):
        return known[prefix]
    return None if name.endswith(".") else known.get(name)


def meant(section: str, name: str) -> str:
    """The nearest right name, or an empty text. After a prefix the rest is the user's own."""
    head, dot, rest = name.partition(".")
    prefixes = [key for key in keys_of(section) if key.endswith(".")]
    if f"{name.rstrip('s')}." in prefixes:
        return f"{name.rstrip('s')}.NAME"
    near = values.nearest(head + dot, prefixes) if dot else ""
    return near + rest if near else values.nearest(name, [key for key in keys_of(section) if not key.endswith(".")])
