"""Chance for a child. Not `random`, which is seeded anew at each fork, in a page that a child would else share."""

from __future__ import annotations

import os


def chance() -> float:
    """From 0 to below 1."""
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)
