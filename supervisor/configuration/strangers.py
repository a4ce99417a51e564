"""Keys that there are elsewhere and not here, and what to say to whoever looks for one. Pure."""

from __future__ import annotations

_LINES = "several urls are indented lines of one url key"
_VERIFIED = "the certificate of a server is always verified; tls_ca names those to trust"
_TIMEOUTS = "the timeouts are connect_timeout, ping_timeout, frame_timeout and idle_timeout"
_SAID = {
    **dict.fromkeys(("ws", "wss"), _LINES),  # what a url becomes as a line of its own
    **dict.fromkeys(("insecure", "ssl_verify", "tls_insecure", "tls_skip_verify", "tls_verify", "verify"), _VERIFIED),
    "timeout": _TIMEOUTS,
}


def said(name: str) -> str:
    """Of an unknown key of a stream: the end of a sentence; empty: nothing is known of it."""
    return _SAID.get(name.lower(), "")
