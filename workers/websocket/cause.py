"""What an error of a socket or of TLS says, in words for people.

Python's texts of TLS name a line of its own C source (`_ssl.c:1006`), which says nothing to whoever reads a log.
"""

from __future__ import annotations

import re
import ssl

_SOURCE = re.compile(r"^_ssl\.c:\d+: |^\[(?:SSL|X509|PEM|ASN1|SYS)[^\]]*\] | \(_ssl\.c:\d+\)")


def cause_of(error: OSError | UnicodeError) -> str:
    """One phrase, never empty."""
    reason = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else None  # not all of them have one
    if reason:
        return str(reason).lower().replace("_", " ")
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return without_source(said) or type(error).__name__


def without_source(text: str) -> str:
    """The text of any error, which may be one of TLS."""
    return _SOURCE.sub("", text)
