"""Whether a foreign package hides ours: our names `supervisor` and `workers` are plain words.

To be asked before anything of `workers` is imported; it imports neither package. It cannot see a foreign
`supervisor` that was found first, because then this file is never reached.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Iterable
from pathlib import Path

PACKAGES = ("supervisor", "workers")
_HERE = Path(__file__).resolve().parent.parent


def hidden_by(folders: Iterable[Path] = ()) -> str:
    """The file of a foreign package that hides one of ours, on `sys.path` or in `folders` (those of
    `python_path`, where handlers find their modules); empty: there is none."""
    for package in PACKAGES:
        ours = _HERE / package / "__init__.py"
        found = [importlib.util.find_spec(package)]
        found += [importlib.machinery.PathFinder.find_spec(package, [str(folder)]) for folder in folders]
        for spec in found:
            # A folder without __init__.py never wins against a package. And PyPI's `supervisor` may have written
            # the __init__.py of the folder that both share: it is the place that counts, not the content.
            if spec and spec.origin and Path(spec.origin).resolve() != ours:
                return spec.origin
    return ""
