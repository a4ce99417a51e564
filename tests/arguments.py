"""Numbers on the command lines of campaigns and benchmarks: one that would do nothing is refused, with a sentence."""

from __future__ import annotations

import argparse


def whole(text: str) -> int:
    """A whole number from 1 on."""
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")


def amount(text: str) -> float:
    """A number above 0."""
    try:
        if 0 < (number := float(text)) < float("inf"):
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
