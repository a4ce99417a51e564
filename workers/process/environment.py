"""The environment of a child: exactly what its task says, whatever the fork server's is.

What holds: a variable that is the same on both sides is not touched. Each use of `os.environ` writes to pages that a
child shares with the fork server, so that setting all anew would cost every child a quarter of a megabyte.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_FOR_IMPORTS = ("PYTHON", "LD_LIBRARY_PATH", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def packed(environment: Mapping[str, str]) -> bytes:
    """Each variable as NAME=VALUE and a NUL, which neither can hold; in order, so that the same comes out the same."""
    return b"".join(os.fsencode(f"{name}={environment[name]}\0") for name in sorted(environment))


def forget_what_imports_needed() -> None:
    """In the fork server, once everything is imported: what no child gets by itself."""
    for name in [name for name in os.environ if name.startswith(_FOR_IMPORTS)]:
        del os.environ[name]


def become(wanted: bytes, ours: bytes) -> None:
    """Make `os.environ`, which is `ours` when packed, what `wanted` is."""
    old, new = _unpacked(ours), _unpacked(wanted)
    for name in old.keys() - new.keys():
        del os.environ[name]
    for name, value in new.items():
        if old.get(name) != value:
            os.environ[name] = value


def _unpacked(data: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(variable).partition("=") for variable in data.split(b"\0")[:-1])
    return {name: value for name, _, value in pairs}
