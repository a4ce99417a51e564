"""What a server means by Retry-After (RFC 9110, section 10.2.3)."""

from __future__ import annotations


def retry_after_s(text: str | None, unix_s: float) -> float:
    """Seconds from now; 0: it says nothing, or nothing that can be understood."""
    if not text:
        return 0.0
    # not at the top: it imports `random`, whose hook at each fork would cost every child more than this is worth
    from email.utils import parsedate_to_datetime

    try:
        number = text.isascii() and text.strip().isdecimal()
        wanted_s = float(text) if number else parsedate_to_datetime(text).timestamp() - unix_s
    except (ValueError, OverflowError):
        return 0.0
    return max(wanted_s, 0.0)
