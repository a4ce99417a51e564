"""Folders that are for our own user alone, also those above them that were missing: whoever may write to one of these
could put another folder in the place of ours. What is there already is somebody's decision and stays as it is."""

from __future__ import annotations

from pathlib import Path


def make_folder(folder: Path) -> None:
    """Raises OSError where it cannot be made, or is no folder."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in (*reversed(missing), folder):
        path.mkdir(mode=0o700, exist_ok=True)
