"""What already stands where a folder or a file of ours is to be, and who may change that. It looks, and creates
nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def in_the_way(folder: Path) -> str:
    """What keeps a folder from being there or from being made, or an empty text. A folder that may not be looked
    into tells nothing: the supervisor may be another user."""
    for path in (folder, *folder.parents):
        if os.path.isdir(path):
            return ""
        if os.path.lexists(path):
            return f"{path} is no folder"
    return ""


def open_to_others(folder: Path) -> str:
    """The folder, or the nearest above it, in which every user of the host may put something else in the place of what
    is ours; an empty text: there is none that we may see. In a sticky one everybody keeps what is his."""
    for path in (folder, *folder.parents):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return str(path)
    return ""


def sink_in_the_way(path: str) -> str:
    """The same for the file of a `jsonl:` sink."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        return f"{path} is no regular file"
    return in_the_way(_folder_of_sink(path))


def absent_folder(path: str) -> Path | None:
    """The folder that the file of a `jsonl:` sink wants and that is not there."""
    folder = _folder_of_sink(path)
    return None if folder.is_dir() else folder


def _folder_of_sink(path: str) -> Path:
    """A sink may also be named by its folder."""
    return Path(path) if path.endswith("/") or os.path.isdir(path) else Path(path).parent
